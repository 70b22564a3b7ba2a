package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A testServer is a real server with files and a listener. It can be restarted.
type testServer struct {
	t    testing.TB
	opts server.Options
	*server.Server
}

func startServer(t testing.TB) *testServer {
	t.Helper()
	s := &testServer{t: t, opts: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// start starts the server, after stop at the same address.
func (s *testServer) start() {
	s.t.Helper()
	opts := s.opts
	running, err := server.NewServer(&opts)
	if err != nil {
		s.t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(time.Minute) {
		s.t.Fatal("the server does not get ready")
	}
	s.opts.Port = opts.Port
	s.Server = running
}

func (s *testServer) stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// soon returns a context that ends a hanging test long before the go command does.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// join joins over its own connection, which it also returns.
func join(t testing.TB, url string, o Options) (*Member, *nats.Conn) {
	t.Helper()
	nc := connect(t, url)
	if o.Name == "" {
		o.Name = "app"
	}
	if o.Partitions == 0 {
		o.Partitions = 32
	}
	m, err := Join(soon(t), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a test may have closed the connection
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = m.Leave(ctx)
	})
	return m, nc
}

// A log records the assignments of a member, as its owner receives them.
type log struct {
	mu      sync.Mutex
	entries []entry
	more    chan struct{} // closed when an entry is added
}

type entry struct {
	owned []int
	err   error
	at    time.Time
}

func follow(m *Member) *log {
	l := &log{more: make(chan struct{})}
	go func() {
		for {
			a, err := m.Next(context.Background())
			l.add(entry{a.Owned, err, time.Now()})
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *log) add(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	close(l.more)
	l.more = make(chan struct{})
}

// wait returns the first entry from index from on that satisfies ok, and the index after it.
func (l *log) wait(t testing.TB, from int, what string, ok func(entry) bool) (entry, int) {
	t.Helper()
	ctx := soon(t)
	for {
		l.mu.Lock()
		more, entries := l.more, slices.Clone(l.entries)
		l.mu.Unlock()
		for ; from < len(entries); from++ {
			if ok(entries[from]) {
				return entries[from], from + 1
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("waited for %s, got %v", what, entries)
		}
	}
}

func (l *log) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

func owns(n int) func(entry) bool {
	return func(e entry) bool { return e.err == nil && len(e.owned) == n }
}

// until polls ok, for conditions without a notification.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := soon(t)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited for %s", what)
		}
	}
}

// agree waits until the members own all partitions, each exactly once. What each member reports
// of itself must match what the others report.
func agree(t testing.TB, partitions int, members ...*Member) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	until(t, "all to agree", func() bool {
		owner := make([]string, partitions)
		n := 0
		for _, m := range members {
			for _, p := range m.Owned() {
				owner[p] = m.ID()
				n++
			}
		}
		last = fmt.Sprintf("%d owned: %v", n, owner)
		return n == partitions && !slices.Contains(owner, "") && !slices.ContainsFunc(members, func(m *Member) bool {
			for p, id := range owner {
				if of, _ := m.Owner(p); of != id {
					last += fmt.Sprintf("; %s says that %d is of %q", m.ID(), p, of)
					return true
				}
			}
			return len(m.Members()) != len(members)
		})
	})
}
