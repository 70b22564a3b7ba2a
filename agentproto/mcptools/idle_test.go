package mcptools

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// slowEnd is how long a program of slowly takes to end.
const slowEnd = time.Second

// slowly starts programs that end some time after their input is closed.
type slowly struct {
	t             *testing.T
	starts, alive atomic.Int32
}

func (o *slowly) begin(*Server, string, string) (*process, error) {
	o.starts.Add(1)
	if n := o.alive.Add(1); n > 1 {
		o.t.Errorf("%d programs at once", n)
	}
	in, write := io.Pipe()
	read, out := io.Pipe()
	p := &process{in: write, out: read, errors: new(tail), ended: make(chan struct{}), why: errors.New("it has ended")}
	p.terminate, p.kill = func() {}, func() {}
	go func() {
		server := mcp.NewServer(&mcp.Implementation{Name: "slow", Version: "1"}, nil)
		_ = server.Run(context.Background(), &mcp.IOTransport{Reader: io.NopCloser(bufio.NewReader(in)), Writer: out})
		time.Sleep(slowEnd)
		o.alive.Add(-1)
		out.Close()
		close(p.ended)
	}()
	return p, nil
}

// idleMember returns a server whose program may be idle for ten minutes.
func idleMember(t *testing.T, o *slowly) *member {
	m := &member{server: &Server{Name: "s", Command: []string{"program"}, Idle: 10 * time.Minute}, bounds: Options{}.withDefaults().Bounds, log: slog.New(slog.DiscardHandler), path: filepath.Join(t.TempDir(), "none"), starter: o.begin}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.shared = m.newLink("")
	return m
}

// use acquires the connection as a call does.
func (l *link) use(t *testing.T) *session {
	t.Helper()
	l.m.mu.Lock()
	l.calls++
	l.m.mu.Unlock()
	s, err := l.session(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// is checks the state of a server and the number of programs started.
func (l *link) is(t *testing.T, what string, o *slowly, state State, starts int32) {
	t.Helper()
	synctest.Wait()
	l.m.mu.Lock()
	st := l.status()
	l.m.mu.Unlock()
	if st.State != state || o.starts.Load() != starts {
		t.Errorf("%s: it is %v, %d programs were started; want %s, %d", what, st, o.starts.Load(), state, starts)
	}
}

// TestIdle checks that a program stops once it has been unused for the time its server sets, and never while it is in use. A call
// that arrives while the program ends gets a new one after that, without a pause, however often programs have crashed. The test
// fails if a program is stopped during a call, if stopping it counts as a crash, or if two run at once (MT35).
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &slowly{t: t}
		m := idleMember(t, o)
		l := m.shared
		l.is(t, "before", o, NotStarted, 0)
		l.use(t)
		l.use(t)
		time.Sleep(time.Hour)
		l.is(t, "in use", o, Running, 1)
		l.release()
		time.Sleep(time.Hour)
		l.is(t, "in use of one", o, Running, 1)
		l.release()
		time.Sleep(9 * time.Minute)
		l.use(t)
		l.release()
		time.Sleep(9 * time.Minute)
		l.is(t, "used since", o, Running, 1)
		time.Sleep(61 * time.Second)
		l.is(t, "unused", o, Idle, 1)
		if n := o.alive.Load(); n != 0 {
			t.Errorf("%d programs run", n)
		}
		m.mu.Lock()
		l.ends, l.lastEnd = m.bounds.Ends-1, time.Now() // one more end, and the server is given up
		m.mu.Unlock()
		began := time.Now()
		l.use(t)
		if d := time.Since(began); d < 5*time.Second {
			t.Errorf("after crashes it was started in %v", d) // crashes cause a pause
		}
		l.release()
		time.Sleep(10*time.Minute + slowEnd/2)
		if n := o.alive.Load(); n != 1 {
			t.Fatalf("%d programs are ending", n)
		}
		began = time.Now()
		s := l.use(t)
		if d := time.Since(began); d < slowEnd/2 || d > slowEnd {
			t.Errorf("while one ended the next was there in %v", d)
		}
		select {
		case <-s.ended:
			t.Error("the connection is the old one")
		default:
		}
		l.is(t, "again", o, Running, 3)
		l.release()
		m.end()
		time.Sleep(time.Hour) // the timer finds it closed
	})
}

// TestIdleAfterCrashes checks that a program that crashed and then ran for long starts at once after being idle: old crashes do
// not count.
func TestIdleAfterCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &slowly{t: t}
		m := idleMember(t, o)
		l := m.shared
		for range 3 {
			s := l.use(t)
			_ = s.cs.Close()
			<-s.ended
			synctest.Wait()
			l.release()
		}
		l.is(t, "after crashes", o, Ended, 3)
		l.use(t)
		l.release()
		time.Sleep(time.Hour)
		l.is(t, "idle", o, Idle, 4)
		began := time.Now()
		l.use(t)
		if d := time.Since(began); d > 0 {
			t.Errorf("it was there in %v", d)
		}
		l.release()
		m.end()
		time.Sleep(time.Hour)
	})
}

// TestStatusString checks the text of a status.
func TestStatusString(t *testing.T) {
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for want, s := range map[string]Status{
		"not started": {State: NotStarted},
		"idle since 2026-11-27T12:00:00Z; 3 users have their own":               {State: Idle, Since: at, Users: 3},
		"down since 2026-11-27T12:00:00Z: it has ended; one user has their own": {State: Down, Since: at, Users: 1, Err: errors.New("it has ended")},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCloseWhileConnecting checks that closing the servers also ends a connection that was just made. The test fails if nothing
// closes it and Close waits for its end forever (MT42).
func TestCloseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &slowly{t: t}
		m := idleMember(t, o)
		s, err := m.shared.open(m.ctx, "", m.starter) // the link does not know it yet
		if err != nil {
			t.Fatal(err)
		}
		m.end()
		select {
		case <-s.ended:
		default:
			t.Error("it has not ended")
		}
		if n := o.alive.Load(); n != 0 {
			t.Errorf("%d programs run", n)
		}
	})
}
