package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// try makes a call. It returns the text of its result, "invoked" if the call was posted to a
// tool server, or the error, and the duration.
func (w *world) try(group, operation string) (string, time.Duration) {
	w.t.Helper()
	start := time.Now()
	key, err := w.rt.Call(w.t.Context(), Request{GroupID: group, Operation: operation})
	took := time.Since(start)
	if err != nil {
		return err.Error(), took
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	r, err := w.rt.Await(ctx, key)
	if err != nil {
		return "invoked", took
	}
	return r.Result.String(), took
}

// TestD04DownAtTheFirstCall checks that a server that is down at a session's first call is not
// missing for the rest of the session (D04). The first call reports that the server cannot be
// reached. The next one after it is up runs, and the session's other tools stay as they were.
func TestD04DownAtTheFirstCall(t *testing.T) {
	for _, down := range []int{http.StatusServiceUnavailable, http.StatusNotFound} {
		inWorld(t, func(t *testing.T, w *world) {
			late, good := w.fickle("late.test", "late"), w.tool("good.test")
			late.status.Store(int32(down))
			w.start(late.base, good.base)
			got, took := w.try("s", "late")
			if want := "Error: tool server http://late.test cannot be reached, and no other has a tool \"late\"; try again later"; got != want {
				t.Errorf("while it is down: %q, want %q", got, want)
			}
			if took < 4*time.Second || took > 30*time.Second {
				t.Errorf("the call waited %v, want about as long as a dispatch waits", took)
			}
			if got, took := w.try("s", "echo"); got != "invoked" || took != 0 {
				t.Errorf("a tool of another server: %q after %v", got, took)
			}
			good.manifest = strings.Replace(good.manifest, `{"type":"object"}`, `{"type":"object","required":["a"]}`, 1)
			late.status.Store(0)
			w.pass(time.Second)
			if got, took := w.try("s", "late"); got != "invoked" || took != 0 {
				t.Errorf("when it is up: %q after %v", got, took)
			}
			if got, _ := w.try("s", "echo"); got != "invoked" {
				t.Errorf("the tool of the other server changed: %q", got)
			}
			if names, problems := w.offered("s"); names != "late echo" || problems != "" {
				t.Errorf("tools %q, problems %q", names, problems)
			}
		})
	}
}

// TestD04UpWhileACallWaits checks that a call waits for an unreachable server as a dispatch
// does, and runs when the server is up (D04).
func TestD04UpWhileACallWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start("http://late.test") // nothing listens there
		go func() {
			<-time.After(2 * time.Second)
			w.tool("late.test", "late")
		}()
		if got, took := w.try("s", "late"); got != "invoked" || took < 2*time.Second || took > 6*time.Second {
			t.Errorf("%q after %v", got, took)
		}
	})
}

// TestD04Silent checks that a session waits only once for a silent server (L02). The server's
// tools appear when it has answered.
func TestD04Silent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		silent, good := w.fickle("silent.test", "silent"), w.tool("good.test")
		hang := make(chan struct{})
		silent.hangUntil(hang)
		w.start(silent.base, good.base)
		w.offered("s")
		for range 20 {
			if _, took := w.try("s", "echo"); took != 0 {
				t.Errorf("a tool of another server waited %v", took)
			}
			start := time.Now()
			if w.offered("s"); time.Since(start) != 0 {
				t.Errorf("the tools were waited for for %v", time.Since(start))
			}
		}
		got, took := w.try("s", "silent")
		if !strings.Contains(got, "tool server http://silent.test cannot be reached") || took > 30*time.Second {
			t.Errorf("%q after %v", got, took)
		}
		close(hang)
		w.pass(time.Minute)
		w.offered("s") // fetches the manifest again
		synctest.Wait()
		w.pass(time.Second)
		if got, took := w.try("s", "silent"); got != "invoked" || took != 0 {
			t.Errorf("when it answers: %q after %v", got, took)
		}
	})
}

