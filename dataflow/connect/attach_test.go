package connect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

type store struct{ dataflow.Process }

type shards struct{ dataflow.Cluster }

// ports are the ports of a flow with an input of each kind. The streams are output as they arrive.
type ports struct {
	bySplit *connect.Port[string, int, dataflow.TotalOrder, dataflow.ExactlyOnce]
	byKey   *connect.Port[string, int, dataflow.TotalOrder, dataflow.ExactlyOnce]
	dead    *connect.DeadLetterPort
	splits  *dataflow.OutputPort[dataflow.Entry[string, int]]
	keys    *dataflow.OutputPort[dataflow.Entry[string, int]]
	letters *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
}

func build[L dataflow.Location](at L) (p ports) {
	bySplit, splits := connect.Input[string, int](at, "by split")
	byKey, keys := connect.Input[string, int](at, "by key")
	dead, letters := connect.DeadLetters(at, "dead")
	return ports{
		bySplit: bySplit, byKey: byKey, dead: dead, splits: keyedstream.Output(splits, "splits"), keys: keyedstream.Output(keys, "keys"),
		letters: keyedstream.Output(letters, "letters"),
	}
}

// inMemory starts the flow in memory.
func inMemory(t *testing.T) (*dataflow.App, ports) {
	t.Helper()
	flow := dataflow.New()
	p := build(dataflow.At[store](flow))
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, p
}

// kept starts the flow on a log.
func kept(t *testing.T, log *journal.Memory, partitions int) *durable.App[ports] {
	t.Helper()
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) ports {
		if partitions > 1 {
			return build(dataflow.At[shards](f))
		}
		return build(dataflow.At[store](f))
	}, durable.Options{Log: journal.Opened{Log: log}, Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// take reads n elements of an output and acknowledges them.
func take[T any](t *testing.T, out *dataflow.OutputPort[T], n int) (all []T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range n {
		d, err := out.Receive(ctx)
		if err != nil {
			t.Fatalf("after %d elements: %v", len(all), err)
		}
		d.Ack()
		all = append(all, d.Value)
	}
	return all
}

// none reports an element that arrives within a minute.
func none[T any](t *testing.T, out *dataflow.OutputPort[T]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if b, err := out.ReceiveBatch(ctx, 100); err == nil {
		t.Errorf("more came: %v", b.Elements)
	}
}

func attach[K comparable, V any, O dataflow.Order, R dataflow.Retries](t *testing.T, app connect.App, src connect.Source[K, V, O, R], p *connect.Port[K, V, O, R], opts connect.Options) *connect.Pumps {
	t.Helper()
	pumps, err := connect.Attach(t.Context(), app, src, p, opts)
	if err != nil {
		t.Fatal(err)
	}
	return pumps
}

func stop(t *testing.T, x interface{ Stop(context.Context) error }) {
	t.Helper()
	if err := x.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func ofSplit(all []dataflow.Entry[string, int], split string) (values []int) {
	for _, e := range all {
		if e.Key == split {
			values = append(values, e.Value)
		}
	}
	return values
}

// TestInMemory attaches a source in memory to a flow in memory. The flow also receives later records and splits that are found
// later, and the reader is closed.
func TestInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := inMemory(t)
		s := newShelf()
		a := s.fill("a", 50)
		pumps := attach(t, app, connect.BySplit(s), p.bySplit, connect.Options{})
		got := take(t, p.splits, 50)
		b := s.fill("bb", 30) // found by the next look
		got = append(got, take(t, p.splits, 30)...)
		if !slices.Equal(ofSplit(got, "a"), a) || !slices.Equal(ofSplit(got, "bb"), b) {
			t.Errorf("got %v", got)
		}
		s.put("a", record{at: dataflow.Position{Major: 1000}, value: 7})
		if got := take(t, p.splits, 1); got[0].Value != 7 {
			t.Errorf("got %v", got)
		}
		s.end("a")
		synctest.Wait()
		time.Sleep(2 * time.Second)
		status := pumps.Status()
		if len(status) != 2 || !status[0].Ended || status[0].Err != nil || status[0].Records != 51 || status[0].Floor != (dataflow.Position{Major: 1000}) || !status[1].Reading || status[1].Ended {
			t.Errorf("the status is %+v", status)
		}
		s.mu.Lock()
		if s.confirmed["a"] != (dataflow.Position{Major: 1000}) {
			t.Errorf("%v is confirmed", s.confirmed)
		}
		s.mu.Unlock()
		stop(t, pumps)
		if !s.closed {
			t.Error("the reader is open")
		}
		stop(t, app)
	})
}

