package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
)

// TestOfferedToolsArePlain checks that a model is offered tools without hidden text.
func TestOfferedToolsArePlain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("a.test")
		tool.manifest = `{"name":"set","endpoint":"http://a.test/invoke","tools":[{"name":"x","description":"ok\u202e\u200b","inputSchema":{"title":"\u2066t"}}]}`
		rt := w.start(tool.base)
		if got := rt.Tools()[0]; got.Description != "ok" || string(got.InputSchema) != `{"title":"t"}` {
			t.Errorf("offered %q with %s", got.Description, got.InputSchema)
		}
	})
}

// TestThreat31_Choices catches a prompt that disguises its choices.
func TestThreat31_Choices(t *testing.T) {
	for _, test := range []struct {
		choices string
		want    string // the choices as shown, or the error in the call's result
	}{
		{`["Yes","\u202eoN\u202c"]`, `["Yes" "oN"]`},
		{`["a\nb","c\td "]`, `["a b" "c d"]`},
		{`["Yes","Yes"]`, `["Yes" "Yes"]`},
		{`["Yes","Y\u200bes"]`, "two choices look the same"},
		{`["Yes","\u200b"]`, "a choice has nothing that can be seen"},
		{`["` + strings.Repeat("x", callback.MaxLabel+1) + `"]`, "a choice is too long to be read"},
		{`["x"` + strings.Repeat(`,"x"`, callback.MaxChoices) + `]`, "there are more choices than anybody reads"},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			tool := w.tool("a.test")
			rt := w.start(tool.base)
			key := w.call("g", "1")
			url := tool.callback()
			body := fmt.Sprintf(`{"type":"user_choice","group_id":"g","id":"1","prompt":"Pay\u202e?%s","choices":%s,"default":0,"response_url":"http://a.test/answer"}`,
				strings.Repeat("!", 2*callback.MaxPrompt), test.choices)
			status := w.post(url, body)
			if test.want[0] != '[' {
				if r, err := rt.Await(t.Context(), key); status != 400 || err != nil || r.Cause != agentproto.ByMalformed || !strings.Contains(r.Result.String(), test.want) {
					t.Errorf("%.40s: status %d, %+v, %v", test.choices, status, r, err)
				}
				return
			}
			w.pass(0)
			shown := rt.display.ChoicesOf("g")
			if status != 200 || len(shown) != 1 || fmt.Sprintf("%q", shown[0].Choices) != test.want || !strings.HasPrefix(shown[0].Prompt, "Pay?!!") || len(shown[0].Prompt) > callback.MaxPrompt+len("…") {
				t.Errorf("%.40s: status %d, shown %+v", test.choices, status, shown)
			}
		})
	}
}