// TestD04ManyCalls checks that many calls of a missing tool do not each wait for a server that
// is down (D04).
func TestD04ManyCalls(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late := w.fickle("late.test", "late")
		late.status.Store(500)
		w.start(late.base)
		start := time.Now()
		for i := range 100 {
			if got, _ := w.try(fmt.Sprint(i%10), "late"); !strings.Contains(got, "cannot be reached") {
				t.Errorf("%q", got)
			}
		}
		if took := time.Since(start); took < 4*time.Second || took > 30*time.Second {
			t.Errorf("100 calls took %v, want about as long as one", took)
		}
		late.status.Store(0)
		w.pass(time.Second)
		if got, took := w.try("0", "late"); got != "invoked" || took != 0 {
			t.Errorf("when it is up: %q after %v", got, took)
		}
	})
}

// TestD08BackWithAnotherManifest checks that the tools that a session has from a server never
// change (D08). Missing tools are taken from the manifest that the server has when it is back.
func TestD08BackWithAnotherManifest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late := w.fickle("late.test", "before")
		late.status.Store(500)
		w.start(late.base)
		w.offered("s")
		late.manifest = strings.Replace(late.manifest, "before", "after", 1)
		late.status.Store(0)
		w.pass(time.Second)
		if names, problems := w.offered("s"); names != "after" || problems != "" {
			t.Errorf("tools %q, problems %q", names, problems)
		}
		late.manifest = strings.Replace(late.manifest, "after", "later", 1)
		w.pass(time.Minute)
		if names, _ := w.offered("s"); names != "after" {
			t.Errorf("the session has %q now", names)
		}
		if names, _ := w.offered("new"); names != "later" {
			t.Errorf("a new session has %q", names)
		}
	})
}

// TestD05BackWithATakenName checks that a server that comes back does not take over the name
// of a tool that the session has (D05, D08). If two servers come back with the same name,
// neither offers it.
func TestD05BackWithATakenName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late, other := w.fickle("late.test", "echo", "mine", "twice"), w.fickle("other.test", "twice", "yours")
		good := w.tool("good.test")
		late.status.Store(500)
		other.status.Store(500)
		w.start(late.base, other.base, good.base)
		if names, _ := w.offered("s"); names != "echo" {
			t.Fatalf("tools %q", names)
		}
		late.status.Store(0)
		other.status.Store(0)
		w.pass(time.Second)
		for range 2 {
			names, problems := w.offered("s")
			if names != "mine yours echo" || strings.Count(problems, "\n") != 2 || strings.Count(problems, `tool "twice": another toolset`) != 2 ||
				!strings.Contains(problems, `toolset http://late.test: tool "echo": the session had a tool of this name`) {
				t.Errorf("tools %q, problems %q", names, problems)
			}
			w.pass(time.Minute)
		}
		w.try("s", "echo")
		if len(good.invocations()) != 1 || len(late.invocations()) != 0 {
			t.Error("echo was taken over")
		}
		if names, _ := w.offered("new"); names != "mine yours" {
			t.Errorf("a new session has %q", names)
		}
	})
}

// TestD06InvalidForNow checks that an invalid manifest is fetched again later, without
// waiting.
func TestD06InvalidForNow(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		good := tool.manifest
		tool.manifest = `{"name":"set"}`
		w.start(tool.base)
		got, took := w.try("s", "echo")
		if want := `Error: there is no tool "echo"; the manifest of tool server http://tool.test is not valid`; got != want || took != 0 {
			t.Errorf("%q after %v, want %q", got, took, want)
		}
		tool.manifest = good
		w.pass(time.Second)
		if got, _ := w.try("s", "echo"); got != "invoked" {
			t.Errorf("when it is valid: %q", got)
		}
	})
}

