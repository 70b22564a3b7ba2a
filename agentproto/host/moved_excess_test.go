package host

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

// moved makes a call in a session that moves to another host, and returns both and the callback URL. The rate of the URL is tiny.
func (w *world) moved() (key agentproto.CallKey, second *Runtime, url string) {
	w.t.Helper()
	w.opts.Bounds = Bounds{Rates: tiny}
	w.opts.MigrationKey = sharedKey
	here, there := w.tool("here.test"), w.tool("there.test")
	w.start(here.base)
	second = w.another("second.test", &user{}, nil, there.base)
	key = w.call("s", "a")
	url = here.callbackOf(key)
	if err := w.rt.Migrate(w.t.Context(), "s", "http://second.test"); err != nil {
		w.t.Fatal(err)
	}
	return key, second, url
}

// TestS11ExcessAfterMove posts more events for a session that has moved than its callback URL allows (S11). The test fails if they
// resolve the call, or are answered as if they were malformed.
func TestS11ExcessAfterMove(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		key, second, url := w.moved()
		for i := range 4 {
			if status, text := w.postBody(url, eventBody(key, "early", true, false)); status != http.StatusOK {
				t.Errorf("event %d was answered %d %s", i, status, text)
			}
		}
		if status := w.post(url, result(key, "ok")); status != http.StatusOK {
			t.Errorf("the result was answered %d", status)
		}
		if r, err := second.Await(t.Context(), key); err != nil || r.Result.String() != "ok" {
			t.Errorf("%+v, %v", r, err)
		}
		if n := second.Stats().LeftOut; n != 3 {
			t.Errorf("%d events were left out, want 3", n)
		}
	})
}

// TestS11ExcessAfterTwoMoves posts more events than the callback URL allows, and then a message that is too large, for a session that
// has moved twice (S11, W08). The test fails if the host in between does not pass on what they are.
func TestS11ExcessAfterTwoMoves(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		key, second, url := w.moved()
		third := w.another("third.test", &user{}, nil, w.tool("yonder.test").base)
		if err := second.Migrate(t.Context(), "s", "http://third.test"); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if status, text := w.postBody(url, eventBody(key, "early", true, false)); status != http.StatusOK {
				t.Errorf("event %d was answered %d %s", i, status, text)
			}
		}
		if n := third.Stats().LeftOut; n != 3 {
			t.Errorf("%d events were left out, want 3", n)
		}
		if status, text := w.postBody(url, strings.Repeat(" ", 9<<20)); status != http.StatusRequestEntityTooLarge {
			t.Errorf("a message that is too large was answered %d %s", status, text)
		}
		if r, err := third.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByMalformed || !strings.Contains(r.Result.String(), "larger than") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestS11LeftOutAfterMove checks that the model is told about events that were left out after the session has moved (S11).
func TestS11LeftOutAfterMove(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		w.opts.Bounds = Bounds{Rates: Rates{Call: Rate{Second: 1, Burst: 1000}}}
		script := conversation.Script{callsOf("a"), {Text: "watching"}, {Text: "seen"}, {Text: "seen"}}
		here, there := w.tool("here.test"), w.tool("there.test")
		th := w.converse(script, here.base)
		second := w.another("second.test", &user{}, script, there.base)
		w.say(th, "go")
		url := here.callbackOf(key("a"))
		w.post(url, subscriptionBody(key("a")))
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if status, text := w.postBody(url, eventBody(key("a"), "tick", true, false)); status != http.StatusOK {
				t.Errorf("an event was answered %d %s", status, text)
			}
		}
		if status := w.post(url, eventBody(key("a"), "end", true, true)); status != http.StatusOK {
			t.Errorf("the final event was answered %d", status)
		}
		h := w.history(second.Thread("s"))
		if !strings.Contains(h, "events were left out: the tool sent more than the runtime takes]\nend") {
			t.Errorf("the model was not told:\n%s", h)
		}
	})
}

// TestW08TooLargeAfterMove posts a message that is too large for every type to a session that has moved. The tool and the model are
// told so (W08).
func TestW08TooLargeAfterMove(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		key, second, url := w.moved()
		status, text := w.postBody(url, strings.Repeat(" ", 9<<20))
		if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "larger than") {
			t.Errorf("answered %d %s", status, text)
		}
		if r, err := second.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByMalformed || !strings.Contains(r.Result.String(), "larger than") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
