package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/plain"
)

// A formAsked is the form of the first prompt, which lines fill in.
type formAsked struct {
	prompt  string // its key, as in chatting.shown
	filling *form.Filling
}

// promptKey returns a key that identifies a prompt.
func promptKey(p follow.Prompt) string { return p.ID + " " + p.Since.String() }

// askForm shows the first field of the form of the first prompt, if it has a
// valid form that is not being filled in yet.
func (c *chatting) askForm() {
	open := c.choices()
	if len(open) == 0 || open[0].Form == nil || c.form.prompt == promptKey(open[0]) {
		return
	}
	f, err := form.Parse(open[0].Form)
	if err != nil {
		return // the choices are shown instead
	}
	c.form = formAsked{promptKey(open[0]), form.NewFilling(f)}
	fmt.Fprintln(c.out, c.form.filling.Ask())
}

// fill enters a line into a form. It reports false if the prompt has none.
func (c *chatting) fill(ctx context.Context, p follow.Prompt, line string) (bool, error) {
	if p.Form == nil || c.form.prompt != promptKey(p) {
		return false, nil
	}
	done, err := c.form.filling.Enter(line)
	if err != nil {
		fmt.Fprintf(c.out, "%s\n", plain.Line(err.Error()))
	}
	if !done {
		fmt.Fprintln(c.out, c.form.filling.Ask())
		return true, nil
	}
	values, err := form.Filled(c.form.filling.Values())
	if err != nil {
		return true, err
	}
	c.drop(p)
	body := struct {
		ID     string         `json:"id"`
		Values jsontext.Value `json:"values"`
	}{p.ID, values}
	err = c.ask(ctx, http.MethodPost, "/threads/"+edge.Segment(c.thread)+"/answers", body, http.StatusNoContent, http.StatusNotFound)
	c.askForm()
	return true, err
}