// TestFailedManifestOnceASecond checks that a server without a manifest is asked only once a
// second, however many callers request the tools of however many sessions.
func TestFailedManifestOnceASecond(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bad := w.fickle("bad.test")
		bad.status.Store(500)
		w.start(bad.base)
		for i := range 10 {
			w.offered(fmt.Sprint(i))
		}
		w.pass(time.Second)
		before := bad.fetches.Load()
		for range 30 { // 3 s
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() { w.rt.ToolsOf(t.Context(), fmt.Sprint(i%10)) })
			}
			wg.Wait()
			w.pass(100 * time.Millisecond)
		}
		if n := bad.fetches.Load() - before; n != 3 {
			t.Errorf("%d fetches in 3 s, want 3", n)
		}
		if n := strings.Count(w.logs.String(), "toolset problem"); n != 11 {
			t.Errorf("%d problems are logged, want one at the start and one for each session", n)
		}
	})
}

// TestD04WaitingEnds checks that waiting for a server ends with the caller's context and with
// the runtime. Then no call is made.
func TestD04WaitingEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start("http://late.test")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		if _, err := w.rt.Call(ctx, Request{GroupID: "g", ID: "1", Operation: "late"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Call = %v, want its context's error", err)
		}
		go func() {
			<-time.After(1500 * time.Millisecond)
			w.rt.Stop(context.Background())
		}()
		start := time.Now()
		if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "1", Operation: "late"}); err != ErrStopped || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("Call = %v after %v, want ErrStopped at once", err, time.Since(start))
		}
	})
}

// TestD04Conversation checks that a conversation is offered a server's tools from the first
// round in which the server can be reached.
func TestD04Conversation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		late := w.fickle("late.test")
		late.status.Store(500)
		var offered []string
		model := modelFunc(func(r *conversation.Request) *conversation.Reply {
			var names []string
			for _, tool := range r.Tools {
				if tool.Toolset != "" {
					names = append(names, tool.Name)
				}
			}
			offered = append(offered, strings.Join(names, " "))
			switch len(offered) {
			case 1, 3:
				reply := callsOf(fmt.Sprint(len(offered)))
				return &reply
			}
			return &conversation.Reply{Text: "ok"}
		})
		th := w.converse(model, late.base)
		w.say(th, "one")
		w.pass(time.Minute)
		late.status.Store(0)
		w.say(th, "two")
		w.post(late.callbackOf(key("3")), result(key("3"), "at last"))
		w.wantHistory(th, `
			user: one
			assistant: 1=echo({})
			result 1: Error: tool server http://late.test cannot be reached, and no other has a tool "echo"; try again later
			assistant: ok
			user: two
			assistant: 3=echo({})
			result 3: at last
			assistant: ok
		`)
		if got := fmt.Sprintf("%q", offered); got != `["" "" "echo" "echo"]` {
			t.Errorf("the model was offered %s", got)
		}
	})
}

// modelFunc is a model that is a function.
type modelFunc func(*conversation.Request) *conversation.Reply

func (f modelFunc) Reply(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
	return f(r), nil
}

// TestD04Forwarded checks that the old and the new host of a session forward messages even if
// the tool server was down when they started (doc/protocol.md §10.4).
func TestD04Forwarded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		tool := w.fickle("tool.test")
		script := conversation.Script{callsOf("a"), {Text: "done"}}
		th := w.converse(script, tool.base)
		second := w.another("second.test", &user{}, script, tool.base)
		w.say(th, "go")
		url := tool.callbackOf(key("a"))
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatal(err)
		}
		for _, rt := range []*Runtime{w.rt, second} { // as after a start while it is down
			rt.catalog.Forget()
		}
		tool.status.Store(500)
		if status := w.post(url, result(key("a"), "early")); status != http.StatusServiceUnavailable {
			t.Errorf("while the tool server is down: status %d", status)
		}
		tool.status.Store(0)
		w.pass(time.Second)
		if status := w.post(url, result(key("a"), "late")); status != http.StatusOK {
			t.Errorf("when it is up: status %d", status)
		}
		w.wantHistory(second.Thread("s"), `
			user: go
			assistant: a=echo({})
			result a: late
			assistant: done
		`)
	})
}
