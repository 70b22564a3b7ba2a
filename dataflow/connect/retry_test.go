package connect_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Case 19: an error that passes loses nothing, and the read is retried with growing pauses. Any other error ends the split.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := newShelf()
		want := s.fill("a", 100)
		fails, down := 0, time.Now().Add(30*time.Second)
		s.fail = func(string, int) error {
			if time.Now().Before(down) {
				fails++
				return connect.Retry(errors.New("the registry is down"))
			}
			return nil
		}
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{})
		time.Sleep(5 * time.Second)
		if got := pumps.Status()[0]; got.Err == nil || got.Ended {
			t.Errorf("meanwhile the status is %+v", got)
		}
		if got := ofSplit(take(t, p.splits, 100), "a"); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
		if got := pumps.Status()[0]; got.Err != nil || fails < 5 || fails > 20 {
			t.Errorf("after %d errors the status is %+v", fails, got)
		}
		s.mu.Lock()
		s.fail = func(string, int) error { return errors.New("broken") }
		s.mu.Unlock()
		s.put("a", record{at: dataflow.Position{Major: 10_000}, value: 1})
		time.Sleep(time.Minute)
		if got := pumps.Status()[0]; !got.Ended || got.Err == nil || !strings.Contains(got.Err.Error(), "broken") {
			t.Errorf("at the end the status is %+v", got)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// TestRetryAfter checks that neither a split nor a lane is opened again before the time that an error asks for, and that the status
// has the error meanwhile.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := newShelf()
		want := s.fill("a", 100)
		var asked atomic.Int32
		s.fail = func(string, int) error {
			if asked.Add(1) == 1 {
				return connect.RetryAfter(errors.New("not before an hour is over"), time.Hour)
			}
			return nil
		}
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{})
		time.Sleep(59 * time.Minute)
		if got := pumps.Status()[0]; got.Err == nil || got.Ended || asked.Load() != 1 {
			t.Errorf("asked %d times, and the status is %+v", asked.Load(), got)
		}
		time.Sleep(2 * time.Minute)
		if got := ofSplit(take(t, p.splits, 100), "a"); !slices.Equal(got, want) {
			t.Errorf("got %v", got)
		}
		stop(t, pumps)
		stop(t, app)
	})
	synctest.Test(t, func(t *testing.T) {
		app := startWritten(t, journal.NewMemory(journal.MemoryOptions{}))
		x := newTable()
		x.fail = connect.RetryAfter(errors.New("not before an hour is over"), time.Hour)
		drains := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
		send(t, app.Ports.in, 1, 10)
		time.Sleep(59 * time.Minute)
		if got := drains.Status()[0]; got.Err == nil || got.Opened != 1 {
			t.Errorf("the status is %+v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := drains.Status()[0]; got.Err != nil || got.Opened != 2 {
			t.Errorf("an hour later the status is %+v", got)
		}
		if got := x.read(t); !slices.Equal(got, upTo(10)) {
			t.Errorf("there is %v", got)
		}
		stop(t, drains)
		stop(t, app)
	})
}

// TestRecovered checks that the error of a split is gone after a while, even if no record has come since.
func TestRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := &later{shelf: newShelf()}
		s.fill("a", 0)
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{})
		time.Sleep(time.Second)
		if got := pumps.Status()[0]; got.Err == nil || !got.Reading {
			t.Errorf("a second later the status is %+v", got)
		}
		time.Sleep(time.Minute)
		if got := pumps.Status()[0]; got.Err != nil || !got.Reading {
			t.Errorf("a minute later the status is %+v", got)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// later is a shelf that cannot be opened the first time.
type later struct {
	*shelf
	tried atomic.Bool
}

func (s *later) Open(ctx context.Context, split connect.Split, last dataflow.Position) (connect.Cursor[string, int], error) {
	if !s.tried.Swap(true) {
		return nil, connect.Retry(errors.New("not yet"))
	}
	return s.shelf.Open(ctx, split, last)
}
