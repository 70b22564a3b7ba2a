package connect_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestReaderExits checks that a split whose reader calls runtime.Goexit ends with an error in its status, as after a panic,
// instead of being read by nobody.
func TestReaderExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := newShelf()
		s.fill("a", 100)
		s.fail = func(string, int) error {
			runtime.Goexit()
			return nil
		}
		told := make(chan error, 10)
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{OnError: func(_ connect.Split, err error) { told <- err }})
		time.Sleep(time.Minute)
		if got := pumps.Status()[0]; got.Reading || !got.Ended || got.Err == nil || !strings.Contains(got.Err.Error(), "called runtime.Goexit") {
			t.Errorf("the status is %+v", got)
		}
		if len(told) != 1 {
			t.Errorf("%d errors were told", len(told))
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// An exiting sink ends the goroutine that writes.
type exiting struct{ *table }

func (s exiting) Open(ctx context.Context, l connect.Lane) (connect.Writer[int, connect.Atomic], uint64, error) {
	w, last, err := s.table.Open(ctx, l)
	return exitingWriter{w}, last, err
}

type exitingWriter struct {
	connect.Writer[int, connect.Atomic]
}

func (exitingWriter) Write(context.Context, uint64, []int) (a connect.Atomic, err error) {
	runtime.Goexit()
	return a, err
}

// TestSinkExits checks that a drain whose sink calls runtime.Goexit ends with an error, and that the flow keeps the elements.
func TestSinkExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := startWritten(t, log)
		x := newTable()
		drains := connect.Drain(t.Context(), app, app.Ports.out, exiting{x}, lanes)
		send(t, app.Ports.in, 1, 5)
		time.Sleep(time.Minute)
		if err := drains.Err(); err == nil || !strings.Contains(err.Error(), "called runtime.Goexit") {
			t.Errorf("the error is %v", err)
		}
		stop(t, app)
		app = startWritten(t, log.Reopen())
		again := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
		time.Sleep(time.Minute)
		stop(t, again)
		if got := x.read(t); len(got) != 5 {
			t.Errorf("there is %v", got)
		}
		stop(t, app)
	})
}
