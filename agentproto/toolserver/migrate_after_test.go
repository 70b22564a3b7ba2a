package toolserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestG09_UnknownSession checks that a session without state moves at once, without a
// request to the destination.
func TestG09_UnknownSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		m.mustMigrate()
		if len(m.road.sent) > 0 {
			t.Errorf("requests %q", m.road.sent)
		}
		m.call("add", "c1", `{"a":1,"b":2}`)
		if got := m.nextResult(); got != "3" {
			t.Errorf("afterwards %q", got)
		}
		m.close()
		m.dst.close()
	})
}

// TestG10_Destinations checks that every destination that is not on the list is refused.
func TestG10_Destinations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		m.notes.set("thread-1", "state")
		for _, to := range []string{
			"http://169.254.169.254", "http://127.0.0.1:8080", "file:///etc/passwd", "gopher://b.example", "https://evil.example", "http://b.example/base",
			"https://b.example", "https://b.example/base/..", "https://b.example/base/other", "https://b.example:444/base", "https://user@b.example/base",
			"https://b.example/base?x", "https://b.example/base#x", "https://b.example.evil.example/base", "https://c.example/x/../y", "https://c.example/./x",
			"https://b.example%2fbase", "https:b.example/base", "https://B.EXAMPLE.:443/base", "",
		} {
			if w := m.migrate(to); w.Code != 403 && w.Code != 400 || w.Body.Len() == 0 {
				t.Errorf("%s: answered %d %s", to, w.Code, w.Body)
			}
		}
		if len(m.road.sent) > 0 {
			t.Errorf("requests %q", m.road.sent)
		}
		if w := m.post("/migrate", `{"session_id":"thread-1","destination_url":"https://b.example/base"}`, "X-Stranger", "1"); w.Code != 401 {
			t.Errorf("a stranger is answered %d", w.Code)
		}
		if w := m.migrate(destination + "/"); w.Code != 200 {
			t.Errorf("with a slash: %d %s", w.Code, w.Body)
		}
		m.close()
		m.dst.close()
	})
}

// TestG11_Afterwards repeats the request, asks for another destination, and calls the
// source after a migration.
func TestG11_Afterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		m.notes.set("thread-1", "state")
		m.mustMigrate()
		n := len(m.road.sent)
		m.mustMigrate()
		if len(m.road.sent) != n || m.there.imports != 1 {
			t.Errorf("the second request was not without effect: %d imports, %q", m.there.imports, m.road.sent[n:])
		}
		if w := m.migrate("https://c.example"); w.Code != 409 {
			t.Errorf("another destination: %d %s", w.Code, w.Body)
		}
		for restarted := range 2 {
			m.call("add", fmt.Sprint("c", restarted), `{"a":1,"b":2}`, thread("child"), ancestors("thread-1"))
			if got := m.nextResult(); !strings.HasPrefix(got, "Error: the session has moved") {
				t.Errorf("the source gives %q", got)
			}
			m.end()
			m.begin()
		}
		m.call("add", "c1", `{"a":1,"b":2}`, thread("thread-2"))
		if got := m.nextResult(); got != "3" {
			t.Errorf("another session gets %q", got)
		}
		if m.notes.get("thread-1") == "" {
			t.Error("the tool's state is gone before the thread was closed")
		}
		m.post("/close_thread", `{"thread_id":"thread-1"}`)
		synctest.Wait()
		if m.notes.get("thread-1") != "" || m.there.get("thread-1") == "" {
			t.Error("the closed thread was not cleaned up here, and here only")
		}
		m.close()
		m.dst.close()
	})
}

// TestThereAndBack moves a session back to its first instance.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 10)
		m := newMove(t, addStation(ran))
		back := &road{to: func() *toolserver.Server { return m.server }}
		m.dst.end()
		m.dst.opts.MigrationTransport, m.dst.opts.MigrationDestinations = back, []string{"https://tools.example"}
		m.dst.begin()
		m.notes.set("thread-1", "state")
		m.call("count", "c1", `{}`)
		m.nextResult()
		m.mustMigrate()
		m.there.set("thread-1", "newer state")
		if w := m.dst.post("/migrate", `{"session_id":"thread-1","destination_url":"https://tools.example"}`); w.Code != 200 {
			t.Fatalf("back: %d %s\n%s", w.Code, w.Body, m.dst.log)
		}
		if got := m.notes.get("thread-1"); got != "newer state" {
			t.Errorf("state %q", got)
		}
		m.call("add", "c2", `{"a":1,"b":2}`)
		if got := m.nextResult(); got != "3" {
			t.Errorf("after it came back: %q", got)
		}
		if got := m.next().body; !strings.Contains(got, `"text":"0"`) {
			t.Errorf("event %s", got)
		}
		m.end()
		m.dst.close()
	})
}

