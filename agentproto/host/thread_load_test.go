package host

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// TestConversationThreads runs a thousand threads with three calls at a time, while the
// model of one and the tool of another hang: no thread waits for another (L02).
func TestConversationThreads(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		const threads = 1000
		tool, hung := w.tool("tool.test"), w.tool("hung.test", "hung")
		tool.ack = func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) {
			w.posts.Go(func() { w.postUntilTaken(inv.CallbackURL, result(inv.Key(), "result of "+inv.GroupID)) })
		}
		var asked atomic.Int64
		script := conversation.Script{callsOf("a", "b", "c"), callsOf("d"), {Text: "done"}}
		w.opts.Model = conversation.ModelFunc(func(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
			switch asked.Add(1); r.Thread {
			case "0":
				<-ctx.Done()
				return nil, ctx.Err()
			case "1":
				return &conversation.Reply{Calls: []conversation.Call{{ID: "h", Name: "hung"}}}, nil
			}
			<-time.After(time.Second)
			return script.Reply(ctx, r)
		})
		w.start(tool.base, hung.base)
		begin := time.Now()
		for n := range threads {
			th, err := w.rt.OpenSession(t.Context(), SessionRequest{ID: fmt.Sprint(n)})
			if err == nil {
				err = th.Say(t.Context(), "go")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		w.pass(6 * time.Second) // three times a second for the model, and the time of retried posts
		done := 0
		for n := 2; n < threads; n++ {
			messages, err := w.rt.Thread(fmt.Sprint(n)).History(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(messages) == 9 && messages[8].Text == "done" && messages[3].Result.Text() == fmt.Sprintf("result of %d", n) {
				done++
			}
		}
		if done != threads-2 {
			t.Errorf("%d threads of %d are done after %v", done, threads-2, time.Since(begin))
		}
		if got, want := asked.Load(), int64(3*(threads-2)+2); got != want {
			t.Errorf("models were asked %d times, want %d", got, want)
		}
		if st := w.stats(); st.Calls != 4*(threads-2)+1 || st.Results != 4*(threads-2) {
			t.Errorf("%d calls and %d results, want %d and %d", st.Calls, st.Results, 4*(threads-2)+1, 4*(threads-2))
		}
	})
}

// postUntilTaken posts a callback and, as a tool server does, retries if the endpoint is
// busy or has just closed the connection.
func (w *world) postUntilTaken(url, body string) {
	for range 100 {
		resp, err := w.client.Post(url, "application/json", strings.NewReader(body))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	w.t.Error("a callback is not taken in a second")
}

// TestConversationModelFails checks that a failing model is asked again, and that the user
// is told if that does not help. An answer that nobody waits for has no effect.
func TestConversationModelFails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		asked := 0
		model := conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
			asked++
			switch last := r.Messages[len(r.Messages)-1].Text; {
			case last == "flaky" && asked < 3:
				return nil, fmt.Errorf("busy")
			case last == "broken":
				return nil, fmt.Errorf("broken")
			case last == "refused":
				return nil, conversation.Permanent(fmt.Errorf("not with me"))
			case last == "panic":
				panic("oops")
			}
			return &conversation.Reply{Text: "here"}, nil
		})
		th := w.converse(model, w.tool("tool.test").base)
		for _, step := range []struct {
			text  string
			asked int
			took  time.Duration
		}{{"flaky", 3, 3 * time.Second}, {"broken", 7, 68 * time.Second}, {"refused", 1, 0}, {"panic", 1, 0}} {
			asked = 0
			w.say(th, step.text)
			w.pass(step.took)
			if asked != step.asked {
				t.Errorf("%s: asked %d times, want %d", step.text, asked, step.asked)
			}
		}
		w.wantHistory(th, `
			user: flaky
			assistant: here
			user: broken
			notice: The model could not be asked: broken (attempt 7)
			user: refused
			notice: The model could not be asked: not with me (attempt 1)
			user: panic
			notice: The model could not be asked: the model panicked: oops (attempt 1)
`)
	})
}