// Case 55: one source is attached to two inputs of one location, by split and by key, and both receive every record.
func TestTwoInputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := kept(t, journal.NewMemory(journal.MemoryOptions{}), 1)
		s := newShelf()
		want := s.fill("a", 40)
		s.end("a")
		one := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{})
		two := attach(t, app, connect.ByKey(s, "there is one split"), app.Ports.byKey, connect.Options{})
		if got := ofSplit(take(t, app.Ports.splits, 40), "a"); !slices.Equal(got, want) {
			t.Errorf("by split: %v", got)
		}
		if why := two.Status()[0].Assumed; why != "there is one split" {
			t.Errorf("the reason is %q", why)
		}
		byKey := take(t, app.Ports.keys, 40)
		if got := ofSplit(byKey, "k3"); len(got) != 8 || !slices.IsSorted(got) {
			t.Errorf("of k3: %v", got)
		}
		stop(t, one)
		stop(t, two)
		stop(t, app)
	})
}

// Case 25: a flow that is stopped cleanly continues where it was, and no record is sent again.
func TestStopAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		s := newShelf()
		for i := range 5 {
			app := kept(t, log, 4)
			pumps := attach(t, app, connect.ByKey(s, "there is one split"), app.Ports.byKey, connect.Options{Floor: time.Hour})
			for n := range 3 {
				v := 10*i + n
				s.put("a", record{at: dataflow.Position{Major: uint64(v + 1)}, key: fmt.Sprint("k", n), value: v})
			}
			take(t, app.Ports.keys, 3)
			stop(t, pumps)
			if status := pumps.Status(); len(status) != 1 || status[0].Records != 3 {
				t.Errorf("start %d sent %+v", i, status)
			}
			none(t, app.Ports.keys)
			stop(t, app)
			log = log.Reopen()
		}
	})
}

// Cases 17 and 54: each bad record is one dead letter, and no record around it is lost. Case 18: too many bad records end the
// split.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		s := newShelf()
		s.most = 100
		for i := range 7 {
			r := record{at: dataflow.Position{Major: uint64(i)}, value: i}
			if i == 5 {
				r.bad = strings.Repeat("x", connect.MaxRaw+1)
			}
			if i > 0 {
				s.put("a", r)
			}
		}
		for start := range 3 {
			app := kept(t, log, 1)
			pumps := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{Floor: time.Hour, DeadLetters: app.Ports.dead})
			if start == 0 {
				got := ofSplit(take(t, app.Ports.splits, 5), "a")
				if !slices.Equal(got, []int{1, 2, 3, 4, 6}) {
					t.Errorf("got %v", got)
				}
				letter := take(t, app.Ports.letters, 1)[0]
				if letter.Key != "by split" || letter.Value.At != (dataflow.Position{Major: 5}) || !letter.Value.Cut || len(letter.Value.Raw) != connect.MaxRaw {
					t.Errorf("the letter is %s %v", letter.Key, letter.Value.At)
				}
			}
			none(t, app.Ports.letters)
			if start == 2 {
				for i := range 1001 {
					s.put("a", record{at: dataflow.Position{Major: uint64(100 + i)}, bad: "x"})
				}
				time.Sleep(time.Minute)
				status := pumps.Status()[0]
				if !status.Ended || status.Err == nil || !strings.Contains(status.Err.Error(), "1001 records in a row cannot be decoded, up to that at {1100 0}: x") {
					t.Errorf("the status is %+v", status)
				}
			}
			log.Crash()
			_ = app.Ports.bySplit.Send(t.Context(), "nobody", batchOf(1))
			<-app.Done()
			<-pumps.Done()
			log = log.Reopen()
		}
	})
}

