package host

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// TestConversationRestart checks that a conversation continues after a restart: pending
// calls get their results, a model that had not answered is asked again, and what was
// waiting still waits.
func TestConversationRestart(t *testing.T) {
	t.Parallel()
	late := lateServer(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan int, 8)
	answers := make(chan *conversation.Reply)
	model := conversation.ModelFunc(func(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
		asked <- len(r.Messages)
		select {
		case a := <-answers:
			return a, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	opts := Options{
		Toolsets: []string{late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer, Model: model,
		State: &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler)}, Listener: listener,
	}
	var rt *Runtime
	restart := func() *Thread {
		t.Helper()
		if rt != nil {
			stopNow(t, rt)
			opts.Listener, opts.ListenAddr = nil, addr
		}
		if rt, err = Start(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		th, err := rt.OpenSession(t.Context(), SessionRequest{ID: "s", UserID: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		return th
	}
	wantAsked := func(messages int) {
		t.Helper()
		select {
		case n := <-asked:
			if n != messages {
				t.Fatalf("asked with %d messages, want %d", n, messages)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the model is not asked")
		}
	}

	th := restart()
	if err := th.Say(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	wantAsked(1)
	restart()
	wantAsked(1)
	answers <- &conversation.Reply{Calls: []conversation.Call{{ID: "a", Name: "late"}, {ID: "b", Name: "late"}}}
	urls := map[string]string{}
	for range 2 {
		inv := <-late.invocations
		urls[inv.ID] = inv.CallbackURL
	}
	if status := late.post(t, urls["b"], subscriptionBody(agentproto.CallKey{GroupID: "s", ID: "b"})); status != 200 {
		t.Errorf("status %d", status)
	}
	// An event that waits for the batch is not lost with the process (S08).
	watch := agentproto.CallKey{GroupID: "s", ID: "b"}
	if status := late.post(t, urls["b"], eventBody(watch, "seen", true, false)); status != 200 {
		t.Errorf("status %d", status)
	}
	th = restart()
	if st, err := th.Status(t.Context()); err != nil || len(st.Pending) != 1 || st.Deferred != 1 || st.Pending[0].Call.ID != "a" {
		t.Errorf("status %+v, %v", st, err)
	}
	if status := late.post(t, urls["a"], result(agentproto.CallKey{GroupID: "s", ID: "a"}, "of a")); status != 200 {
		t.Errorf("status %d", status)
	}
	wantAsked(6)
	answers <- &conversation.Reply{Text: "done"}
	var all []conversation.Message
	for m, err := range th.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, m); m.Text == "done" {
			break
		}
	}
	want := "user: go|assistant: a=late() b=late()|result a: of a|result b: watching|" +
		"assistant: event-5=incoming_event({\"kind\":\"event\",\"tool_call_id\":\"b\",\"tool\":\"late\"})|result event-5: seen|assistant: done|"
	if got := strings.ReplaceAll(transcript(all), "\n", "|"); got != want {
		t.Errorf("history %s, want %s", got, want)
	}
	stopNow(t, rt)
}
