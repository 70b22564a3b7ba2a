package connect_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Case 56: another version cannot continue after a crash, but can after a clean stop.
func TestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		s := newShelf()
		s.fill("a", 10)
		app := kept(t, log, 1)
		attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{Version: "1"})
		take(t, app.Ports.splits, 10)
		time.Sleep(time.Minute)
		log.Crash()
		_ = app.Ports.bySplit.Send(t.Context(), "nobody", batchOf(1))
		<-app.Done()
		app = kept(t, log.Reopen(), 1)
		refused := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{Version: "2"})
		time.Sleep(time.Minute)
		if err := refused.Status()[0].Err; !errors.Is(err, connect.ErrVersion) || !strings.Contains(err.Error(), `a: up to {28 1} it was read by version "1", and now by "2"`) {
			t.Errorf("the error is %v", err)
		}
		stop(t, refused)
		again := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{Version: "1"})
		time.Sleep(time.Minute)
		stop(t, again)
		for i := range 20 { // the next start reads the floor of a stop, however soon it comes
			next := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{Version: fmt.Sprint(i)})
			for reading := false; !reading; {
				time.Sleep(time.Millisecond)
				for _, got := range next.Status() {
					if reading = got.Reading; got.Ended {
						t.Fatalf("start %d: %v", i, got.Err)
					}
				}
			}
			stop(t, next)
		}
		later := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{Version: "2"})
		s.put("a", record{at: dataflow.Position{Major: 10_000}, value: -1})
		for got := 0; got != -1; {
			got = take(t, app.Ports.splits, 1)[0].Value
		}
		stop(t, later)
		none(t, app.Ports.splits)
		stop(t, app)
	})
}

// TestFloors checks that the floor of a source that is never silent is saved and confirmed to the source.
func TestFloors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := kept(t, journal.NewMemory(journal.MemoryOptions{}), 1)
		s := newShelf()
		s.fill("a", 1)
		pumps := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{})
		for i := range 100 {
			time.Sleep(100 * time.Millisecond)
			last := uint64(100 + i)
			s.put("a", record{at: dataflow.Position{Major: last}, value: i})
			synctest.Wait()
			s.mu.Lock()
			told := s.confirmed["a"].Major
			s.mu.Unlock()
			if floor := pumps.Status()[0].Floor.Major; i > 20 && (floor+12 < last || told+12 < last) {
				t.Fatalf("at %d the floor is %d, and %d is confirmed", last, floor, told)
			}
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// TestDelivered checks that an input of entries takes each element of a repeating source once.
func TestDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, jobs := keyedsingleton.Input[string, int](dataflow.At[store](flow), "jobs")
		out := dataflow.Output(keyedsingleton.Entries(jobs), "out")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		q := &queue{waiting: map[string]int{"a": 1, "b": 2, "c": 3}, lose: 2}
		pumps := attach(t, app, connect.Delivered(q), connect.EntryPort(in, "jobs"), connect.Options{})
		sum := 0
		for _, e := range take(t, out, 3) {
			sum += e.Value
		}
		time.Sleep(time.Minute)
		none(t, out)
		synctest.Wait()
		if sum != 6 || len(q.waiting) != 0 || q.given != 9 {
			t.Errorf("the sum is %d, %d wait, %d were given", sum, len(q.waiting), q.given)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// A queue delivers its elements again until they are acknowledged.
type queue struct {
	waiting     map[string]int
	lose, given int
}

func (q *queue) Receive(ctx context.Context, b *connect.Batch[string, int]) (func(context.Context) error, error) {
	if len(q.waiting) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for k, v := range q.waiting {
		b.Keys, b.Values = append(b.Keys, k), append(b.Values, v)
		q.given++
	}
	return func(context.Context) error {
		if q.lose--; q.lose >= 0 {
			return errors.New("the acknowledgement is lost")
		}
		clear(q.waiting)
		return nil
	}, nil
}

func (q *queue) Close() error { return nil }

// TestSplitsAgain checks that the splits of a source are listed again soon when listing fails for a while, or a split has ended.
func TestSplitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := &away{shelf: newShelf(), until: time.Now().Add(3 * time.Second)}
		a := s.fill("a", 5)
		begun := time.Now()
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{Discover: time.Hour})
		if got := ofSplit(take(t, p.splits, 5), "a"); !slices.Equal(got, a) || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v there is %v", time.Since(begun), got)
		}
		begun = time.Now()
		s.fill("bb", 5)
		s.end("a")
		if take(t, p.splits, 5); time.Since(begun) > 10*time.Second {
			t.Errorf("what came in place of a split was found after %v", time.Since(begun))
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// An away shelf cannot be listed until a given time.
type away struct {
	*shelf
	until time.Time
}

func (s *away) Splits(ctx context.Context) ([]connect.Split, error) {
	if time.Now().Before(s.until) {
		return nil, connect.Retry(errors.New("nobody is there"))
	}
	return s.shelf.Splits(ctx)
}

// TestSplitsThatAreNotAllowed checks that splits that the constructor does not allow are an error, both at once and when they
// appear later.
func TestSplitsThatAreNotAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, _ := connect.WholeInput[int](dataflow.At[store](flow), "whole")
		bySplit, _ := connect.Input[string, int](dataflow.At[store](flow), "by split")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		one := &listed{splits: []connect.Split{{ID: "1", Name: "a"}}}
		if _, err := connect.Attach(t.Context(), app, connect.Whole(&listed{splits: []connect.Split{{ID: "1"}, {ID: "2"}}}), in, connect.Options{}); !errors.Is(err, connect.ErrSplits) || !strings.Contains(err.Error(), "2 of them, of a source that is connect.Whole: 1, 2") {
			t.Errorf("the error is %v", err)
		}
		if _, err := connect.Attach(t.Context(), app, connect.BySplit(&listed{splits: []connect.Split{{ID: "1", Name: "a"}, {ID: "2", Name: "a"}}}), bySplit, connect.Options{}); !errors.Is(err, connect.ErrSplits) || !strings.Contains(err.Error(), "1 and 2 have the name a") {
			t.Errorf("the error is %v", err)
		}
		pumps := attach(t, app, connect.Whole(one), in, connect.Options{})
		synctest.Wait()
		one.add(connect.Split{ID: "2"})
		<-pumps.Done()
		if err := pumps.Err(); !errors.Is(err, connect.ErrSplits) {
			t.Errorf("the error is %v", err)
		}
		stop(t, app)
	})
}

