package host

import (
	"net/http"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

const day = 24 * time.Hour

// TestOldCallbackURL uses callback URLs after the time for which they were made: that of an open subscription, and that of a call
// whose lifetime has started again after a choice. The test fails if a message of a call that is not over is refused, or if a URL
// never expires.
func TestOldCallbackURL(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, sub, url := w.pending()
		w.post(url, subscribe(sub))
		w.pass(20 * day)
		for _, final := range []bool{false, true} {
			if status := w.post(url, event(sub, "late", final)); status != 200 {
				t.Errorf("an event of an open subscription after weeks: status %d", status)
			}
			w.pass(time.Second)
		}
		if st := w.stats(); st.Events != 2 || st.Unsubscribed != 0 {
			t.Errorf("stats %+v, want two events", st.Counts)
		}
		w.pass(3 * day)
		if status := w.post(url, event(sub, "after the end", false)); status != 404 {
			t.Errorf("an event after the end: status %d, want 404", status)
		}

		key, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "long", Operation: "echo", Lifetime: 20 * day})
		if err != nil {
			t.Fatal(err)
		}
		url = tool.callbackOf(key)
		w.pass(19 * day)
		if status := w.post(url, `{"type":"user_choice","group_id":"g","id":"long","prompt":"?","choices":["a"],"default":0,"response_url":"http://tool.test/answer"}`); status != 200 {
			t.Fatalf("the choice: status %d", status)
		}
		w.pass(time.Second)
		if err := w.rt.AnswerPrompt(t.Context(), key, 1, 0); err != nil {
			t.Fatal(err)
		}
		w.pass(15 * day)
		if status := w.post(url, result(key, "done")); status != 200 {
			t.Errorf("a result within the new lifetime: status %d", status)
		}
		if r, ok := w.rt.program.Resolved(key); !ok || r.Cause != agentproto.ByResult {
			t.Errorf("the call is resolved by %+v", r)
		}
	})
}

// TestOldCallbackURLAfterMove uses a callback URL after the time for which it was made, when the session of its call is at another
// host. That host knows whether the call is over, so the host that made the URL passes the message on. The test fails if a message
// of a call that is not over is refused.
func TestOldCallbackURLAfterMove(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		here, there := w.tool("here.test"), w.tool("there.test")
		w.start(here.base)
		second := w.another("second.test", &user{}, nil, there.base)
		key := w.call("s", "a")
		url := here.callbackOf(key)
		if status := w.post(url, subscriptionBody(key)); status != http.StatusOK {
			t.Fatalf("the subscription: status %d", status)
		}
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatal(err)
		}
		w.pass(20 * day)
		if status := w.post(url, eventBody(key, "late", true, false)); status != http.StatusOK {
			t.Errorf("an event of a subscription that is open at the other host: status %d", status)
		}
		w.pass(time.Second)
		if n := second.Stats().Events; n != 1 {
			t.Errorf("the other host has %d events, want 1", n)
		}
		if n := w.rt.Stats().Forwarded; n != 1 {
			t.Errorf("%d messages were passed on, want 1", n)
		}
	})
}
