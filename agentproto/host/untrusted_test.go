package host

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

// TestThreat30_ToolsArePlain would catch words that a model reads in a description or in a
// schema, and a person who looks at them does not see.
func TestThreat30_ToolsArePlain(t *testing.T) {
	const hidden = "\u202E\u200B\U000E0069\U000E0067\x1b"
	schema := `{"type":"object","description":"args` + `\u202e` + `","properties":{"description":{"type":"string","title":"\u200bT","enum":["\u202ea","b"]}}}`
	tool := plainTool(agentproto.Tool{Name: "t", Description: "Adds." + hidden, InputSchema: []byte(schema)})
	if tool.Description != "Adds." {
		t.Errorf("description %q", tool.Description)
	}
	want := "{\"type\":\"object\",\"description\":\"args\",\"properties\":{\"description\":{\"type\":\"string\",\"title\":\"T\",\"enum\":[\"\u202ea\",\"b\"]}}}"
	if got := string(tool.InputSchema); got != want {
		t.Errorf("schema %s, want %s: what values mean must stay", got, want)
	}
	good := `{ "type":"object", "description":"d" }`
	if got := plainTool(agentproto.Tool{InputSchema: []byte(good)}); string(got.InputSchema) != good {
		t.Errorf("a good schema became %s", got.InputSchema)
	}
	if got := plainTool(agentproto.Tool{Description: strings.Repeat("x", 1<<20), InputSchema: []byte(good)}); len(got.Description) > maxDescription+len("…") {
		t.Errorf("a description of %d bytes", len(got.Description))
	}
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("a.test")
		tool.manifest = `{"name":"set","endpoint":"http://a.test/invoke","tools":[{"name":"x","description":"ok\u202e\u200b","inputSchema":{"title":"\u2066t"}}]}`
		rt := w.start(tool.base)
		if got := rt.Tools()[0]; got.Description != "ok" || string(got.InputSchema) != `{"title":"t"}` {
			t.Errorf("offered %q with %s", got.Description, got.InputSchema)
		}
	})
}

// TestThreat31_Choices would catch a prompt that hides what is chosen.
func TestThreat31_Choices(t *testing.T) {
	for _, test := range []struct {
		choices string
		want    string // the choices as shown, or what the call is told
	}{
		{`["Yes","\u202eoN\u202c"]`, `["Yes" "oN"]`},
		{`["a\nb","c\td "]`, `["a b" "c d"]`},
		{`["Yes","Yes"]`, `["Yes" "Yes"]`},
		{`["Yes","Y\u200bes"]`, "two choices look the same"},
		{`["Yes","\u200b"]`, "a choice has nothing that can be seen"},
		{`["` + strings.Repeat("x", maxLabel+1) + `"]`, "a choice is too long to be read"},
		{`["x"` + strings.Repeat(`,"x"`, maxChoices) + `]`, "there are more choices than anybody reads"},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			tool := w.tool("a.test")
			rt := w.start(tool.base)
			key := w.call("g", "1")
			callback := tool.callback()
			body := fmt.Sprintf(`{"type":"user_choice","group_id":"g","id":"1","prompt":"Pay\u202e?%s","choices":%s,"default":0,"response_url":"http://a.test/answer"}`,
				strings.Repeat("!", 2*maxPrompt), test.choices)
			status := w.post(callback, body)
			if test.want[0] != '[' {
				if r, err := rt.Await(t.Context(), key); status != 400 || err != nil || r.Cause != agentproto.ByMalformed || !strings.Contains(r.Result.String(), test.want) {
					t.Errorf("%.40s: status %d, %+v, %v", test.choices, status, r, err)
				}
				return
			}
			w.pass(0)
			shown := rt.prompts.choicesOf("g")
			if status != 200 || len(shown) != 1 || fmt.Sprintf("%q", shown[0].Choices) != test.want || !strings.HasPrefix(shown[0].Prompt, "Pay?!!") || len(shown[0].Prompt) > maxPrompt+len("…") {
				t.Errorf("%.40s: status %d, shown %+v", test.choices, status, shown)
			}
		})
	}
}
