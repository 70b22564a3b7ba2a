package openai

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// wantedCalls and wantedText are the answer that every service gives in its own format: two
// calls of one tool and one of another, with or without text.
var (
	wantedCalls = []conversation.Call{
		{ID: "c1", Name: "see", Arguments: `{"n":"}{\"","a":[{}]}`}, {ID: "c2", Name: "see", Arguments: `{"n":2}`}, {ID: "c3", Name: "see_all", Arguments: `{}`},
	}
	wantedText   = "wéll \U0001f600"
	offeredTools = []conversation.Tool{{Name: "see"}, {Name: "see_all"}, {Name: "look"}}
)

// A mode is the format in which a service writes its answers.
type mode struct {
	index  string // "own", "zero" or "none"
	id     string // "first" part of a call, "each", "fresh" one in each, or "none"
	name   string // "first", "each", "pieces", "growing" or "trailing": in each, and in one more
	finish string // "last", "own" part, "each" or "none"
	object bool   // arguments are an object, in one part
	stand  bool   // an empty object comes before the arguments
	size   int    // of the pieces of arguments
	done   bool
	eol    string
	event  func(chunk string) string // writes a part; nil means one line
}

func (m mode) String() string {
	return fmt.Sprintf("index=%s id=%s name=%s finish=%s object=%t stand=%t size=%d done=%t eol=%q", m.index, m.id, m.name, m.finish, m.object, m.stand, m.size, m.done, m.eol)
}

// clear reports whether a mode separates calls at all: a call begins with a part that has a
// new id and a name.
func (m mode) clear() bool { return m.id != "fresh" || m.name == "first" }

// write returns the answer as a stream of events in this mode.
func (m mode) write(text string, calls []conversation.Call) string {
	var out strings.Builder
	put := func(delta map[string]any, finish string) {
		choice := map[string]any{"index": 0, "delta": delta}
		if finish != "" {
			choice["finish_reason"] = finish
		} else {
			choice["finish_reason"] = nil
		}
		out.WriteString(m.writeEvent(marshal(map[string]any{"choices": []any{choice}})))
	}
	each := ""
	if m.finish == "each" {
		each = "stop"
	}
	put(map[string]any{"role": "assistant", "content": ""}, each)
	for i := 0; i < len(text); i += 3 { // the loop below moves each cut to the end of a rune
		end := min(i+3, len(text))
		for end < len(text) && text[end]&0xc0 == 0x80 {
			end++
		}
		put(map[string]any{"content": text[i:end]}, each)
		i = end - 3
	}
	fresh := 0
	for n, c := range calls {
		parts := m.parts(c)
		for i, function := range parts {
			part := map[string]any{"function": function}
			switch m.index {
			case "own":
				part["index"] = n
			case "zero":
				part["index"] = 0
			}
			switch {
			case m.id == "fresh" && i > 0:
				fresh++
				part["id"] = fmt.Sprint("fresh-", fresh)
			case m.id == "each" || m.id != "none" && i == 0:
				part["id"], part["type"] = c.ID, "function"
			}
			finish := each
			if m.finish == "last" && n == len(calls)-1 && i == len(parts)-1 {
				finish = "tool_calls"
			}
			put(map[string]any{"tool_calls": []any{part}}, finish)
		}
	}
	if m.finish == "own" {
		put(map[string]any{}, "tool_calls")
	}
	if m.done {
		out.WriteString("data: [DONE]" + m.eol + m.eol)
	}
	return out.String()
}

// parts returns the parts in which a call's name and arguments are sent.
func (m mode) parts(c conversation.Call) (parts []map[string]any) {
	switch m.name {
	case "pieces":
		parts = append(parts, map[string]any{"name": c.Name[:2]}, map[string]any{"name": c.Name[2:]})
	case "growing":
		parts = append(parts, map[string]any{"name": c.Name[:2]}, map[string]any{"name": c.Name})
	default:
		parts = append(parts, map[string]any{"name": c.Name, "arguments": ""})
	}
	put := func(args any) {
		part := map[string]any{"arguments": args}
		if m.name == "each" || m.name == "trailing" {
			part["name"] = c.Name
		}
		parts = append(parts, part)
	}
	if m.stand {
		parts[len(parts)-1]["arguments"] = jsontext.Value("{}")
	}
	if m.object {
		put(jsontext.Value(c.Arguments))
	} else {
		for i := 0; i < len(c.Arguments); i += m.size {
			put(c.Arguments[i:min(i+m.size, len(c.Arguments))])
		}
	}
	if m.name == "trailing" {
		put("")
	}
	return parts
}

