package outgoing

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/leak"
)

// Clean returns a message in which every text that contains a secret is replaced and the rest is
// unchanged; no message is held back (threat 23). It searches each string of the tool separately.
// The other strings are ids, which the runtime has chosen, and addresses, which the server has
// made.
func (mk *Maker) Clean(msg agentproto.Callback, of *agentproto.Invocation) agentproto.Callback {
	w := &withholder{guard: mk.guard}
	switch m := msg.(type) {
	case *agentproto.ToolResult:
		msg = w.result(m)
	case *agentproto.SubscriptionEvent:
		clean := *m
		clean.Text = w.text(m.Text)
		msg = &clean
	case *agentproto.UserChoice:
		clean := *m
		clean.Prompt, clean.Choices = w.text(m.Prompt), make([]string, len(m.Choices))
		for i, choice := range m.Choices {
			clean.Choices[i] = w.text(choice)
		}
		clean.Form = w.json(m.Form)
		msg = &clean
	case *agentproto.ViewUpdate:
		clean := *m
		clean.ViewType, clean.Content = w.text(m.ViewType), w.json(m.Content)
		msg = &clean
	}
	if w.found {
		mk.log.Error("a credential was withheld", "message", msg.Type(), "tool", of.Operation, "call", of.ID)
	}
	return msg
}

// A withholder replaces texts that contain a secret.
type withholder struct {
	guard *leak.Guard
	found bool
}

func (w *withholder) text(text string) string {
	clean, found := w.guard.Clean(text)
	w.found = w.found || found
	return clean
}

// result returns a result without secrets. If none of its content is left, it becomes an error
// result.
func (w *withholder) result(r *agentproto.ToolResult) *agentproto.ToolResult {
	clean := *r
	left := false
	if r.Text != nil {
		text := w.text(*r.Text)
		clean.Text, left = &text, text != leak.Withheld
	}
	if r.Content != nil {
		clean.Content = make([]agentproto.Content, len(r.Content))
	}
	for i, c := range r.Content {
		was := w.found
		w.found = false
		if c.Text = w.text(c.Text); w.text(c.Type+" "+c.MediaType) == leak.Withheld || w.text(c.Data) == leak.Withheld {
			c = agentproto.Content{Type: agentproto.KindText, Text: leak.Withheld}
		}
		left = left || !w.found
		w.found = w.found || was
		clean.Content[i] = c
	}
	clean.DisplayAs = nil
	for _, d := range r.DisplayAs {
		was := w.found
		w.found = false
		w.display(d)
		if w.found {
			d = agentproto.Display{Type: agentproto.KindText, Text: leak.Withheld}
		}
		w.found = w.found || was
		clean.DisplayAs = append(clean.DisplayAs, d)
	}
	if w.found && !left {
		text := textWithheld
		clean.Text, clean.Content, clean.Subscription = &text, nil, false
	}
	return &clean
}

// display searches a way to show a result.
func (w *withholder) display(d agentproto.Display) {
	w.text(d.Type)
	w.text(d.Text)
	if d.Diff != nil {
		w.text(d.Diff.Path)
		w.text(d.Diff.Patch)
	}
	if d.Image != nil {
		w.text(d.Image.Data)
		w.text(d.Image.MediaType)
	}
}

// json returns an object without secrets in its strings and member names.
func (w *withholder) json(object jsontext.Value) jsontext.Value {
	if !w.guard.Finds(object) {
		return object
	}
	w.found = true
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	var v any
	if d.Decode(&v) == nil {
		if clean, err := json.Marshal(w.in(v)); err == nil && !w.guard.Finds(clean) {
			return clean
		}
	}
	clean, _ := json.Marshal(map[string]string{"withheld": leak.Withheld}) // the secret is spread over more than one string
	return clean
}

func (w *withholder) in(v any) any {
	switch v := v.(type) {
	case string:
		return w.text(v)
	case []any:
		for i, x := range v {
			v[i] = w.in(x)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k, x := range v {
			clean[strings.Clone(w.text(k))] = w.in(x)
		}
		return clean
	}
	return v
}
