package host

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// converse starts the runtime with the given model and opens a session.
func (w *world) converse(model conversation.Model, bases ...string) *Thread {
	w.t.Helper()
	w.opts.Model = model
	w.start(bases...)
	thread, err := w.rt.OpenSession(w.t.Context(), SessionRequest{ID: "s", UserID: "ada"})
	if err != nil {
		w.t.Fatal(err)
	}
	return thread
}

func (w *world) say(th *Thread, text string) {
	w.t.Helper()
	synctest.Wait()
	if err := th.Say(w.t.Context(), text); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// history returns the messages of a thread, one per line, once the world is idle.
func (w *world) history(th *Thread) string {
	w.t.Helper()
	synctest.Wait()
	messages, err := th.History(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return transcript(messages)
}

// transcript formats messages for tests.
func transcript(messages []conversation.Message) string {
	var b strings.Builder
	for _, m := range messages {
		switch m.Kind {
		case conversation.Opened:
			continue
		case conversation.Result:
			fmt.Fprintf(&b, "result %s: %s", m.Result.ID, m.Result.Text())
		case conversation.Assistant:
			fmt.Fprint(&b, "assistant:")
			if m.Text != "" {
				fmt.Fprint(&b, " "+m.Text)
			}
			for _, c := range m.Calls {
				fmt.Fprintf(&b, " %s=%s(%s)", c.ID, c.Name, c.Arguments)
			}
		default:
			fmt.Fprint(&b, m.Kind)
			if m.Text != "" {
				fmt.Fprintf(&b, ": %s", m.Text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (w *world) wantHistory(th *Thread, want string) {
	w.t.Helper()
	want = strings.ReplaceAll(strings.TrimLeft(want, "\n"), "\t", "")
	if got := w.history(th); got != want {
		w.t.Errorf("history:\n%s\nwant:\n%s", got, want)
	}
}

// callsOf returns a reply that calls echo with these ids.
func callsOf(ids ...string) conversation.Reply {
	var r conversation.Reply
	for _, id := range ids {
		r.Calls = append(r.Calls, conversation.Call{ID: id, Name: "echo", Arguments: `{}`})
	}
	return r
}

func key(id string) agentproto.CallKey { return agentproto.CallKey{GroupID: "s", ID: id} }

// TestConversation checks that all calls of a message are made at once, and that the model
// receives their results together, in their order.
func TestConversation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		th := w.converse(conversation.Script{callsOf("a", "b", "c"), {Text: "done"}}, tool.base)
		w.say(th, "go")
		if n := len(tool.invocations()); n != 3 {
			t.Fatalf("%d calls under way, want 3", n)
		}
		if inv := tool.invocations()[0]; *inv.UserID != "ada" || len(inv.ThreadAncestors) != 0 {
			t.Errorf("user %v, ancestors %v", inv.UserID, inv.ThreadAncestors)
		}
		for _, id := range []string{"c", "a"} {
			w.post(tool.callbackOf(key(id)), result(key(id), "result "+id))
		}
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({}) c=echo({})
`)
		w.post(tool.callbackOf(key("b")), result(key("b"), "result b"))
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({}) c=echo({})
			result a: result a
			result b: result b
			result c: result c
			assistant: done
`)
	})
}

// TestConversationInterrupted checks that a text of the user interrupts pending calls and
// the model. Each call has one result, the tool servers are notified, and late messages
// are dropped (K01).
func TestConversationInterrupted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		asked := make(chan struct{}, 8)
		model := conversation.ModelFunc(func(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
			switch r.Messages[len(r.Messages)-1].Text {
			case "go":
				reply := callsOf("a", "b")
				return &reply, nil
			case "think":
				asked <- struct{}{}
				<-ctx.Done()
				return &conversation.Reply{Text: "too late"}, nil
			}
			return &conversation.Reply{Text: "as you like"}, nil
		})
		th := w.converse(model, tool.base)
		w.say(th, "go")
		w.post(tool.callbackOf(key("b")), result(key("b"), "result b"))
		w.say(th, "think")
		<-asked
		if got := tool.noticed(); len(got) != 1 || !strings.Contains(got[0], "/cancel_tool_call") || !strings.Contains(got[0], `"a"`) {
			t.Errorf("notices: %q", got)
		}
		w.post(tool.callbackOf(key("a")), result(key("a"), "late"))
		w.say(th, "no")
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({})
			result a: Tool call interrupted by user
			result b: result b
			user: think
			user: no
			assistant: as you like
`)
		if n := w.stats().Late; n != 1 {
			t.Errorf("%d late, want 1", n)
		}
	})
}

// TestConversationMistakes checks that an unknown tool, invalid arguments and a reused
// identifier get results like any other call, and affect nothing else (I03, I04, I14).
func TestConversationMistakes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		tool.ack = func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) {
			w.postLater(inv.CallbackURL, result(inv.Key(), "result of "+inv.ID))
		}
		first := callsOf("a", "a")
		first.Calls = append(first.Calls, conversation.Call{ID: "x", Name: "unknown"},
			conversation.Call{ID: "y", Name: "echo", Arguments: `[`}, conversation.Call{ID: "z", Name: conversation.EventTool})
		th := w.converse(conversation.Script{first, callsOf("a", "", "b\u202ec"), {Text: "done"}}, tool.base)
		w.say(th, "go")
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) a-2=echo({}) x=unknown() y=echo([) z=incoming_event()
			result a: result of a
			result a-2: result of a-2
			result x: Error: there is no tool "unknown"
			result y: Error: the arguments are not valid JSON
			result z: Error: incoming_event shows what came in and cannot be called
			assistant: a-3=echo({}) call-2-2=echo({}) call-2-3=echo({})
			result a-3: result of a-3
			result call-2-2: result of call-2-2
			result call-2-3: result of call-2-3
			assistant: done
`)
	})
}

// TestConversationClosed checks that closing a session closes its children and everything
// in it, and that the tool servers are notified of each thread once (X01 to X03, I02).
func TestConversationClosed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		th := w.converse(conversation.Script{callsOf("a")}, tool.base)
		w.say(th, "go")
		child, err := th.OpenChild(t.Context(), "kid", "look")
		if err != nil {
			t.Fatal(err)
		}
		calls := tool.invocations()
		if len(calls) != 2 || fmt.Sprint(calls[1].ThreadAncestors) != "[s]" {
			t.Fatalf("%d calls, ancestors of the last: %v", len(calls), calls[len(calls)-1].ThreadAncestors)
		}
		for range 2 {
			if err := th.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(time.Second)
		if got := strings.Join(tool.noticed(), " "); strings.Count(got, "close_thread") != 2 || !strings.Contains(got, `"kid"`) || !strings.Contains(got, `"s"`) {
			t.Errorf("notices: %s", got)
		}
		w.post(calls[0].CallbackURL, result(key("a"), "late"))
		for _, th := range []*Thread{th, child} {
			if h := w.history(th); !strings.HasSuffix(h, "result a: Error: the thread was closed\nclosed\n") {
				t.Errorf("history of %s:\n%s", th.ID(), h)
			}
			if err := th.Say(t.Context(), "hello?"); err == nil {
				t.Error("a closed thread takes something in")
			}
		}
	})
}