// A listed reader has splits without records.
type listed struct {
	mu     sync.Mutex
	splits []connect.Split
}

func (l *listed) add(s connect.Split) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.splits = append(l.splits, s)
}

func (l *listed) Splits(context.Context) ([]connect.Split, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.splits), nil
}
func (l *listed) Open(context.Context, connect.Split, dataflow.Position) (connect.Cursor[struct{}, int], error) {
	return l, nil
}
func (l *listed) Next(ctx context.Context, _ *connect.Batch[struct{}, int]) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
func (l *listed) Confirm(context.Context, dataflow.Position) error { return nil }
func (l *listed) Close() error                                     { return nil }

// Case 6: nothing is lost while a log cannot be written, and nothing is sent after a failed record.
func TestLogFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		var fails atomic.Int64
		log.SetHook(func(a journal.Action) journal.Fault {
			if a.Op != journal.OpAppend || !time.Now().Before(time.Date(2000, 1, 1, 0, 0, 20, 0, time.UTC)) || rand.IntN(3) > 0 {
				return journal.Fault{}
			}
			fails.Add(1)
			return journal.Fault{Fail: true}
		})
		app := kept(t, log, 4)
		s := newShelf()
		s.fill("a", 500)
		pumps := attach(t, app, connect.ByKey(s, "there is one split"), app.Ports.byKey, connect.Options{Floor: time.Millisecond})
		next := map[string]int{}
		for range 500 {
			e := take(t, app.Ports.keys, 1)[0]
			if n := e.Value - 1_000_000; n != next[e.Key]+int(e.Key[1]-'0') {
				t.Fatalf("of %s there is %d behind %d others", e.Key, n, next[e.Key])
			}
			next[e.Key] += 5
		}
		none(t, app.Ports.keys)
		if fails.Load() == 0 {
			t.Error("nothing has failed")
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// TestRepeatedLetters checks that the dead letters of a repeating source require a stream that may repeat.
func TestRepeatedLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, _ := connect.DeliveredInput[string, int](dataflow.At[store](flow), "in")
		once, _ := connect.DeadLetters(dataflow.At[store](flow), "once")
		repeated, letters := connect.RepeatedDeadLetters(dataflow.At[store](flow), "repeated")
		out := keyedstream.Output(letters, "out")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if e := recover(); e == nil || !strings.Contains(e.(string), "use connect.RepeatedDeadLetters") {
					t.Errorf("it panics with %v", e)
				}
			}()
			connect.Attach(t.Context(), app, connect.Delivered(&garbled{}), in, connect.Options{DeadLetters: once})
		}()
		pumps := attach(t, app, connect.Delivered(&garbled{}), in, connect.Options{DeadLetters: repeated})
		if letter := take(t, out, 1)[0]; letter.Key != "in" || letter.Value.Cause != "garbled" {
			t.Errorf("the letter is %+v", letter)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// A garbled queue delivers one record that cannot be decoded.
type garbled struct{ given bool }

func (g *garbled) Receive(ctx context.Context, b *connect.Batch[string, int]) (func(context.Context) error, error) {
	if g.given {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	g.given = true
	b.AddBad(connect.Split{ID: "queue"}, dataflow.Position{}, []byte("?"), errors.New("garbled"))
	return func(context.Context) error { return nil }, nil
}

func (g *garbled) Close() error { return nil }
