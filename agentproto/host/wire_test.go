package host

import (
	"strings"
	"testing"
)

// TestW10DecimalInteger checks that an integer may be written with a fraction of zero
// (W10).
func TestW10DecimalInteger(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		ask := strings.Replace(choice(`["a","b","c"]`, 0, answerURL), `"default":0`, `"default":2.0`, 1)
		if status := w.post(url, ask); status != 200 {
			t.Fatalf("status %d", status)
		}
		w.user.saw()
		if err := w.rt.Answer(t.Context(), key, answerURL, Dismiss); err != nil {
			t.Fatal(err)
		}
		if got := tool.answersGot(); len(got) != 1 || got[0] != `{"id":"1","selected":2}` {
			t.Errorf("answers %q, want the default", got)
		}
	})
}

// TestD12D14Manifest checks that arguments are validated in the dialect that the schema
// names: draft-07 has arrays of items, and dependencies (D12). A displayScript is never
// run (D14).
func TestD12D14Manifest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		tool.manifest = `{"name":"s","endpoint":"http://tool.test/invoke","tools":[{"name":"echo","description":"d",
			"displayScript":"loop { throw 1 } \u001b[2J","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
			"properties":{"pair":{"type":"array","items":[{"type":"string"},{"type":"integer"}]}},"dependencies":{"a":["b"]}}}]}`
		w.start(tool.base)
		for args, ok := range map[string]bool{
			`{"pair":["x",1]}`:   true,
			`{"pair":["x","y"]}`: false,
			`{"a":1}`:            false,
			`{"a":1,"b":2}`:      true,
		} {
			before := len(tool.invocations())
			if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", Operation: "echo", Arguments: []byte(args)}); err != nil {
				t.Fatal(err)
			}
			if posted := len(tool.invocations()) > before; posted != ok {
				t.Errorf("%s: posted %v, want %v; problems %q", args, posted, ok, w.problems())
			}
		}
	})
}

// TestW11IdentifiersInBodies checks that identifiers in a body that differ from those of
// the URL are refused, and that none is logged unescaped (W11).
func TestW11IdentifiersInBodies(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, _, url := w.pending()
		for _, id := range []string{`a\r\nX: y`, `a\u0000b`, `../../etc/passwd`, `🙂`, strings.Repeat("x", 1000)} {
			status := w.post(url, `{"type":"tool_result","group_id":"g","id":"`+id+`","text":"x"}`)
			if status != 403 && status != 400 {
				t.Errorf("id %.20s: status %d, want 400 or 403", id, status)
			}
		}
		for line := range strings.Lines(w.logs.String()) {
			if strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\r\x00") || !strings.HasPrefix(line, "time=") {
				t.Errorf("the log contains %q", line)
			}
		}
		if st := w.stats(); st.Results != 0 {
			t.Errorf("stats %+v", st.Counts)
		}
	})
}
