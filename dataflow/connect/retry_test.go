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
	"github.com/millrace/millrace/keyedsingleton"
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

// TestRetryAfterLook checks that splits are not looked for before the time that an error asks for, even if one of them ends.
func TestRetryAfterLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := &unlisted{shelf: newShelf()}
		s.fill("a", 10)
		var failed atomic.Int32
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{OnError: func(connect.Split, error) { failed.Add(1) }})
		take(t, p.splits, 10)
		s.busy.Store(true)
		time.Sleep(time.Minute)
		if n := s.asked.Load(); n != 2 || failed.Load() != 1 {
			t.Errorf("a minute later it was asked %d times for its splits, with %d errors", n, failed.Load())
		}
		s.fill("b", 10)
		s.end("a")
		time.Sleep(58 * time.Minute)
		if n := s.asked.Load(); n != 2 {
			t.Errorf("59 minutes later it was asked %d times for its splits", n)
		}
		s.busy.Store(false)
		take(t, p.splits, 10)
		stop(t, pumps)
		stop(t, app)
	})
}

// TestSomeSplits checks what happens while a split cannot be found: the others are read, from the first look on, the error is
// reported, and a split that was found before is read further. It checks that the error is gone when all are found.
func TestSomeSplits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := &hidden{shelf: newShelf()}
		s.fill("a", 10)
		s.fill("b", 10)
		s.name.Store("b")
		var failed atomic.Int32
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{OnError: func(connect.Split, error) { failed.Add(1) }})
		take(t, p.splits, 10)
		time.Sleep(time.Second)
		all := pumps.Status()
		if len(all) != 2 || all[0].Split.ID != "" || all[0].Err == nil || all[1].Records != 10 || failed.Load() == 0 {
			t.Errorf("while b is hidden, after %d errors, the status is %+v", failed.Load(), all)
		}
		s.name.Store("a")
		take(t, p.splits, 10)
		s.put("a", record{at: dataflow.Position{Major: 100}, key: "k"})
		take(t, p.splits, 1)
		s.name.Store("")
		time.Sleep(time.Minute)
		if all := pumps.Status(); len(all) != 2 || all[0].Split.String() != "a" {
			t.Errorf("when nothing is hidden, the status is %+v", all)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// TestLostSplit checks that a split that was found, and cannot be found again before this process knows its floor, is read.
func TestLostSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := &lost{hidden: hidden{shelf: newShelf()}}
		s.fill("a", 10)
		s.fill("b", 10)
		s.name.Store("")
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{Discover: time.Nanosecond})
		take(t, p.splits, 20)
		if s.looks.Load() < 2 {
			t.Error("the split was never lost")
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// lost is a shelf that finds the split a only the first time.
type lost struct {
	hidden
	looks atomic.Int32
}

func (s *lost) Splits(ctx context.Context) ([]connect.Split, error) {
	if s.looks.Add(1) > 1 {
		s.name.Store("a")
	}
	return s.hidden.Splits(ctx)
}

// TestNoSplits checks that a source that cannot be reached from the beginning is reported.
func TestNoSplits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := &unlisted{shelf: newShelf()}
		s.busy.Store(true)
		var failed atomic.Int32
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{OnError: func(connect.Split, error) { failed.Add(1) }})
		synctest.Wait()
		if all := pumps.Status(); len(all) != 1 || all[0].Err == nil || failed.Load() != 1 || s.asked.Load() != 1 {
			t.Errorf("after %d looks and %d errors the status is %+v", s.asked.Load(), failed.Load(), all)
		}
		time.Sleep(59 * time.Minute)
		if s.asked.Load() != 1 {
			t.Errorf("59 minutes later it was asked %d times", s.asked.Load())
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// hidden is a shelf that cannot find the split with a name.
type hidden struct {
	*shelf
	name atomic.Value
}

func (s *hidden) Splits(ctx context.Context) ([]connect.Split, error) {
	all, err := s.shelf.Splits(ctx)
	name := s.name.Load().(string)
	if found := slices.DeleteFunc(slices.Clone(all), func(x connect.Split) bool { return x.String() == name }); len(found) < len(all) {
		return found, connect.Retry(errors.New("cannot find " + name))
	}
	return all, err
}

// unlisted is a shelf that does not list its splits while it is busy.
type unlisted struct {
	*shelf
	asked atomic.Int32
	busy  atomic.Bool
}

func (s *unlisted) Splits(ctx context.Context) ([]connect.Split, error) {
	s.asked.Add(1)
	if s.busy.Load() {
		return nil, connect.RetryAfter(errors.New("not before an hour is over"), time.Hour)
	}
	return s.shelf.Splits(ctx)
}

// TestRetryAfterReceive checks that a receiver is not asked before the time that an error asks for, that the status has the error
// meanwhile, and that it no longer has it once the receiver has waited for records for a while.
func TestRetryAfterReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, jobs := keyedsingleton.Input[string, int](dataflow.At[store](flow), "jobs")
		dataflow.Output(keyedsingleton.Entries(jobs), "out")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		pumps := attach(t, app, connect.Delivered(&closedFirst{queue{}, &asked}), connect.EntryPort(in, "jobs"), connect.Options{})
		time.Sleep(59 * time.Minute)
		if got := pumps.Status()[0]; got.Err == nil || asked.Load() != 1 {
			t.Errorf("asked %d times, and the status is %+v", asked.Load(), got)
		}
		time.Sleep(2 * time.Minute)
		if got := pumps.Status()[0]; got.Err != nil || asked.Load() != 2 {
			t.Errorf("two minutes later it was asked %d times, and the status is %+v", asked.Load(), got)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// closedFirst is an empty queue that is closed for an hour when it is first asked.
type closedFirst struct {
	queue
	asked *atomic.Int32
}

func (q *closedFirst) Receive(ctx context.Context, b *connect.Batch[string, int]) (func(context.Context) error, error) {
	if q.asked.Add(1) == 1 {
		return nil, connect.RetryAfter(errors.New("not before an hour is over"), time.Hour)
	}
	return q.queue.Receive(ctx, b)
}
