package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
)

const guestForm = `{"questions":[{"name":"guest","message":"Who?","schema":{"type":"object","properties":{"name":{"type":"string","title":"N\u200Bame"}},"required":["name"]}},` +
	`{"name":"late","message":"Late?","schema":{"type":"object","properties":{"sure":{"type":"boolean"}}}}]}`

// asking returns a user_choice message with a form.
func asking(n int, form string) string {
	return fmt.Sprintf(`{"type":"user_choice","group_id":"g","id":"1","prompt":"sure?","choices":["Decline"],"default":0,"response_url":"http://tool.test/answer?n=%d","x-form":%s}`, n, form)
}

// values decodes values from JSON.
func values(t *testing.T, text string) map[string]jsontext.Value {
	t.Helper()
	v, err := form.Values(jsontext.Value(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAnswerForm fills in a form in parts. An invalid answer changes nothing. An answered question is no longer open: its first
// answer counts. The tool receives the form when all of it is answered.
func TestAnswerForm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		ctx := t.Context()
		key := w.call("g", "1")
		w.post(tool.callback(), asking(0, guestForm))
		describe := func() *CallPrompt {
			t.Helper()
			d, err := w.rt.Describe(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			return d.Prompt
		}
		p := describe()
		if p == nil || len(p.Form.Questions) != 2 || p.Form.Questions[0].Fields[0].Title != "Name" || strings.Contains(string(p.Choice.Form), "\u200B") {
			t.Fatalf("asked %+v", p)
		}
		for _, bad := range []string{
			`{"guest":{}}`, `{"guest":{"name":1}}`, `{"guest":{"name":"Ada","more":2}}`, `{"other":{}}`, `{"late":{"sure":"yes"}}`, `{"late":null,"guest":{"name":false}}`,
			`{"guest":{"name":"` + strings.Repeat("x", form.MaxBytes-30) + `"},"late":{"sure":true}}`,
		} {
			if v, err := form.Values(jsontext.Value(bad)); err == nil {
				if err := w.rt.AnswerForm(ctx, key, p.Number, v); !errors.Is(err, ErrBadChoice) && len(bad) < form.MaxBytes {
					t.Errorf("%.60s: %v, want ErrBadChoice", bad, err)
				}
			}
			if now := describe(); now == nil || len(now.Form.Questions) != 2 {
				t.Fatalf("after %.60s: %+v", bad, now)
			}
		}
		if err := w.rt.AnswerForm(ctx, key, p.Number+1, values(t, `{"late":null}`)); err != nil || len(describe().Form.Questions) != 2 {
			t.Errorf("an answer to another prompt: %v", err)
		}
		if err := w.rt.AnswerForm(ctx, key, p.Number, values(t, `{"guest":{"name":"Ada"}}`)); err != nil {
			t.Fatal(err)
		}
		if now := describe(); now == nil || now.Number != p.Number || len(now.Form.Questions) != 1 || now.Form.Questions[0].Name != "late" {
			t.Fatalf("answered in part: %+v", now)
		}
		if got := tool.answersGot(); len(got) != 0 {
			t.Fatalf("the tool got %q too soon", got)
		}
		if err := w.rt.AnswerForm(ctx, key, 0, values(t, `{"guest":{"name":"Bob"},"late":{"sure":true}}`)); err != nil {
			t.Fatal(err)
		}
		if describe() != nil {
			t.Error("it is asked still")
		}
		w.post(tool.callback(), result(key, "ok"))
		w.text(key)
		const want = `{"id":"1","selected":0,"x-values":{"guest":{"name":"Ada"},"late":{"sure":true}}}`
		if got := tool.answersGot(); len(got) != 1 || got[0] != want {
			t.Errorf("the tool got %q, want %s", got, want)
		}
	})
}

// TestFormsOfStrangers sends forms that users must not be shown. They are shown the choices instead.
func TestFormsOfStrangers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		key := w.call("g", "1")
		for n, f := range []string{
			`{"questions":[{"name":"q","message":"?","schema":{"type":"object","properties":{"password":{"type":"string"}}}}]}`,
			`{"questions":[{"name":"q","message":"?","schema":{"type":"object","properties":{"x":{"type":"object"}}}}]}`,
			`"something else"`, `{"questions":[]}`,
		} {
			if status := w.post(tool.callback(), asking(n, f)); status != 200 {
				t.Fatalf("%s: %d", f, status)
			}
			d, err := w.rt.Describe(t.Context(), key)
			if err != nil || d.Prompt == nil || d.Prompt.Choice.Form != nil || !d.Prompt.Form.IsZero() {
				t.Errorf("%s: %+v, %v", f, d.Prompt, err)
			}
			if err := w.rt.AnswerForm(t.Context(), key, 0, values(t, `{"q":{}}`)); err != nil {
				t.Errorf("an answer to no form: %v", err)
			}
		}
	})
}

// filler is an answerer that accepts forms.
type filler struct {
	answers
	filled string
}

func (f *filler) AnswerForm(_ context.Context, _ agentproto.CallKey, _ int, values map[string]jsontext.Value) error {
	filled, err := form.Filled(values)
	f.filled = string(filled)
	return err
}

// TestTerminalForm fills in a form line by line. If forms are not accepted, or after the end of the input, the terminal shows a
// choice.
func TestTerminalForm(t *testing.T) {
	var out strings.Builder
	term := NewTerminal(strings.NewReader("\nAda\nmaybe\nyes\n"), &out)
	term.interactive = true
	a := &filler{}
	term.Bind(a)
	key, c := question("1", 0)
	c.Form = jsontext.Value(guestForm)
	f, err := form.Parse(c.Form)
	if err != nil {
		t.Fatal(err)
	}
	term.reading = true // here, below
	term.Choice(t.Context(), key, c)
	term.read(t.Context())
	if want := `{"guest":{"name":"Ada"},"late":{"sure":true}}`; a.filled != want || len(a.got) != 0 {
		t.Errorf("filled in %s, want %s; answered %v", a.filled, want, a.got)
	}
	for _, part := range []string{f.Questions[0].Message, "Name is needed", "enter yes or no"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in %q", part, out.String())
		}
	}
}
