package host

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/memlimit"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/internal/long"
)

var soakCalls = flag.Int("soak.calls", long.Of(36, 288), "calls of a day of TestDay; the largest test has 100000")

// TestDay runs a day of a runtime whose tools send a lot. One result in a hundred has 900 kB, and one in a thousand has 900 kB
// and is never read. A subscription sends events of 200 kB and, too large, of 900 kB. A conversation begins and ends every ten
// minutes; one an hour has a result of 900 kB. At noon the runtime is restarted. TestDay catches memory or disk use that grows
// with the calls of a day, and a result that is lost. The short search has a day of four hours.
//
//	go test ./agentproto/host -run TestDay -v -timeout 1h -soak.calls 100000
func TestDay(t *testing.T) {
	const memory, disk = 256 << 20, 1 << 30
	ticks := long.Of(24, 24*6) // of ten minutes
	inWorld(t, func(t *testing.T, w *world) {
		large, small := strings.Repeat("x", 900_000), strings.Repeat("y", 200)
		tool := &soaking{w: w, text: func(operation string) string {
			if operation == "large" {
				return large
			}
			return small
		}}
		w.host("tool.test", tool)
		sealer, err := SealerOf([32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		w.opts = Options{
			Surface: blind{}, Logger: slog.New(slog.DiscardHandler), // the test itself stores nothing
			Sealer: sealer, State: &durable.Options{Log: disklog.Dir(dir)}, Bounds: Bounds{Memory: memory},
			Model: conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
				if len(r.Messages) == 1 {
					return &conversation.Reply{Calls: []conversation.Call{{ID: "a", Name: r.Messages[0].Text}, {ID: "b", Name: "small"}}}, nil
				}
				return &conversation.Reply{Text: "done"}, nil
			}),
		}
		w.start("http://tool.test")
		began, made := time.Now(), 0
		call := func(group, operation string) (key agentproto.CallKey, made bool) {
			key, err := w.rt.Call(t.Context(), Request{GroupID: group, Operation: operation})
			if err != nil {
				t.Error(err)
			}
			return key, err == nil
		}
		one := func(session string, i int) {
			operation, want := "small", small
			if i%1000 == 7 {
				call(session, "large")
				return
			} else if i%100 == 3 {
				operation, want = "large", large
			}
			key, made := call(session, operation)
			if !made {
				return
			}
			if got := w.text(key); got != want {
				t.Errorf("call %d: %.60q of %d bytes", i, got, len(got))
			}
		}
		subscribed, _ := call("events", "subscribe")
		w.text(subscribed)
		heap, bytes := int64(0), int64(0)
		for tick := range ticks {
			session := fmt.Sprint("s", tick/6)
			var callers sync.WaitGroup
			next := made
			made = *soakCalls * (tick + 1) / ticks
			for lane := range 16 {
				callers.Go(func() {
					for i := next + lane; i < made; i += 16 {
						one(session, i)
					}
				})
			}
			if callers.Wait(); t.Failed() {
				return
			}
			for _, size := range []int{200_000, 900_000} {
				tool.event(subscribed, strings.Repeat("e", size))
			}
			th, err := w.rt.OpenSession(t.Context(), SessionRequest{ID: fmt.Sprint("c", tick)})
			if err == nil {
				err = th.Say(t.Context(), map[bool]string{true: "large", false: "small"}[tick%6 == 0])
			}
			if err != nil {
				t.Fatal(err)
			}
			w.pass(5 * time.Minute)
			if st, err := th.Status(t.Context()); err != nil || len(st.Pending) != 0 || st.Asking {
				t.Fatalf("conversation %d: %+v, %v", tick, st, err)
			}
			if err := th.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.pass(5 * time.Minute)
			if tick == ticks/2 {
				if err := w.rt.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.start("http://tool.test")
			}
			if tick%6 == 5 {
				runtime.GC()
				heap, bytes = max(heap, memlimit.LiveHeap()), max(bytes, used(dir))
			}
		}
		passed, st := time.Since(began), w.stats()
		t.Logf("%d calls in %v, %d events left out, %d messages refused; at most %d MiB in use and %d MiB on disk; at the end %d MiB",
			made, passed, st.LeftOut, st.Malformed, heap>>20, bytes>>20, used(dir)>>20)
		if heap > memory || bytes > disk {
			t.Errorf("%d MiB are in use, %d on disk", heap>>20, bytes>>20)
		}
		if passed < time.Duration(ticks)*10*time.Minute {
			t.Errorf("the day had %v", passed)
		}
	})
}

// used returns the total size of the files in a folder.
func used(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// blind is a surface that stores nothing.
type blind struct{}

func (blind) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth)       {}
func (blind) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (blind) Withdraw(agentproto.CallKey, string)                                {}
func (blind) Progress(agentproto.CallKey, agentproto.State)                      {}
func (blind) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}

// A soaking is a tool server that answers each call at once and sends events.
type soaking struct {
	w    *world
	text func(operation string) string
	url  string // of the subscription
}

func (s *soaking) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == discovery.Path {
		io.WriteString(rw, `{"name":"set","endpoint":"http://tool.test/invoke","tools":[
			{"name":"small","description":"d","inputSchema":{"type":"object"}},
			{"name":"large","description":"d","inputSchema":{"type":"object"}},
			{"name":"subscribe","description":"d","inputSchema":{"type":"object"}}]}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
	if err != nil {
		return // a notice
	}
	key := inv.Key()
	answer := result(key, s.text(inv.Operation))
	if inv.Operation == "subscribe" {
		s.url, answer = inv.CallbackURL, subscriptionBody(key)
	}
	s.w.postLater(inv.CallbackURL, answer)
}

// event posts an event of the subscription.
func (s *soaking) event(key agentproto.CallKey, text string) {
	s.w.post(s.url, eventBody(key, text, false, false))
}
