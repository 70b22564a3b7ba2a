package toolserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// guests returns a form of two questions. With defaults, the required field has a default.
func guests(defaults bool) form.Form {
	name := form.Field{Name: "name", Kind: form.Text, Required: true}
	if defaults {
		name.Default = jsontext.Value(`"nobody"`)
	}
	return form.Form{Questions: []form.Question{
		{Name: "guest", Message: "Who comes?", Fields: []form.Field{name}},
		{Name: "late", Message: "Late?", Fields: []form.Field{{Name: "sure", Kind: form.Boolean}}},
	}}
}

// addForm adds a tool that asks a form and returns the values.
func addForm(s *toolserver.Server, f form.Form) {
	toolserver.Add(s, "form", "Asks for guests.", func(ctx context.Context, _ none) (string, error) {
		a, err := toolserver.Ask(ctx, toolserver.Question{Form: f})
		if err != nil {
			return "", err
		}
		filled, err := form.Filled(a.Values)
		return string(filled), err
	})
}

// TestForm asks a form. Invalid values are asked again with the reason, and never reach the function.
func TestForm(t *testing.T) {
	huge := `{"id":"c1","selected":0,"x-values":{"guest":{"name":"` + strings.Repeat("x", 1<<20-200) + `"}}}`
	answer := func(values string) string { return `{"id":"c1","selected":0,"x-values":` + values + `}` }
	for _, c := range []struct {
		name     string
		defaults bool
		choices  string
		answers  []string
		why      []string // reasons in the repeated questions
		want     string
	}{
		{"filled in", false, "[Decline] 0", []string{answer(`{"guest":{"name":"Ada"},"late":{"sure":true}}`)}, nil, `{"guest":{"name":"Ada"},"late":{"sure":true}}`},
		{"in part", false, "", []string{answer(`{"guest":{"name":"Ada"},"late":null}`)}, nil, `{"guest":{"name":"Ada"}}`},
		{"nothing", false, "", []string{answer(`{}`)}, nil, `{}`},
		{"declined", false, "", []string{`{"id":"c1","selected":0}`}, nil, `{}`},
		{"defaults", true, "[Send the defaults Decline] 1", []string{`{"id":"c1","selected":0}`}, nil, `{"guest":{"name":"nobody"},"late":{}}`},
		{"declined with defaults", true, "", []string{`{"id":"c1","selected":1}`}, nil, `{}`},
		{
			"asked again", false, "", []string{answer(`{"guest":{"name":7}}`), answer(`{"guest":{"name":"Ada","more":1}}`), answer(`{"guest":{"name":"Ada"}}`)},
			[]string{`"name" of "guest" has to be a text`, `"more" of "guest" was not asked for`}, `{"guest":{"name":"Ada"}}`,
		},
		{"1 MiB", false, "", []string{huge, answer(`{"guest":{"name":"Ada"}}`)}, []string{"not one of the choices"}, `{"guest":{"name":"Ada"}}`},
		{"no object", false, "", []string{answer(`[1]`), answer(`{}`)}, []string{"not one of the choices"}, `{}`},
		{"never right", false, "", []string{answer(`{"x":{}}`), answer(`{"guest":{}}`), answer(`{"guest":3}`)}, []string{`"x" was not asked for`, `is missing`}, "Error: the answer is not one of the choices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := newRuntime(t, toolserver.Options{})
				addForm(rt.server, guests(c.defaults))
				rt.call("form", "c1", "{}")
				for i, a := range c.answers {
					q, path := rt.question()
					if got := fmt.Sprint(q.Choices, q.Default); c.choices != "" && got != c.choices {
						t.Errorf("choices %s, want %s", got, c.choices)
					}
					f, err := form.Parse(q.Form)
					if err != nil || len(f.Questions) != 2 {
						t.Fatalf("the form %s: %v", q.Form, err)
					}
					if i == 0 && q.Prompt != "Who comes?\nLate?" || i > 0 && (!strings.Contains(q.Prompt, c.why[i-1]) || !strings.Contains(string(q.Form), "was not taken")) {
						t.Errorf("asked %q with %s", q.Prompt, q.Form)
					}
					if w := rt.post(path, a); w.Code != 200 {
						t.Errorf("answered %d %s", w.Code, w.Body)
					}
				}
				if got := rt.nextResult(); got != c.want {
					t.Errorf("result %s, want %s", got, c.want)
				}
				rt.close()
			})
		})
	}
}

// TestFormRefused asks forms that a tool must not ask.
func TestFormRefused(t *testing.T) {
	for _, q := range []toolserver.Question{
		{Form: guests(false), Choices: []string{"a"}},
		{Form: form.Form{Questions: []form.Question{{Name: "q", Fields: []form.Field{{Name: "password", Kind: form.Text}}}}}},
		{Form: form.Form{Questions: []form.Question{{Name: "not a name"}}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			rt := newRuntime(t, toolserver.Options{})
			toolserver.Add(rt.server, "form", "Asks.", func(ctx context.Context, _ none) (string, error) {
				_, err := toolserver.Ask(ctx, q)
				return "asked", err
			})
			rt.call("form", "c1", "{}")
			if got := rt.nextResult(); !strings.HasPrefix(got, "Error: ") {
				t.Errorf("%+v: %s", q, got)
			}
			rt.close()
		})
	}
}

// TestFormTimeout asks a form that nobody fills in.
func TestFormTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{ChoiceTimeout: time.Hour})
		addForm(rt.server, guests(true))
		rt.call("form", "c1", "{}")
		if q, _ := rt.question(); (*agentproto.UserChoice)(q).Form == nil {
			t.Error("no form")
		}
		if got := rt.nextResult(); got != "Error: the choice was not answered in time" {
			t.Errorf("result %q", got)
		}
		rt.close()
	})
}