func (m mode) writeEvent(chunk string) string {
	if m.event != nil {
		return m.event(chunk)
	}
	return "data: " + chunk + m.eol + m.eol
}

func marshal(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// body is a transport that answers every request with the same body. The client can see
// where the body ends.
type body struct {
	io.Reader
	kind      string // Content-Type
	unlimited bool   // the body ends where the connection ends
}

func (b body) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {b.kind}}, Body: io.NopCloser(b.Reader), Request: r,
		ContentLength: -1, TransferEncoding: []string{"chunked"},
	}
	if b.unlimited {
		resp.TransferEncoding = nil
	}
	return resp, nil
}

// ask returns the model's reply to a service that answers with b.
func ask(t testing.TB, b body) (*conversation.Reply, error) {
	t.Helper()
	m := New(Options{Name: "tiny", HTTP: &http.Client{Transport: b}})
	return m.Reply(t.Context(), &conversation.Request{Messages: history[:1], Tools: offeredTools})
}

// check compares a reply with the expected one. The identifiers must be unique; with ids
// they must also be the expected ones.
func check(reply *conversation.Reply, text string, calls []conversation.Call, ids bool) error {
	if reply.Text != text {
		return fmt.Errorf("text %q, want %q", reply.Text, text)
	}
	if len(reply.Calls) != len(calls) {
		return fmt.Errorf("calls %+v, want %+v", reply.Calls, calls)
	}
	seen := map[string]bool{}
	for i, c := range reply.Calls {
		if want := calls[i]; c.Name != want.Name || c.Arguments != want.Arguments || ids && c.ID != want.ID {
			return fmt.Errorf("call %+v, want %+v", c, want)
		}
		if c.ID == "" || seen[c.ID] {
			return fmt.Errorf("identifier %q of %+v", c.ID, reply.Calls)
		}
		seen[c.ID] = true
	}
	return nil
}

// TestModes reads one answer in every format that services use.
func TestModes(t *testing.T) {
	tried := 0
	for _, index := range []string{"own", "zero", "none"} {
		for _, id := range []string{"first", "each", "fresh", "none"} {
			for _, name := range []string{"first", "each", "pieces", "growing", "trailing"} {
				for _, finish := range []string{"last", "own", "each", "none"} {
					for _, size := range []int{0, 1, 5} {
						for _, done := range []bool{false, true} {
							m := mode{index: index, id: id, name: name, finish: finish, object: size == 0, size: size, done: done}
							if !m.clear() {
								continue
							}
							m.eol = []string{"\n", "\r\n", "\r"}[tried%3]
							tried++
							reply, err := ask(t, body{Reader: strings.NewReader(m.write(wantedText, wantedCalls))})
							if err == nil {
								err = check(reply, wantedText, wantedCalls, id != "none")
							}
							if err != nil {
								t.Fatalf("%v: %v\n%s", m, err, m.write(wantedText, wantedCalls))
							}
						}
					}
				}
			}
		}
	}
	if want := (3*4*5 - 3*4) * 4 * 3 * 2; tried != want {
		t.Errorf("%d modes were tried, want %d", tried, want)
	}
}

