package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

var sharedKey = bytes.Repeat([]byte("k"), 32)

// another starts another runtime in the world, on another host.
func (w *world) another(name string, u *user, model conversation.Model, bases ...string) *Runtime {
	w.t.Helper()
	opts := w.opts
	opts.Toolsets, opts.Model = bases, model
	opts.Listener = w.net.listen(name + ":80")
	opts.PublicURL = "http://" + name
	opts.DialContext = w.net.dial
	opts.Surface = u
	opts.Logger = slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})).With("host", name)
	rt, err := start(w.t.Context(), opts, asIs)
	if err != nil {
		w.t.Fatalf("start %s: %v", name, err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		rt.Stop(ctx)
		opts.Listener.Close()
	})
	return rt
}

// movable makes a tool server one that takes part in migrations.
func (s *toolServer) movable() *toolServer {
	s.manifest = strings.Replace(s.manifest, `"name":"set"`, `"needsMigration":true,"name":"set"`, 1)
	return s
}

// migrations returns the destinations of the tool server's /migrate requests.
func (s *toolServer) migrations() (to []string) {
	for _, n := range s.noticed() {
		if body, ok := strings.CutPrefix(n, "/migrate "); ok {
			_, url, _ := strings.Cut(body, `"destination_url":"`)
			to = append(to, strings.TrimSuffix(url, `"}`))
		}
	}
	return to
}

func choiceBody(key agentproto.CallKey, responseURL string) string {
	return fmt.Sprintf(`{"type":"user_choice","group_id":%q,"id":%q,"prompt":"which?","choices":["a","b"],"default":0,"response_url":%q}`,
		key.GroupID, key.ID, responseURL)
}

// TestMigrate moves a session with its history, a pending call, an open authorization and choice, and a subscription. The tool
// servers are asked first. Messages to the old address are forwarded, and each call has one result, at the destination (G02, G05,
// G06). During the move a callback is answered 503, and afterwards it is forwarded once (N83; doc/protocol.md §10.4).
func TestMigrate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		here, there := w.tool("here.test").movable(), w.tool("there.test").movable()
		script := conversation.Script{
			callsOf("sub"), {Text: "watching"}, callsOf("a", "b", "c"), {Text: "all done"}, {Text: "saw it"},
		}
		th := w.converse(script, here.base)
		there1 := &user{}
		second := w.another("second.test", there1, script, there.base)
		w.say(th, "watch")
		w.post(here.callbackOf(key("sub")), subscriptionBody(key("sub")))
		w.say(th, "go")
		w.post(here.callbackOf(key("a")), choiceBody(key("a"), here.base+"/answer"))
		w.post(here.callbackOf(key("b")), oauthBody(key("b")))

		during := 0
		here.notice = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/migrate" && during == 0 { // messages during the move have to wait
				during, _ = w.send(http.MethodPost, here.calls[len(here.calls)-1].CallbackURL, strings.NewReader(result(key("c"), "too early")), "Content-Type", "application/json")
			}
		}
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatalf("Migrate: %v", err)
		}
		if during != http.StatusServiceUnavailable {
			t.Errorf("a callback on the way was answered %d, want 503", during)
		}
		if to := here.migrations(); !slices.Equal(to, []string{"http://there.test"}) {
			t.Errorf("the source was asked to migrate to %q", to)
		}
		if to := there.migrations(); to != nil {
			t.Errorf("the destination was asked to migrate to %q", to)
		}
		if n := here.noticed(); !slices.Contains(n, `/close_thread {"thread_id":"s"}`) {
			t.Errorf("the source was not cleaned up: %q", n)
		}
		if err := th.Say(t.Context(), "still there?"); !errors.Is(err, conversation.ErrMoved) {
			t.Errorf("the source takes in %v", err)
		}
		asked := strings.Join(there1.saw(), "\n")
		if !strings.Contains(asked, "choice s/a which?") || !strings.Contains(asked, "oauth s/b https://login.example/x") {
			t.Errorf("the destination's user was asked:\n%s", asked)
		}

		// Messages now arrive at the source, which forwards them.
		if status := w.post(here.callbackOf(key("c")), result(key("c"), "result c")); status != http.StatusOK {
			t.Errorf("a late result was answered %d", status)
		}
		if status := w.post(here.callbackOf(key("c")), result(key("c"), "again")); status != http.StatusOK {
			t.Errorf("a repeated result was answered %d", status)
		}
		if status := w.post(here.callbackOf(key("sub")), eventBody(key("sub"), "tick", true, false)); status != http.StatusOK {
			t.Errorf("an event was answered %d", status)
		}
		w.post(here.callbackOf(key("a")), result(key("a"), "result a"))
		w.post(here.callbackOf(key("b")), result(key("b"), "result b"))
		w.wantHistory(second.Thread("s"), `
			user: watch
			assistant: sub=echo({})
			result sub: watching
			assistant: watching
			user: go
			assistant: a=echo({}) b=echo({}) c=echo({})
			result a: result a
			result b: Authorization in progress: the user was asked to authorize this tool first. The result follows as soon as it is there.
			result c: result c
			assistant: event-10=incoming_event({"kind":"event","tool_call_id":"sub","tool":"echo","arguments":{}})
			result event-10: tick
			assistant: all done
			assistant: event-13=incoming_event({"kind":"result","tool_call_id":"b","tool":"echo","arguments":{}})
			result event-13: result b
			assistant: saw it
`)
		if n := second.Stats().Duplicates; n != 1 {
			t.Errorf("%d duplicates at the destination, want 1", n)
		}
		if n := w.rt.Stats().Forwarded; n != 5 {
			t.Errorf("%d callbacks forwarded, want 5", n)
		}
	})
}

