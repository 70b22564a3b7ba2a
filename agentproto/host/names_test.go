package host

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// namesOf returns the names of a request's tools and of the calls in its history.
func namesOf(r *conversation.Request) (tools, calls string) {
	var offered, called []string
	for _, t := range r.Tools {
		offered = append(offered, t.Name)
	}
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			called = append(called, c.Name+c.Alias)
		}
	}
	return strings.Join(offered, " "), strings.Join(called, " ")
}

// TestConversationToolNames checks that tools whose names a model's API refuses are shown under
// other names and called by their own. The model keeps seeing the names that it used, and an
// error changes nothing. Calls made without a model, and those of a model that uses a tool's
// own name, use the own name.
func TestConversationToolNames(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test", "fs/read.file", "fs_read.file", "fs_list", strings.Repeat("long", 32), conversation.CancelTool)
		tool.ack = func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) {
			w.postLater(inv.CallbackURL, result(inv.Key(), "result of "+inv.Operation))
		}
		long := strings.Repeat("long", 32)[:64]
		replies := []conversation.Reply{
			{Calls: []conversation.Call{{ID: "a", Name: "fs_read_file"}, {ID: "b", Name: "fs_read_file_2"}, {ID: "c", Name: "fs_list"}}},
			{Calls: []conversation.Call{{ID: "d", Name: long}, {ID: "e", Name: "fs/read.file"}, {ID: "f", Name: "no.tool"}}},
			{Calls: []conversation.Call{{ID: "g", Name: conversation.CancelTool + "_2"}, {ID: "h", Name: conversation.CancelTool}}},
			{Text: "done"},
		}
		var offered, called []string
		th := w.converse(conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
			tools, calls := namesOf(r)
			offered, called = append(offered, tools), append(called, calls)
			return &replies[len(offered)-1], nil
		}), tool.base)
		w.say(th, "go")
		w.wantHistory(th, `
			user: go
			assistant: a=fs/read.file() b=fs_read.file() c=fs_list()
			result a: result of fs/read.file
			result b: result of fs_read.file
			result c: result of fs_list
			assistant: d=`+strings.Repeat("long", 32)+`() e=fs/read.file() f=no.tool()
			result d: result of `+strings.Repeat("long", 32)+`
			result e: result of fs/read.file
			result f: Error: there is no tool "no.tool"
			assistant: g=cancel_subscription() h=cancel_subscription()
			result g: result of cancel_subscription
			result h: Error: cancel_subscription needs the tool_call_id of a subscription
			assistant: done
`)
		if len(offered) != 4 {
			t.Fatalf("asked %d times", len(offered))
		}
		want := "fs_read_file fs_read_file_2 fs_list " + long + " cancel_subscription_2 cancel_subscription"
		if offered = slices.Compact(offered); len(offered) != 1 || offered[0] != want {
			t.Errorf("offered %q, want %q each time", offered, want)
		}
		all := []string{"", "fs_read_file fs_read_file_2 fs_list", " " + long + " fs_read_file no_tool", " cancel_subscription_2 cancel_subscription"}
		for i := range called {
			if want := strings.Join(all[:i+1], ""); called[i] != want {
				t.Errorf("in round %d the history calls %q, want %q", i+1, called[i], want)
			}
		}

		if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "1", Operation: "fs/read.file"}); err != nil {
			t.Fatal(err)
		}
		if got := w.text(agentproto.CallKey{GroupID: "g", ID: "1"}); got != "result of fs/read.file" {
			t.Errorf("a call without a model: %q", got)
		}
		if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "2", Operation: "fs_read_file"}); err != nil {
			t.Fatal(err)
		}
		if got := w.text(agentproto.CallKey{GroupID: "g", ID: "2"}); got != `Error: there is no tool "fs_read_file"` {
			t.Errorf("a call by the name for the model: %q", got)
		}
	})
}

// TestConversationToolNamesStay checks that a tool that joins a session later does not take
// over a name that the model has used for another tool, even if this is its own name.
func TestConversationToolNamesStay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late, tool := w.fickle("late.test", "fs_read"), w.tool("tool.test", "fs/read")
		late.status.Store(500)
		answer := func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) {
			w.postLater(inv.CallbackURL, result(inv.Key(), "result of "+inv.Operation))
		}
		tool.ack, late.ack = answer, answer
		var asked []string
		th := w.converse(conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
			tools, calls := namesOf(r)
			asked = append(asked, tools+"; "+calls)
			switch r.Messages[len(r.Messages)-1].Text {
			case "one":
				return &conversation.Reply{Calls: []conversation.Call{{ID: "a", Name: "fs_read"}}}, nil
			case "two":
				return &conversation.Reply{Calls: []conversation.Call{{ID: "b", Name: "fs_read"}, {ID: "c", Name: "fs_read_2"}}}, nil
			}
			return &conversation.Reply{Text: "ok"}, nil
		}), "http://late.test", tool.base)
		w.say(th, "one")
		late.status.Store(0)
		w.pass(w.rt.opts.Timeouts.Discovery)
		w.say(th, "two")
		w.wantHistory(th, `
			user: one
			assistant: a=fs/read()
			result a: result of fs/read
			assistant: ok
			user: two
			assistant: b=fs/read() c=fs_read()
			result b: result of fs/read
			result c: result of fs_read
			assistant: ok
`)
		for i, want := range []string{
			"fs_read cancel_subscription; ", "fs_read cancel_subscription; fs_read",
			"fs_read_2 fs_read cancel_subscription; fs_read", "fs_read_2 fs_read cancel_subscription; fs_read fs_read fs_read_2",
		} {
			if i >= len(asked) || asked[i] != want {
				t.Errorf("asked with %q, want %q in place %d", asked, want, i)
			}
		}
	})
}