func batchOf(at uint64) *connect.Batch[string, int] {
	var b connect.Batch[string, int]
	b.Add("", 0, dataflow.Position{Major: at})
	return &b
}

// Cases 10 and 11: missing records are an error, or a dead letter that names them.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		s := newShelf()
		for i := range 10 {
			s.put("a", record{at: dataflow.Position{Major: uint64(i + 1)}, value: i + 1})
		}
		app := kept(t, log, 1)
		pumps := attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{DeadLetters: app.Ports.dead})
		take(t, app.Ports.splits, 10)
		stop(t, pumps)
		for i := range 10 {
			s.put("a", record{at: dataflow.Position{Major: uint64(i + 11)}, value: i + 11})
		}
		s.forget("a", dataflow.Position{Major: 15})
		var heard []error
		pumps = attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{DeadLetters: app.Ports.dead, OnError: func(_ connect.Split, err error) { heard = append(heard, err) }})
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(heard) != 1 || !errors.Is(heard[0], connect.ErrGap) || !strings.Contains(heard[0].Error(), "opening behind {10 0}") || !errors.Is(pumps.Status()[0].Err, connect.ErrGap) {
			t.Errorf("heard %v", heard)
		}
		none(t, app.Ports.splits)
		stop(t, pumps)
		for range 2 { // the dead letter comes once
			pumps = attach(t, app, connect.BySplit(s), app.Ports.bySplit, connect.Options{DeadLetters: app.Ports.dead, SkipGaps: true})
			time.Sleep(time.Minute)
			stop(t, pumps)
		}
		if got := ofSplit(take(t, app.Ports.splits, 5), "a"); !slices.Equal(got, []int{16, 17, 18, 19, 20}) {
			t.Errorf("got %v", got)
		}
		if letter := take(t, app.Ports.letters, 1)[0]; !strings.Contains(letter.Value.Cause, "up to {15 0}, and {10 0} was wanted") {
			t.Errorf("the letter is %+v", letter)
		}
		none(t, app.Ports.letters)
		none(t, app.Ports.splits)
		stop(t, app)
	})
}

// Case 53: a reader whose positions do not grow, or whose columns differ in length, is an error.
func TestOrder(t *testing.T) {
	for what, rs := range map[string][]record{
		"{2 0} comes behind {2 0}": {{at: dataflow.Position{Major: 2}}, {at: dataflow.Position{Major: 2}, value: 1}},
		"{0 0} comes behind {0 0}": {{at: dataflow.Position{}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			app, p := inMemory(t)
			pumps := attach(t, app, connect.BySplit(stuck{rs}), p.bySplit, connect.Options{})
			time.Sleep(time.Minute)
			if err := pumps.Status()[0].Err; !errors.Is(err, connect.ErrOrder) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "all") {
				t.Errorf("the error is %v, want %q", err, what)
			}
			stop(t, pumps)
			stop(t, app)
		})
	}
}

// A stuck reader always returns the same batch.
type stuck struct{ rs []record }

func (s stuck) Splits(context.Context) ([]connect.Split, error) {
	return []connect.Split{{ID: "all"}}, nil
}
func (s stuck) Open(context.Context, connect.Split, dataflow.Position) (connect.Cursor[string, int], error) {
	return s, nil
}
func (s stuck) Close() error                                     { return nil }
func (s stuck) Confirm(context.Context, dataflow.Position) error { return nil }
func (s stuck) Next(_ context.Context, b *connect.Batch[string, int]) error {
	for _, r := range s.rs {
		b.Add("", r.value, r.at)
	}
	return nil
}
