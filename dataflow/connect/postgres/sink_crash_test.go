package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow/connect/postgres"
	"github.com/millrace/millrace/dataflow/connect/postgres/postgrestest"
)

// sinkChild writes elements after the existing ones until it is killed, and prints a line after each batch.
func sinkChild(dsn string) error {
	ctx := context.Background()
	w, last, err := variants[os.Getenv("MILLRACE_CHILD_SINK")](postgres.Database{DSN: dsn}).Open(ctx, lane)
	if err != nil {
		return err
	}
	for {
		n := 100 + rand.IntN(200)
		if _, err := w.Write(ctx, last+1, numbered(int(last+1), n)); err != nil {
			return err
		}
		last += uint64(n)
		fmt.Println(last)
	}
}

// child runs this binary again as one of the children.
func child(t *testing.T, name, dsn string, environment ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = slices.Concat(os.Environ(), []string{"MILLRACE_CHILD=" + name, "MILLRACE_CHILD_DSN=" + dsn}, environment)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewScanner(out)
}

// TestKilled kills a program at random and checks that its table has each element once, for each sink. The sessions of killed
// programs may still be at work when the next one opens the lane.
func TestKilled(t *testing.T) {
	for name, sink := range variants {
		t.Run(name, func(t *testing.T) {
			db, c := prepared(t, gotTable)
			for range 10 {
				p, lines := child(t, "sink", db.DSN, "MILLRACE_CHILD_SINK="+name)
				for range 1 + rand.IntN(12) {
					if !lines.Scan() {
						t.Fatalf("the program ended: %v", p.Wait())
					}
				}
				p.Process.Kill()
				for lines.Scan() {
				}
				if err := p.Wait(); err == nil || err.Error() != "signal: killed" {
					t.Fatalf("the program ended: %v", err)
				}
			}
			w, last, err := sink(db).Open(t.Context(), lane)
			if err != nil || last < 1000 {
				t.Fatal(last, err)
			}
			write(t, w, last+1, numbered(int(last+1), 10)...)
			w.Close()
			exactly(t, c, int64(last+10))
			t.Logf("%d elements", last+10)
		})
	}
}

// TestStuckWriter has a writer that stopped in the middle of a transaction and does not close its connection. The next writer
// fences it.
func TestStuckWriter(t *testing.T) {
	db, c := prepared(t, gotTable)
	reached, leave := make(chan bool), make(chan bool)
	a := open(t, postgres.Exec(db, func(ctx context.Context, tx pgx.Tx, _ uint64, xs []element) error {
		_, err := tx.Exec(ctx, "insert into got (n) values ($1)", xs[0].N)
		reached <- true
		<-leave
		return err
	}), 0)
	failed := make(chan error, 1)
	go func() {
		_, err := a.Write(t.Context(), 1, numbered(1, 1))
		failed <- err
	}()
	<-reached
	b := open(t, variants["Upsert"](db), 0)
	write(t, b, 1, numbered(1, 1)...)
	leave <- true
	if err := <-failed; err == nil {
		t.Error("the writer before believes that it wrote")
	}
	exactly(t, c, 1)
}

// A cutter is a proxy that forwards what a client sends. Once armed, it cuts the connection in place of the next answer. If the
// client sends "commit", it waits for the answer to that.
type cutter struct {
	net.Listener
	target string
	armed  atomic.Bool
	commit bool
}

func newCutter(t *testing.T, target string, commit bool) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &cutter{Listener: l, target: target, commit: commit}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.forward(c)
		}
	}()
	return p
}

func (p *cutter) forward(client net.Conn) {
	defer client.Close()
	s, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer s.Close()
	var cut atomic.Bool
	go func() {
		defer s.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := client.Read(b)
			if p.armed.Load() && (!p.commit || strings.Contains(string(b[:n]), "commit")) {
				cut.Store(true)
				p.armed.Store(false)
			}
			if _, e := s.Write(b[:n]); err != nil || e != nil {
				return
			}
		}
	}()
	b := make([]byte, 1<<16)
	for {
		n, err := s.Read(b)
		if cut.Load() {
			return
		}
		if _, e := client.Write(b[:n]); err != nil || e != nil {
			return
		}
	}
}

// Case 32: the connection is cut between a commit and its answer. The writer fails, and the next writer finds what was committed.
func TestAnswerLost(t *testing.T) {
	for name, sink := range variants {
		t.Run(name, func(t *testing.T) {
			direct, c := prepared(t, gotTable)
			p := newCutter(t, fmt.Sprintf("127.0.0.1:%d", postgrestest.Shared(t).Port), name != "Upsert")
			_, port, _ := net.SplitHostPort(p.Addr().String())
			db := postgres.Database{DSN: strings.Replace(direct.DSN, fmt.Sprint(postgrestest.Shared(t).Port), port, 1)}
			w := open(t, sink(db), 0)
			write(t, w, 1, numbered(1, 10)...)
			p.armed.Store(true)
			_, err := w.Write(t.Context(), 11, numbered(11, 10))
			if err == nil || p.armed.Load() {
				t.Fatal("the answer was not cut:", err)
			}
			exactly(t, c, 20)
			w = open(t, sink(db), 20)
			write(t, w, 21, numbered(21, 10)...)
			exactly(t, c, 30)
		})
	}
}
