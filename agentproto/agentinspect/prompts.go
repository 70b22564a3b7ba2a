package agentinspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/weburl"
)

// A prompt is an open prompt of a call, in JSON. All texts come from the tool server.
type prompt struct {
	Thread    string    `json:"thread"`
	ID        string    `json:"id"` // of the call
	Operation string    `json:"operation,omitempty"`
	Toolset   string    `json:"toolset,omitempty"`
	Since     time.Time `json:"since"`
	AuthURL   string    `json:"auth_url,omitempty"`
	Host      string    `json:"host,omitempty"` // the host of AuthURL, written so that it cannot be mistaken for another one
	Prompt    string    `json:"prompt,omitempty"`
	Choices   []string  `json:"choices,omitempty"`
	Default   int       `json:"default,omitempty"`
	// Form is what the user can fill in instead of choosing, as package form defines it; nil for nothing.
	Form jsontext.Value `json:"form,omitzero"`
}

// promptsOf returns the open prompts, oldest first.
func (v *view) promptsOf(wanted func(prompt) bool) []prompt {
	all := []prompt{}
	for _, open := range v.rt.Prompts() {
		p := prompt{Thread: open.Key.GroupID, ID: open.Key.ID, Operation: open.Operation, Toolset: open.Toolset, Since: open.Since.UTC()}
		if !wanted(p) {
			continue
		}
		if open.Choice != nil {
			p.Prompt, p.Default = cut(open.Choice.Prompt), open.Choice.Default
			for _, c := range open.Choice.Choices {
				p.Choices = append(p.Choices, cut(c))
			}
			p.Form = open.Choice.Form
		} else {
			p.AuthURL, p.Host, _ = weburl.Show(open.OAuth.AuthURL)
		}
		all = append(all, p)
	}
	return all
}

// prompts shows the open prompts.
func (v *view) prompts(q request) error {
	all := v.promptsOf(func(prompt) bool { return true })
	return q.show("prompts", "prompts", struct {
		At       time.Time `json:"at"`
		Prompts  []prompt  `json:"prompts"`
		Answers  bool      `json:"-"`
		Answered bool      `json:"-"`
	}{time.Now().UTC(), all, v.options.Answers, q.r.URL.Query().Has("answered")})
}

// takeAnswer takes the answer to a prompt from a posted form, and redirects to the remaining prompts.
func (v *view) takeAnswer(q request) error {
	if !v.options.Answers || !q.page.Values() {
		return problem{http.StatusForbidden, "nothing can be answered here: see agentinspect.Options.Answers"}
	}
	posted, err := edge.ReadForm(q.w, q.r)
	if err != nil {
		return problem{http.StatusBadRequest, "the answer is no form: " + err.Error()}
	}
	key := agentproto.CallKey{GroupID: posted.Get("thread"), ID: posted.Get("id")}
	filled := posted.Has("fill")
	selected, err := strconv.Atoi(posted.Get("selected"))
	if err != nil && !filled {
		return problem{http.StatusBadRequest, `"selected" is the number of a choice`}
	}
	since, err := time.Parse(time.RFC3339Nano, posted.Get("since"))
	if err != nil {
		return problem{http.StatusBadRequest, `"since" is when the prompt was shown`}
	}
	for _, open := range v.rt.Prompts() {
		// The form of an earlier prompt of the call is no answer to this one.
		if open.Key != key || open.Choice == nil || !open.Since.Equal(since) {
			continue
		}
		give := func() error { return v.rt.Answer(q.r.Context(), key, open.Choice.ResponseURL, selected) }
		if filled {
			values, err := valuesOf(open.Choice, posted)
			if err != nil {
				return problem{http.StatusBadRequest, err.Error()}
			}
			now, err := v.rt.Describe(q.r.Context(), key)
			if err != nil {
				return err
			}
			if now.Prompt == nil || now.Prompt.Choice == nil || now.Prompt.Choice.ResponseURL != open.Choice.ResponseURL {
				break // another prompt is open by now
			}
			give = func() error { return v.rt.AnswerForm(q.r.Context(), key, now.Prompt.Number, values) }
		}
		switch err := give(); {
		case errors.Is(err, host.ErrBadChoice):
			return problem{http.StatusBadRequest, err.Error()}
		case err != nil:
			return err
		}
		q.w.Header().Set("Location", "prompts?answered=1")
		q.w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	return problem{http.StatusNotFound, "this is not asked: it was answered, or taken back"}
}

// inputOf names the input of a field on the page.
func inputOf(question, field int) string { return fmt.Sprintf("f%d.%d", question, field) }

// preset reports whether a value, or the whole text of an input, is the default of a field.
func preset(f form.Field, value string) bool {
	var one string
	var some []string
	switch {
	case f.Default == nil:
		return false
	case f.Kind == form.Choices:
		return json.Unmarshal(f.Default, &some) == nil && slices.Contains(some, value)
	case json.Unmarshal(f.Default, &one) == nil:
		return one == value
	}
	return string(f.Default) == value
}

// presetText returns the default of a field as the text of its input.
func presetText(f form.Field) string {
	var text string
	if f.Default == nil || json.Unmarshal(f.Default, &text) == nil {
		return text
	}
	return string(f.Default)
}

// valuesOf reads what was filled in of a choice's form. A question whose box "decline" is checked was declined.
func valuesOf(c *agentproto.UserChoice, posted url.Values) (map[string]jsontext.Value, error) {
	f, err := form.Parse(c.Form)
	if err != nil {
		return nil, errors.New("there is no form to fill in")
	}
	all := map[string]jsontext.Value{}
	for i := range f.Questions {
		q := &f.Questions[i]
		if posted.Has(fmt.Sprintf("d%d", i)) {
			all[q.Name] = nil
			continue
		}
		values := map[string]jsontext.Value{}
		for n := range q.Fields {
			v, err := q.Fields[n].Posted(posted[inputOf(i, n)])
			if err != nil {
				return nil, err
			}
			if v != nil {
				values[q.Fields[n].Name] = v
			}
		}
		if all[q.Name], err = form.Filled(values); err != nil {
			return nil, err
		}
	}
	return all, nil
}
