package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/conversation"
)

// TestStreamed checks that the streamed deltas add up to the reply, and that the reply contains the
// service's token counts.
func TestStreamed(t *testing.T) {
	m := serve(t, Options{}, func(w http.ResponseWriter, body string) {
		if !strings.Contains(body, `"include_usage":true`) {
			t.Errorf("the service was not asked to count: %s", body)
		}
		stream(w, "", `{"role":"assistant","content":"He"}`, `{"content":"llo"}`, `{"content":""}`,
			`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"see","arguments":"{\"n\""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":":2}"}}]}`,
			`{"tool_calls":[{"index":1,"id":"c2","type":"function","function":{"name":"look","arguments":"{}"}}]}`)
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n")
		fmt.Fprint(w, `data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":64}}}`+"\n\ndata: [DONE]\n\n")
	})
	var words strings.Builder
	var parts int
	calls := map[int]*conversation.Call{}
	reply, err := m.Stream(t.Context(), &conversation.Request{Messages: history}, func(d conversation.Delta) {
		parts++
		words.WriteString(d.Text)
		if c := d.Call; c != nil {
			if calls[c.Index] == nil {
				calls[c.Index] = &conversation.Call{}
			}
			calls[c.Index].ID, calls[c.Index].Name = c.ID, c.Name
			calls[c.Index].Arguments += c.Arguments
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if words.String() != "Hello" || reply.Text != "Hello" || parts != 5 || len(calls) != 2 || *calls[0] != reply.Calls[0] || *calls[1] != reply.Calls[1] {
		t.Errorf("reported %q and %+v in %d parts, reply %+v", &words, calls, parts, reply)
	}
	if want := (conversation.Usage{Input: 100, Cached: 64, Output: 7}); reply.Usage != want {
		t.Errorf("usage %+v, want %+v", reply.Usage, want)
	}
}

// TestStreamedNoMore checks that nothing more is streamed after the service has replaced its text.
func TestStreamedNoMore(t *testing.T) {
	m := serve(t, Options{}, func(w http.ResponseWriter, _ string) {
		stream(w, "", `{"content":"one"}`)
		fmt.Fprint(w, `data: {"choices":[{"index":0,"message":{"content":"two"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	})
	reported := ""
	reply, err := m.Stream(t.Context(), &conversation.Request{Messages: history}, func(d conversation.Delta) { reported += d.Text })
	if err != nil || reply.Text != "two" || reported != "one" {
		t.Errorf("%+v, %v, reported %q", reply, err, reported)
	}
}

// TestNoCounts checks that a service that refuses to count tokens is no longer asked for counts.
func TestNoCounts(t *testing.T) {
	var asked []bool
	m := serve(t, Options{}, func(w http.ResponseWriter, body string) {
		counts := strings.Contains(body, "stream_options")
		if asked = append(asked, counts); counts {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`)
			return
		}
		stream(w, "stop", `{"content":"fine"}`)
	})
	for range 2 {
		if reply, err := m.Reply(t.Context(), &conversation.Request{Messages: history}); err != nil || reply.Text != "fine" {
			t.Fatalf("%+v, %v", reply, err)
		}
	}
	if fmt.Sprint(asked) != "[true false false]" {
		t.Errorf("asked to count: %v", asked)
	}
}
