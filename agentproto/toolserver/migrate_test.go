package toolserver_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestG07_Moves moves a session with every kind of state.
func TestG07_Moves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 10)
		m := newMove(t, addStation(ran))
		m.notes.set("thread-1", "canary-state")
		m.notes.set("thread-2", "another session's")
		m.call("add", "finished", `{"a":1,"b":2}`)
		m.nextResult()
		m.call("count", "sub", `{}`)
		m.nextResult()
		<-time.After(90 * time.Minute)
		if got := m.next().body; !strings.Contains(got, `"text":"0"`) {
			t.Errorf("first event %s", got)
		}
		m.call("long", "long", `{"For":3600000000000}`, thread("child"), ancestors("thread-1"))
		key := <-ran
		m.call("long", "other", `{"For":3600000000000}`, thread("thread-2"))
		<-ran
		m.answer = func(int, received) (*http.Response, error) { return status(503), nil }
		m.call("add", "unsent", `{"a":2,"b":2}`)
		synctest.Wait()
		first := m.sent()[len(m.sent())-1]
		if !m.server.Manifest().NeedsMigration {
			t.Error("the manifest does not say that sessions move")
		}

		m.mustMigrate()
		moved := time.Now()
		if got := m.there.get("thread-1"); got != "canary-state" {
			t.Errorf("state at the destination when /migrate answers: %q", got)
		}
		if got := m.there.get("thread-2"); got != "" {
			t.Errorf("another session came along: %q", got)
		}
		for _, text := range m.road.sent {
			for _, secret := range []string{"canary", "thread-1", "runtime.example", migrationKey} {
				if strings.Contains(text, secret) {
					t.Errorf("%q is on the road in clear", secret)
				}
			}
		}
		if again := <-ran; again != key {
			t.Errorf("the function runs with key %s, want %s", again, key)
		}
		if got := m.dst.next(); got.id != first.id || got.body != first.body {
			t.Errorf("the message that was not delivered is %s %s", got.id, got.body)
		}
		if code := m.dst.invoke("add", "finished", `{"a":1,"b":2}`); code != 200 {
			t.Errorf("a finished call is answered %d", code)
		}
		<-time.After(time.Hour)
		texts := m.dst.next().body + m.dst.next().body
		if !strings.Contains(texts, `"text":"1"`) || !strings.Contains(texts, `"text":"done"`) {
			t.Errorf("the destination sent %s", texts)
		}
		for _, a := range m.sent() {
			if a.at.After(moved) && !strings.Contains(a.body, "thread-2") {
				t.Errorf("the source still sends %s", a.body)
			}
		}
		m.dst.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"sub"}`)
		m.end()
		m.dst.close()
	})
}

// TestG08_DestinationFails interrupts a migration at every request. Afterwards the session is on
// exactly one side, and a repeated /migrate completes the move.
func TestG08_DestinationFails(t *testing.T) {
	t.Parallel()
	lost := func(at ...int) func(int) (*http.Response, error) {
		return func(n int) (*http.Response, error) {
			if slices.Contains(at, n) {
				return nil, errRefusedConnection
			}
			return nil, nil
		}
	}
	answered := func(code, at int) func(int) (*http.Response, error) {
		return func(n int) (*http.Response, error) {
			if n == at {
				return status(code), nil
			}
			return nil, nil
		}
	}
	// The requests are: 1 the manifest, 2 stage, 3 commit, 4 abort after a lost commit.
	for name, c := range map[string]struct {
		before, after func(int) (*http.Response, error)
		moved         bool // despite the failure
		doubt         bool // the source does not know the outcome for a while
	}{
		"down":                    {before: lost(1)},
		"no manifest":             {before: answered(404, 1)},
		"redirect":                {before: answered(302, 1)},
		"stage lost":              {before: lost(2)},
		"stage refused":           {before: answered(413, 2)},
		"stage's answer lost":     {after: lost(2)},
		"commit lost":             {before: lost(3)},
		"commit failed":           {before: answered(500, 3)},
		"commit's answer lost":    {after: lost(3), moved: true},
		"commit's answer forged":  {after: answered(200, 3), moved: true},
		"commit and abort lost":   {before: lost(3, 4), doubt: true},
		"both answers lost":       {after: lost(3, 4), moved: true, doubt: true},
		"abort's answer lost too": {before: lost(3), after: lost(4), doubt: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := make(chan string, 10)
				m := newMove(t, addStation(ran))
				m.notes.set("thread-1", "state")
				m.call("long", "c1", `{"For":3600000000000}`)
				<-ran
				m.road.fault(c.before, c.after)
				start := time.Now()
				w := m.migrate(destination)
				if d := time.Since(start); d > 2*time.Minute {
					t.Errorf("it took %v", d)
				}
				if failed := w.Code >= 400 && w.Body.Len() > 0; failed == (c.moved && !c.doubt) {
					t.Errorf("answered %d %s", w.Code, w.Body)
				}
				if strings.Contains(w.Body.String(), "refused connection") {
					t.Errorf("the answer is not in fixed words: %s", w.Body)
				}
				if c.doubt {
					if code := m.invoke("add", "c2", `{"a":1,"b":2}`); code != 503 {
						t.Errorf("a session in doubt answers %d, want 503", code)
					}
				}
				<-time.After(5 * time.Minute) // the source asks until it knows the outcome
				here, there := m.server, m.dst.server
				if !c.moved {
					if code := m.invoke("add", "c3", `{"a":1,"b":2}`); code != 200 {
						t.Fatalf("the source answers %d", code)
					}
					if got := m.nextResult(); got != "3" {
						t.Errorf("the source gives %q", got)
					}
					if len(ran) > 1 {
						t.Errorf("the function was started again %d times", len(ran))
					}
				}
				for len(ran) > 0 {
					<-ran
				}
				m.road.fault(nil, nil)
				m.mustMigrate()
				if here != m.server || there != m.dst.server {
					t.Fatal("a server was replaced")
				}
				m.mustMigrate() // once more
				<-time.After(2 * time.Hour)
				if got := m.dst.nextResult(); got != "done" {
					t.Errorf("the destination's result is %q", got)
				}
				if m.there.get("thread-1") != "state" {
					t.Error("the destination does not have the tool's state")
				}
				m.close()
				m.dst.close()
			})
		})
	}
}

// TestG08_Hangs has a destination that does not answer.
func TestG08_Hangs(t *testing.T) {
	t.Parallel()
	for at, limit := range map[int]time.Duration{1: 10 * time.Second, 2: 10*time.Minute + time.Second, 3: time.Minute} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMove(t, addTools)
				m.notes.set("thread-1", "state")
				m.road.hangs = func(n int) bool { return n >= at && n <= 4 }
				start := time.Now()
				w := m.migrate(destination)
				if d := time.Since(start); d > limit || w.Code < 500 {
					t.Errorf("answered %d after %v, want an error within %v", w.Code, d, limit)
				}
				<-time.After(10 * time.Minute)
				m.call("add", "c1", `{"a":1,"b":2}`)
				m.nextResult()
				m.close()
				m.dst.close()
			})
		})
	}
}

// TestG08_NotExported checks that a session stays if its state is too large, or cannot be exported or imported.
func TestG08_NotExported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMove(t, addTools)
		m.notes.set("thread-1", "state")
		for name, c := range map[string]struct {
			prepare, undo func()
			code          int
		}{
			"export-fails": {func() { m.notes.fails = errors.New("canary") }, func() { m.notes.fails = nil }, 500},
			"import-fails": {func() { m.there.fails = errors.New("canary") }, func() { m.there.fails = nil }, 502},
			"too-large":    {func() { m.notes.set("thread-1", strings.Repeat("x", 65<<20)) }, func() { m.notes.set("thread-1", "state") }, 507},
		} {
			c.prepare()
			w := m.migrate(destination)
			if w.Code != c.code || strings.Contains(w.Body.String(), "canary") {
				t.Errorf("%s: answered %d %s, want %d", name, w.Code, w.Body, c.code)
			}
			c.undo()
			m.call("add", name, `{"a":1,"b":2}`)
			if got := m.nextResult(); got != "3" {
				t.Errorf("%s: afterwards %q", name, got)
			}
		}
		m.mustMigrate()
		m.close()
		m.dst.close()
	})
}

// TestRunOnceIsNotInterrupted checks that a session stays while a call runs that must not run
// again, and moves when the call is done.
func TestRunOnceIsNotInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 10)
		m := newMove(t, addStation(ran))
		m.call("once", "c1", `{"For":600000000000}`)
		<-ran
		if w := m.migrate(destination); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
		if got := m.nextResult(); got != "done" {
			t.Errorf("result %q", got)
		}
		m.mustMigrate()
		if len(ran) > 0 {
			t.Error("the function has run again")
		}
		m.close()
		m.dst.close()
	})
}