// TestCancelledMeanwhile cancels a call of a frozen session whose migration then fails. The call does not run again.
func TestCancelledMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 10)
		m := newMove(t, addStation(ran))
		m.call("long", "c1", `{"For":3600000000000}`)
		<-ran
		m.road.before = func(n int) (*http.Response, error) {
			if n == 2 {
				m.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
				if code := m.invoke("add", "c2", `{"a":1,"b":2}`); code != 503 {
					t.Errorf("a frozen session answers %d", code)
				}
				if w := m.migrate(destination); w.Code != 409 {
					t.Errorf("a second migration answers %d", w.Code)
				}
				return nil, errRefusedConnection
			}
			return nil, nil
		}
		if w := m.migrate(destination); w.Code < 500 {
			t.Errorf("answered %d", w.Code)
		}
		<-time.After(2 * time.Hour)
		if len(ran) > 0 {
			t.Error("the cancelled call was run again")
		}
		m.close()
		m.dst.close()
	})
}

// TestMovesInTheMiddleOfQuestions moves a call that has one answer and waits for
// another. At the new address the user is asked only the open question.
func TestMovesInTheMiddleOfQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, func(s *toolserver.Server) {
			toolserver.Add(s, "ask", "Asks twice.", func(ctx context.Context, _ none) (int, error) {
				first, err := toolserver.Choose(ctx, "First?", []string{"a", "b"}, 0)
				if err != nil {
					return 0, err
				}
				second, err := toolserver.Choose(ctx, "Second?", []string{"a", "b", "c"}, 0)
				return 10*first + second, err
			})
		})
		m.call("ask", "c1", `{}`)
		_, path := m.question()
		m.post(path, `{"id":"c1","selected":1}`)
		_, old := m.question()
		m.mustMigrate()
		if w := m.post(old, `{"id":"c1","selected":1}`); w.Code >= 500 {
			t.Errorf("the old address answers %d", w.Code)
		}
		got := m.dst.next()
		q, ok := got.Callback.(*agentproto.UserChoice)
		if !ok || q.Prompt != "Second?" || !strings.HasPrefix(q.ResponseURL, destination) {
			t.Fatalf("the destination sent %s", got.body)
		}
		m.dst.post(strings.TrimPrefix(q.ResponseURL, destination), `{"id":"c1","selected":2}`)
		if got := m.dst.nextResult(); got != "12" {
			t.Errorf("result %q", got)
		}
		m.close()
		m.dst.close()
	})
}

// TestAskedAtEachStay moves a session with an open question to the destination, back, and to the destination again. Each stay asks
// the question again, and the answer to the last one is the answer.
func TestAskedAtEachStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addMenu)
		const source = "https://tools.example"
		m.dst.opts.MigrationTransport = &road{to: func() *toolserver.Server { return m.server }}
		m.dst.opts.MigrationDestinations = []string{source}
		m.dst.end()
		m.dst.begin()
		asked := func(h *house) string {
			t.Helper()
			select {
			case got := <-h.messages:
				if q, ok := got.Callback.(*agentproto.UserChoice); ok {
					return strings.TrimPrefix(q.ResponseURL, h.opts.PublicURL)
				}
				t.Fatalf("got %s, want a question", got.body)
			case <-time.After(time.Hour):
				t.Fatal("the question was not asked")
			}
			return ""
		}
		m.call("menu", "c1", "{}")
		asked(m.house)
		var path string
		for range 2 {
			m.mustMigrate()
			asked(m.dst)
			back := fmt.Sprintf(`{"session_id":"thread-1","destination_url":%q}`, source)
			if w := m.dst.post("/migrate", back); w.Code != http.StatusOK {
				t.Fatalf("the way back: %d %s", w.Code, w.Body)
			}
			path = asked(m.house)
		}
		if w := m.post(path, `{"id":"c1","selected":2}`); w.Code != http.StatusOK {
			t.Errorf("the answer: %d %s", w.Code, w.Body)
		}
		if got := m.nextResult(); got != "cheese" {
			t.Errorf("result %q", got)
		}
		m.close()
		m.dst.close()
	})
}