// services returns bodies with an answer in formats that no [mode] writes. The arguments of
// the last call are an empty object.
func services(said string, made []conversation.Call) map[string]string {
	plain := mode{index: "own", id: "first", name: "first", finish: "own", size: 5, done: true, eol: "\n"}
	with := func(change func(m *mode)) string {
		m := plain
		change(&m)
		return m.write(said, made)
	}
	message := func(object bool) map[string]any {
		var calls []any
		for _, c := range made {
			function := map[string]any{"name": c.Name, "arguments": any(c.Arguments)}
			if object {
				function["arguments"] = jsontext.Value(c.Arguments)
			}
			calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": function})
		}
		return map[string]any{"role": "assistant", "content": said, "refusal": nil, "tool_calls": calls}
	}
	whole := func(message map[string]any) string {
		return marshal(map[string]any{"object": "chat.completion", "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "tool_calls"}}})
	}
	spread := func(chunk string) string { // over several lines of data
		v := jsontext.Value(chunk)
		if err := v.Indent(); err != nil {
			panic(err)
		}
		return "data: " + strings.ReplaceAll(string(v), "\n", "\ndata: ") + "\n\n"
	}
	noise := ": comment\n\nevent: message\nid: 7\nretry: 10\nunknown\n"
	usage := `data: {"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"total_tokens":7}}` + "\n\n"
	pieces := message(false)
	pieces["content"] = []any{map[string]any{"type": "thinking", "text": "no"}, map[string]any{"type": "text", "text": said[:3]}, map[string]any{"type": "text", "text": said[3:]}}
	noArgs := message(false)
	for _, c := range noArgs["tool_calls"].([]any)[len(made)-1:] {
		delete(c.(map[string]any)["function"].(map[string]any), "arguments")
	}
	both := message(false)
	both["function_call"] = map[string]any{"name": "see", "arguments": "{}"}
	return map[string]string{
		"plain":                 whole(message(false)),
		"plain, spaced":         "\ufeff \r\n\t" + whole(message(false)) + "\n\n",
		"plain, objects":        whole(message(true)),
		"plain, pieces of text": whole(pieces),
		"plain, no arguments":   whole(noArgs),
		"plain, function_call":  whole(both),
		"plain, alternatives":   strings.Replace(whole(message(false)), `"choices":[`, `"choices":[{"index":1,"message":{"content":"other"}},`, 1),
		"plain, no index":       strings.Replace(strings.Replace(whole(message(false)), `"index":0,`, ``, 1), `}],"object"`, `},{"message":{"content":"other"}}],"object"`, 1),
		"event with the whole":  "data: " + whole(message(false)) + "\n\ndata: [DONE]\n\n",
		"whole after the parts": strings.Replace(with(func(*mode) {}), "data: [DONE]", "data: "+whole(message(false))+"\n\ndata: [DONE]", 1),
		"byte order mark":       "\ufeff" + with(func(*mode) {}),
		"no blank lines":        with(func(m *mode) { m.event = func(chunk string) string { return "data:" + chunk + "\n" } }),
		"several lines":         with(func(m *mode) { m.event = spread }),
		"comments":              with(func(m *mode) { m.event = func(chunk string) string { return noise + "data: " + chunk + "\n\n:\n" } }),
		"usage": with(func(m *mode) {
			m.event = func(chunk string) string { return usage + "data: " + chunk + "\n\n" + usage }
		}),
		"alternatives": with(func(m *mode) {
			m.event = func(chunk string) string {
				return "data: " + chunk + "\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"},\"finish_reason\":\"stop\"}]}\n\n"
			}
		}),
		"reasoning": with(func(m *mode) {
			m.event = func(chunk string) string {
				return "data: {\"error\":null,\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\",\"content\":null,\"tool_calls\":null}}]}\n\ndata: " + chunk + "\n\n"
			}
		}),
		"an object stands in": with(func(m *mode) { m.stand = true }),
		"no last line":        strings.TrimRight(with(func(*mode) {}), "\n"),
		"no finish, no last line": strings.TrimRight(with(func(m *mode) {
			m.finish, m.done = "none", false
		}), "\n"),
		"more after the end": with(func(*mode) {}) + "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"more\"}}]}\n\n",
	}
}

// TestServices reads one answer in formats that differ in more than the parts of calls.
func TestServices(t *testing.T) {
	for name, text := range services(wantedText, wantedCalls) {
		for _, kind := range []string{"text/event-stream", "application/json", "text/plain"} {
			m := serve(t, Options{}, func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", kind)
				io.WriteString(w, text)
			})
			reply, err := m.Reply(t.Context(), &conversation.Request{Messages: history[:1], Tools: offeredTools})
			if err == nil {
				err = check(reply, wantedText, wantedCalls, true)
			}
			if err != nil {
				t.Errorf("%s as %q: %v", name, kind, err)
			}
		}
	}
}

// TestOlderServices reads the answers of services that support only one call.
func TestOlderServices(t *testing.T) {
	part := func(delta string) string { return `data: {"choices":[{"index":0,"delta":` + delta + "}]}\n\n" }
	for name, text := range map[string]string{
		"plain":  `{"choices":[{"message":{"role":"assistant","content":null,"function_call":{"name":"see","arguments":"{\"n\":2}"}},"finish_reason":"function_call"}]}`,
		"object": `{"choices":[{"message":{"function_call":{"name":"see","arguments":{"n": 2}}}}]}`,
		"parts": part(`{"function_call":{"name":"see","arguments":""}}`) + part(`{"function_call":{"arguments":"{\"n\""}}`) +
			part(`{"function_call":{"name":"see","arguments":":2}"}}`) + "data: [DONE]\n\n",
	} {
		reply, err := ask(t, body{Reader: strings.NewReader(text)})
		if err == nil {
			err = check(reply, "", wantedCalls[1:2], false)
		}
		if err != nil || !strings.HasPrefix(reply.Calls[0].ID, "call_") {
			t.Errorf("%s: %+v, %v", name, reply, err)
		}
	}
}
