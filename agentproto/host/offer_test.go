package host

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// offered returns the names of the tools offered to a session, and its problems.
func (w *world) offered(session string) (names, problems string) {
	w.t.Helper()
	tools, found, err := w.rt.ToolsOf(w.t.Context(), session)
	if err != nil {
		w.t.Fatal(err)
	}
	var n, p []string
	for _, t := range tools {
		n = append(n, t.Name)
	}
	for _, problem := range found {
		p = append(p, problem.Error())
	}
	return strings.Join(n, " "), strings.Join(p, "\n")
}

// A fickle is a tool server whose manifest a test can make fail or hang.
type fickle struct {
	*toolServer
	status  atomic.Int32 // of the manifest; 0 is 200
	fetches atomic.Int32
	hang    chan struct{} // if not nil, the manifest waits for it to be closed
	mu      sync.Mutex
}

func (f *fickle) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == discovery.Path {
		f.fetches.Add(1)
		f.mu.Lock()
		hang := f.hang
		f.mu.Unlock()
		if hang != nil {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}
		if status := int(f.status.Load()); status != 0 {
			rw.WriteHeader(status)
			return
		}
	}
	f.toolServer.ServeHTTP(rw, r)
}

func (f *fickle) hangUntil(c chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hang = c
}

// fickle starts a fickle tool server.
func (w *world) fickle(host string, tools ...string) *fickle {
	f := &fickle{toolServer: w.tool("unused."+host, tools...)}
	f.base = "http://" + host
	f.manifest = strings.ReplaceAll(f.manifest, "http://unused.", "http://")
	w.host(host, f)
	return f
}

// TestD04NextSessionAsksAgain checks that a failed manifest is requested again for the next
// session (D04).
func TestD04NextSessionAsksAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bad, good := w.fickle("bad.test", "one"), w.tool("good.test", "two")
		bad.status.Store(500)
		w.start(bad.base, good.base)
		if names, problems := w.offered("first"); names != "two" || !strings.Contains(problems, "toolset http://bad.test: manifest not fetched: status 500") {
			t.Errorf("first session: tools %q, problems %q", names, problems)
		}
		bad.status.Store(0)
		if names, problems := w.offered("second"); names != "one two" || problems != "" {
			t.Errorf("second session: tools %q, problems %q", names, problems)
		}
		if names, problems := w.offered("first"); names != "one two" || problems != "" {
			t.Errorf("first session, again: tools %q, problems %q; want what it missed", names, problems)
		}
		if names := w.names(); names != "two" {
			t.Errorf("Tools: %q, want what was there at the start", names)
		}
	})
}

// TestD05SharedNameLater checks that a name offered by two toolsets is a problem only for
// sessions that began with both (D05).
func TestD05SharedNameLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.tool("a.test", "one"), w.tool("b.test", "two")
		w.start(a.base, b.base)
		w.offered("before")
		b.manifest = strings.Replace(b.manifest, `"two"`, `"one"`, 1)
		if names, problems := w.offered("after"); names != "" || strings.Count(problems, `tool "one": another toolset`) != 2 {
			t.Errorf("tools %q, problems %q", names, problems)
		}
		if names, problems := w.offered("before"); names != "one two" || problems != "" {
			t.Errorf("the session before: tools %q, problems %q", names, problems)
		}
	})
}

// TestD08SchemaChanges checks that a session and its child threads keep the schema with
// which the session began (D08). A new session gets the new schema.
func TestD08SchemaChanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.start(tool.base)
		w.call("old", "1")
		tool.manifest = strings.Replace(tool.manifest, `{"type":"object"}`, `{"type":"object","required":["a"]}`, 1)
		call := func(group, id string, ancestors ...string) string {
			key, err := w.rt.Call(t.Context(), Request{GroupID: group, ID: id, Operation: "echo", ThreadAncestors: ancestors})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if r, err := w.rt.Await(ctx, key); err == nil {
				return r.Result.String()
			}
			return "pending"
		}
		if got := call("old", "2"); got != "pending" {
			t.Errorf("the session before: %q", got)
		}
		if got := call("child", "1", "old", "parent"); got != "pending" {
			t.Errorf("a child of the session before: %q", got)
		}
		if got := call("new", "1"); !strings.Contains(got, "fit its schema") {
			t.Errorf("a new session: %q, want an error", got)
		}
	})
}

