package host

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow/durable"
)

// TestConversationFrozen checks that a frozen thread does nothing and loses nothing. After an abort it handles what waited.
func TestConversationFrozen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		th := w.converse(conversation.Script{callsOf("a", "b"), {Text: "first"}, {Text: "second"}}, tool.base)
		w.say(th, "go")
		w.post(tool.callbackOf(key("a")), result(key("a"), "result a"))
		if _, err := w.rt.threads.Export(t.Context(), "s", "m"); !errors.Is(err, conversation.ErrNotMoving) {
			t.Errorf("export: %v", err)
		}
		if err := w.rt.threads.Freeze(t.Context(), "s", "m"); err != nil {
			t.Fatal(err)
		}
		before := w.history(th)
		w.post(tool.callbackOf(key("b")), result(key("b"), "result b"))
		w.say(th, "and?")
		if after := w.history(th); after != before {
			t.Errorf("a frozen thread goes on:\n%s", after)
		}
		if err := w.rt.threads.Abort(t.Context(), "s", "m"); err != nil {
			t.Fatal(err)
		}
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({})
			result a: result a
			result b: result b
			user: and?
			assistant: first
`)
	})
}

// TestConversationMoves checks that a thread continues elsewhere with its history, numbers, subscriptions and waiting inputs,
// and that the source reports that it has moved. Before that, Abort takes it back.
func TestConversationMoves(t *testing.T) {
	var encoded []byte
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		th := w.converse(conversation.Script{callsOf("a"), {Text: "watching"}, callsOf("b", "c")}, tool.base)
		w.say(th, "go")
		w.post(tool.callbackOf(key("a")), subscriptionBody(key("a")))
		w.say(th, "more")
		w.post(tool.callbackOf(key("b")), result(key("b"), "result b"))
		w.post(tool.callbackOf(key("a")), eventBody(key("a"), "one", true, false))
		synctest.Wait()
		ctx := t.Context()
		if err := w.rt.threads.Freeze(ctx, "s", "1.m"); err != nil {
			t.Fatal(err)
		}
		w.post(tool.callbackOf(key("a")), eventBody(key("a"), "two", true, false))
		synctest.Wait()
		e, err := w.rt.threads.Export(ctx, "s", "1.m")
		if err != nil {
			t.Fatal(err)
		}
		if err := th.Say(ctx, "hello?"); !errors.Is(err, conversation.ErrMoved) {
			t.Errorf("a thread on its way takes something in: %v", err)
		}
		if encoded, err = json.Marshal(e); err != nil {
			t.Fatal(err)
		}
		cbor, err := durable.CBOR().Append(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		var back conversation.Export
		if err := durable.CBOR().Decode(cbor, &back); err != nil || len(back.Messages) != len(e.Messages) {
			t.Errorf("as CBOR: %d messages, %v", len(back.Messages), err)
		}
		if err := w.rt.threads.Abort(ctx, "s", "1.m"); err != nil { // the destination refused it
			t.Fatal(err)
		}
		if err := w.rt.threads.Freeze(ctx, "s", "2.m"); err != nil {
			t.Fatal(err)
		}
		if err := w.rt.threads.Commit(ctx, "s", "2.m"); !errors.Is(err, conversation.ErrNotMoving) {
			t.Errorf("a thread that nobody has leaves: %v", err)
		}
		if _, err := w.rt.threads.Export(ctx, "s", "2.m"); err != nil {
			t.Fatal(err)
		}
		if err := w.rt.threads.Commit(ctx, "s", "2.m"); err != nil {
			t.Fatal(err)
		}
		if err := th.Say(ctx, "hello?"); !errors.Is(err, conversation.ErrMoved) {
			t.Errorf("a thread that moved takes something in: %v", err)
		}
	})
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.opts.Model = conversation.Script{{}, {}, {}, {Text: "seen"}, callsOf("a"), {Text: "end"}}
		w.start(tool.base)
		var e conversation.Export
		if err := json.Unmarshal(encoded, &e); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a repetition changes nothing
			if err := w.rt.threads.Stage(t.Context(), &e); err != nil {
				t.Fatal(err)
			}
		}
		th := w.rt.Thread("s")
		if st, err := th.Status(t.Context()); err != nil || len(st.Pending) != 1 || len(st.Subscriptions) != 1 || !st.Frozen {
			t.Errorf("status %+v, %v", st, err)
		}
		if err := w.rt.threads.Commit(t.Context(), "s", "1.m"); err != nil {
			t.Fatal(err)
		}
		w.say(th, "on we go")
		h := w.history(th)
		for _, want := range []string{
			"user: go\nassistant: a=echo({})\nresult a: watching\n",
			"result b: result b\nresult c: Tool call interrupted by user\n",
			": one\n", ": two\nuser: on we go\nassistant: seen\n",
		} {
			if !strings.Contains(h, want) {
				t.Errorf("no %q in\n%s", want, h)
			}
		}
		w.say(th, "call it a again") // an identifier used at the source
		if h := w.history(th); !strings.HasSuffix(h, "assistant: a-2=echo({})\n") {
			t.Errorf("history:\n%s", h)
		}
	})
}

// TestCallThatCameIsCancelled interrupts a thread that has just arrived. It catches a call that is taken for one never made
// there, and so continues.
func TestCallThatCameIsCancelled(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		tool := w.tool("tool.test")
		script := conversation.Script{callsOf("a"), {Text: "done"}}
		th := w.converse(script, tool.base)
		second := w.another("second.test", &user{}, script, tool.base)
		w.say(th, "go")
		if err := w.rt.Migrate(t.Context(), "s", second.PublicURL()); err != nil {
			t.Fatal(err)
		}
		if err := second.Thread("s").Interrupt(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r, ok := second.program.Resolved(key("a")); !ok || r.Cause != agentproto.ByInterruption {
			t.Errorf("the call: %+v, %v", r, ok)
		}
		if err := w.rt.CloseThread(t.Context(), "s"); !errors.Is(err, ErrElsewhere) {
			t.Errorf("closing it where it was: %v", err)
		}
	})
}