// TestMigrationFails checks that a failure before the destination has the session undoes everything. The session continues at the
// source, and tool servers that had moved it are asked to take it back (G03, G04).
func TestMigrationFails(t *testing.T) {
	failing := func(status int, text string) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/migrate" {
				http.Error(rw, text, status)
			}
		}
	}
	tests := map[string]struct {
		break_ func(w *world, sources, destinations []*toolServer)
		to     string
		want   string
	}{
		"no such host":      {to: "http://nowhere.test", want: "cannot be reached"},
		"another key":       {to: "http://stranger.test", want: "another migration key"},
		"no key":            {to: "http://keyless.test", want: "no migration key"},
		"a tool refuses":    {break_: func(_ *world, s, _ []*toolServer) { s[1].notice = failing(500, "disk full") }, want: "disk full"},
		"a tool hangs":      {break_: func(w *world, s, _ []*toolServer) { s[1].notice = hang(w) }, want: "more than"},
		"a tool is missing": {break_: func(_ *world, _, d []*toolServer) { d[2].manifest = "none" }, want: "set2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.opts.MigrationKey, w.opts.Timeouts.Migrate = sharedKey, 30*time.Second
				var sources, destinations []*toolServer
				var from, to []string
				for i := range 3 {
					for _, side := range []string{"here", "there"} {
						s := w.tool(fmt.Sprintf("%s%d.test", side, i), fmt.Sprintf("echo%d", i)).movable()
						s.manifest = strings.Replace(s.manifest, `"name":"set"`, fmt.Sprintf(`"name":"set%d"`, i), 1)
						if side == "here" {
							sources, from = append(sources, s), append(from, s.base)
						} else {
							destinations, to = append(destinations, s), append(to, s.base)
						}
					}
				}
				script := conversation.Script{{Calls: []conversation.Call{{ID: "a", Name: "echo0"}}}, {Text: "done"}}
				th := w.converse(script, from...)
				second := w.another("second.test", &user{}, script, to...)
				w.opts.MigrationKey = bytes.Repeat([]byte("x"), 32)
				w.another("stranger.test", &user{}, script, to...)
				w.opts.MigrationKey = nil
				w.another("keyless.test", &user{}, script, to...)
				w.say(th, "go")
				if test.break_ != nil {
					test.break_(w, sources, destinations)
				}
				if test.to == "" {
					test.to = "http://second.test"
				}
				err := w.rt.Migrate(t.Context(), "s", test.to)
				if !errors.Is(err, ErrNotMoved) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Migrate: %v, want %q", err, test.want)
				}
				for i, s := range sources {
					if moved, back := s.migrations(), destinations[i].migrations(); i != 1 && len(moved) != len(back) {
						t.Errorf("server %d was moved to %q and back to %q", i, moved, back)
					}
				}
				w.post(sources[0].callback(), result(key("a"), "fine"))
				w.wantHistory(th, `
					user: go
					assistant: a=echo0()
					result a: fine
					assistant: done
`)
				if _, err := second.Thread("s").Status(t.Context()); !errors.Is(err, conversation.ErrUnknownThread) && err != nil {
					t.Errorf("the destination: %v", err)
				}
			})
		})
	}
}

// hang returns a handler that does not answer /migrate before the client gives up.
func hang(w *world) func(http.ResponseWriter, *http.Request) {
	return func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/migrate" {
			<-r.Context().Done()
		}
	}
}