// TestD09CachedManifest checks that an unreachable server keeps its previous manifest, and
// that one with an invalid manifest offers nothing (D09).
func TestD09CachedManifest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.fickle("tool.test")
		w.start(tool.base)
		tool.status.Store(503)
		if names, problems := w.offered("first"); names != "echo" || problems != "" {
			t.Errorf("not fetched: tools %q, problems %q, want the ones from before", names, problems)
		}
		key := w.call("first", "1")
		w.post(tool.callback(), result(key, "ok"))
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q", got)
		}
		tool.status.Store(0)
		tool.manifest = `{"name":"set"}`
		if names, problems := w.offered("second"); names != "" || !strings.Contains(problems, "invalid manifest") {
			t.Errorf("invalid: tools %q, problems %q", names, problems)
		}
	})
}

// TestDiscoveryIsShared checks that a session's manifests are fetched once, however many
// callers ask. Sessions that begin together share one fetch.
func TestDiscoveryIsShared(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.fickle("tool.test")
		w.start(tool.base)
		before := tool.fetches.Load()
		hang := make(chan struct{})
		tool.hangUntil(hang)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if _, _, err := w.rt.ToolsOf(t.Context(), fmt.Sprint("s", i%10)); err != nil {
					t.Error(err)
				}
			})
		}
		w.pass(time.Second)
		close(hang)
		wg.Wait()
		if n := tool.fetches.Load() - before; n != 1 {
			t.Errorf("%d fetches, want 1", n)
		}
		a, _ := w.rt.catalog.OfferOf(t.Context(), "s1")
		b, _ := w.rt.catalog.OfferOf(t.Context(), "s2")
		if a != b {
			t.Error("two sessions with the same toolsets have an offer each")
		}
	})
}

// TestL02SilentServer checks that a silent server delays a new session by the discovery
// timeout, the next ones by a tenth of it, and loaded sessions not at all (L02). It is
// offered as soon as it answers.
func TestL02SilentServer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		silent, good := w.fickle("silent.test", "silent"), w.tool("good.test")
		w.start(silent.base, good.base)
		silent.w = w
		w.call("loaded", "1")
		silent.toolServer.manifest = strings.Replace(silent.toolServer.manifest, `"set"`, `"changed"`, 1)
		hang := make(chan struct{})
		silent.hangUntil(hang)
		took := func(group string) time.Duration {
			start := time.Now()
			w.call(group, "2")
			return time.Since(start)
		}
		first := make(chan time.Duration)
		go func() { first <- took("first") }()
		w.pass(time.Second)
		if d := took("loaded"); d != 0 {
			t.Errorf("a session that is loaded waited %v", d)
		}
		if d := <-first; d != 10*time.Second {
			t.Errorf("the first session waited %v, want 10 s", d)
		}
		for i := range 3 {
			if d := took(fmt.Sprint("next", i)); d != time.Second {
				t.Errorf("session %d after it waited %v, want 1 s", i, d)
			}
		}
		close(hang)
		w.pass(time.Minute)
		if names, problems := w.offered("later"); names != "silent echo" || problems != "" {
			t.Errorf("tools %q, problems %q", names, problems)
		}
		if tools, _, _ := w.rt.ToolsOf(t.Context(), "later"); tools[0].Toolset != "changed" {
			t.Errorf("toolset %q, want the new manifest", tools[0].Toolset)
		}
	})
}

// TestSessionsAreBounded checks that only a bounded number of sessions is remembered: the
// most recently used.
func TestSessionsAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds.Sessions = 3
		tool := w.fickle("tool.test")
		w.start(tool.base)
		for i := range 100 {
			w.offered("kept")
			w.offered(fmt.Sprint(i))
		}
		if n := tool.fetches.Load(); n != 1+101 {
			t.Errorf("%d fetches, want one at the start and one for each session", n)
		}
		if n := w.rt.catalog.Remembered(); n != 3 {
			t.Errorf("%d sessions are remembered, want 3", n)
		}
		w.offered("0")
		if n := tool.fetches.Load(); n != 1+102 {
			t.Errorf("%d fetches, want another one for a session that was forgotten", n)
		}
	})
}

// TestToolsOfEnds checks that a caller waits no longer than its context permits and the
// runtime runs.
func TestToolsOfEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.fickle("tool.test")
		w.start(tool.base)
		hang := make(chan struct{})
		defer close(hang)
		tool.hangUntil(hang)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.rt.Call(ctx, Request{GroupID: "g", Operation: "echo"}); err != context.DeadlineExceeded {
			t.Errorf("Call = %v, want its context's error", err)
		}
		if _, _, err := w.rt.ToolsOf(t.Context(), "a\nb"); err == nil {
			t.Error("a bad session was looked at")
		}
		go w.rt.Stop(context.Background())
		if _, _, err := w.rt.ToolsOf(t.Context(), "g"); err != ErrStopped {
			t.Errorf("ToolsOf = %v, want ErrStopped", err)
		}
	})
}