// TestMigrateThereAndBack moves a session on and back. Late callbacks find it wherever it is. A server that needs no migration is
// not asked (G01).
func TestMigrateThereAndBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		tool := w.tool("tool.test")
		script := conversation.Script{callsOf("a", "b", "c", "d"), {Text: "done"}}
		th := w.converse(script, tool.base)
		second := w.another("second.test", &user{}, script, tool.base)
		third := w.another("third.test", &user{}, script, tool.base)
		w.say(th, "go")
		move := func(rt *Runtime, to string) {
			t.Helper()
			if err := rt.Migrate(t.Context(), "s", to); err != nil {
				t.Fatalf("to %s: %v", to, err)
			}
			synctest.Wait()
		}
		post := func(id string) {
			t.Helper()
			if status := w.post(tool.callbackOf(key(id)), result(key(id), "result "+id)); status != http.StatusOK {
				t.Errorf("%s was answered %d", id, status)
			}
		}
		move(w.rt, "http://second.test")
		post("a")
		move(second, "http://third.test")
		post("b")
		if err := second.Migrate(t.Context(), "s", "http://runtime.test"); !errors.Is(err, ErrNotMoved) {
			t.Errorf("a session that is not here moves: %v", err)
		}
		move(third, "http://runtime.test")
		post("c")
		move(w.rt, "http://second.test")
		move(second, "http://runtime.test")
		post("d")
		post("a")
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({}) c=echo({}) d=echo({})
			result a: result a
			result b: result b
			result c: result c
			result d: result d
			assistant: done
`)
		if got := tool.migrations(); got != nil {
			t.Errorf("a server that needs no migration was asked to migrate to %q", got)
		}
		w.say(th, "thanks")
	})
}

// TestMigrateAtRest moves a session without calls on and back, with its views, which the surface of each host shows. A session
// that nobody opened does not move.
func TestMigrateAtRest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		tool := w.tool("tool.test")
		script := conversation.Script{{Text: "hello"}, callsOf("a"), {Text: "done"}}
		th := w.converse(script, tool.base)
		there := &user{}
		second := w.another("second.test", there, script, tool.base)
		w.say(th, "hi")
		child, err := th.OpenChild(t.Context(), "child", "")
		if err != nil {
			t.Fatal(err)
		}
		hosts := []*Runtime{w.rt, second}
		for i := range 4 {
			if err := hosts[i%2].Migrate(t.Context(), "s", hosts[1-i%2].PublicURL()); err != nil {
				t.Fatalf("move %d: %v", i, err)
			}
		}
		w.say(th, "go")
		view := `{"type":"view_update","group_id":"s","view_type":"plan","content":{"step":1}}`
		if status := w.post(tool.callbackOf(key("a")), view); status != http.StatusOK {
			t.Errorf("a view was answered %d", status)
		}
		if err := w.rt.Migrate(t.Context(), "s", second.PublicURL()); err != nil {
			t.Fatal(err)
		}
		if saw := strings.Join(there.saw(), "\n"); !strings.Contains(saw, `plan {"step":1}`) {
			t.Errorf("the destination's user saw %q", saw)
		}
		w.post(tool.callbackOf(key("a")), result(key("a"), "fine"))
		w.wantHistory(second.Thread("s"), `
			user: hi
			assistant: hello
			user: go
			assistant: a=echo({})
			result a: fine
			assistant: done
`)
		if err := child.Say(t.Context(), "you too?"); !errors.Is(err, conversation.ErrMoved) {
			t.Errorf("the child stayed: %v", err)
		}
		if _, err := w.rt.Call(t.Context(), Request{GroupID: "s", ID: "late", Operation: "echo"}); !errors.Is(err, ErrElsewhere) {
			t.Errorf("a late call: %v", err)
		}
		if err := w.rt.Migrate(t.Context(), "typo", second.PublicURL()); !errors.Is(err, ErrNotMoved) || !strings.Contains(err.Error(), "no such session") {
			t.Errorf("a session that nobody opened: %v", err)
		}
	})
}

// TestMigrationWithoutKey checks that a sender without the key cannot make the runtime read a large body, and learns nothing
// (threat 33).
func TestMigrationWithoutKey(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		w.start(w.tool("tool.test").base)
		body := &counted{left: 64 << 20}
		if status, text := w.send(http.MethodPost, "http://runtime.test"+migration.Path, body); status != http.StatusForbidden || strings.Contains(text, "key") {
			t.Errorf("answered %d %q", status, text)
		}
		if n := body.read.Load(); n > 8<<20 {
			t.Errorf("%d bytes were read", n)
		}
	})
}

// counted is a body that counts the bytes read from it.
type counted struct {
	left int
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n := min(len(p), c.left)
	if n == 0 {
		return 0, io.EOF
	}
	c.left -= n
	c.read.Add(int64(n))
	return n, nil
}
