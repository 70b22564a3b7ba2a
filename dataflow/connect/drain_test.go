package connect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// written are the ports of a flow that outputs the numbers it receives.
type written struct {
	in  *dataflow.InputPort[int]
	out *dataflow.OutputPort[int]
}

func writtenAt[L dataflow.Location](at L) written {
	in, numbers := dataflow.Input[int](at, "numbers")
	return written{in, dataflow.Output(numbers, "out")}
}

func startWritten(t *testing.T, log *journal.Memory) *durable.App[written] {
	t.Helper()
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) written { return writtenAt(dataflow.At[store](f)) }, durable.Options{Log: journal.Opened{Log: log}})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

var lanes = connect.DrainOptions{Flow: "test", Output: "out"}

func send(t *testing.T, in *dataflow.InputPort[int], from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		if err := in.Send(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// TestDrain checks that nothing is lost or written twice after an error that passes, even one after a complete write, and after
// the writer was fenced for a moment.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := startWritten(t, journal.NewMemory(journal.MemoryOptions{}))
		x := newTable()
		var heard []string
		opts := lanes
		opts.OnError = func(l connect.Lane, err error) { heard = append(heard, fmt.Sprint(l, ": ", err)) }
		drains := connect.Drain(t.Context(), app, app.Ports.out, x, opts)
		send(t, app.Ports.in, 1, 10)
		time.Sleep(time.Minute)
		x.mu.Lock()
		x.fail = connect.Retry(errors.New("the answer is lost"))
		x.mu.Unlock()
		send(t, app.Ports.in, 11, 20)
		time.Sleep(time.Minute)
		if _, _, err := x.Open(t.Context(), connect.Lane{Flow: "test", Output: "out"}); err != nil { // by another writer
			t.Fatal(err)
		}
		send(t, app.Ports.in, 21, 30)
		time.Sleep(time.Minute)
		if got := x.read(t); !slices.Equal(got, upTo(30)) {
			t.Errorf("there is %v", got)
		}
		synctest.Wait()
		if len(heard) != 2 || !strings.Contains(heard[0], "the answer is lost") || !strings.Contains(heard[1], "taken the lane over") {
			t.Errorf("heard %q", heard)
		}
		status := drains.Status()
		if len(status) != 1 || status[0].Number != 30 || status[0].Opened != 3 || status[0].Fenced != 1 || status[0].Err != nil {
			t.Errorf("the status is %+v", status)
		}
		stop(t, drains)
		stop(t, app)
	})
}

// TestSlowSink checks that a slow sink receives what has arrived during a write as one batch of at most DrainOptions.Most, and
// that a durable flow keeps what was not written.
func TestSlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := startWritten(t, log)
		x := &slowTable{table: newTable()}
		opts := lanes
		opts.Most = 30
		drains := connect.Drain(t.Context(), app, app.Ports.out, x, opts)
		send(t, app.Ports.in, 1, 1)
		synctest.Wait() // the first batch is being written
		for n := 2; n <= 101; n++ {
			send(t, app.Ports.in, n, n)
			synctest.Wait()
		}
		time.Sleep(2500 * time.Millisecond) // while the third batch is written
		stop(t, drains)
		stop(t, app)
		app = startWritten(t, log.Reopen())
		drains = connect.Drain(t.Context(), app, app.Ports.out, x, opts)
		time.Sleep(time.Minute)
		if got := x.read(t); !slices.Equal(got, upTo(101)) {
			t.Errorf("there is %v", got)
		}
		if sizes := x.writes(); !slices.Equal(sizes, []int{1, 30, 30, 30, 10}) {
			t.Errorf("written were %v at once", sizes)
		}
		stop(t, drains)
		stop(t, app)
	})
}

// A slowTable takes a second for each write.
type slowTable struct {
	*table
	sizes []int
}

func (s *slowTable) Open(ctx context.Context, l connect.Lane) (connect.Writer[int, connect.Atomic], uint64, error) {
	w, last, err := s.table.Open(ctx, l)
	return slowWriter{w, s}, last, err
}

func (s *slowTable) writes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sizes)
}

type slowWriter struct {
	connect.Writer[int, connect.Atomic]
	at *slowTable
}

func (w slowWriter) Write(ctx context.Context, first uint64, xs []int) (connect.Atomic, error) {
	time.Sleep(time.Second)
	w.at.mu.Lock()
	w.at.sizes = append(w.at.sizes, len(xs))
	w.at.mu.Unlock()
	return w.Writer.Write(ctx, first, xs)
}

// TestDrainToTheEnd checks that everything a flow in memory output before it ended is written.
func TestDrainToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		p := writtenAt(dataflow.At[store](flow))
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		x := newTable()
		drains := connect.Drain(t.Context(), app, p.out, x, lanes)
		send(t, p.in, 1, 5000)
		stop(t, app)
		<-drains.Done()
		if err := drains.Err(); err != nil || !slices.Equal(x.read(t), upTo(5000)) {
			t.Errorf("there are %d (%v)", len(x.rows), err)
		}
	})
}

// TestDrainFails checks that an error that does not pass ends the drain, and that the flow keeps what was not written.
func TestDrainFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := startWritten(t, log)
		x := newTable()
		x.fail = errors.New("no such column")
		drains := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
		send(t, app.Ports.in, 1, 5)
		<-drains.Done()
		if err := drains.Err(); err == nil || !strings.HasPrefix(err.Error(), "connect: lane test/out/0: writing ") || !strings.HasSuffix(err.Error(), " elements from number 1 on: no such column") {
			t.Errorf("the error is %v", err)
		}
		stop(t, app)
		app = startWritten(t, log.Reopen())
		again := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
		time.Sleep(time.Minute)
		stop(t, again)
		if got := x.read(t); !slices.Equal(got, upTo(5)) {
			t.Errorf("there is %v", got)
		}
		stop(t, app)
	})
}

// A strict sink panics on 3 until it is mended.
type strict struct {
	*table
	mended atomic.Bool
}

func (s *strict) Open(ctx context.Context, l connect.Lane) (connect.Writer[int, connect.Atomic], uint64, error) {
	w, last, err := s.table.Open(ctx, l)
	return strictWriter{w, s}, last, err
}

type strictWriter struct {
	connect.Writer[int, connect.Atomic]
	of *strict
}

func (w strictWriter) Write(ctx context.Context, first uint64, xs []int) (connect.Atomic, error) {
	if slices.Contains(xs, 3) && !w.of.mended.Load() {
		panic("no three")
	}
	return w.Writer.Write(ctx, first, xs)
}

// TestDrainPanics checks that a panic of a sink ends the drain as an error does, and not the process.
func TestDrainPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := startWritten(t, log)
		x := &strict{table: newTable()}
		drains := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
		send(t, app.Ports.in, 1, 5)
		<-drains.Done()
		if err := drains.Err(); err == nil || !strings.Contains(err.Error(), "writing them panicked: no three\n") || !strings.Contains(err.Error(), "drain_test.go:") {
			t.Errorf("the error is %v", err)
		}
		stop(t, app)
		x.mended.Store(true)
		app = startWritten(t, log.Reopen())
		again := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
		time.Sleep(time.Minute)
		stop(t, again)
		if got := x.read(t); !slices.Equal(got, upTo(5)) {
			t.Errorf("there is %v", got)
		}
		stop(t, app)
	})
}

// Cases 30 and 31: a sink that needs elements the flow has forgotten, and one that is ahead of the flow, are refused.
func TestGapAndAhead(t *testing.T) {
	for what, test := range map[string]struct {
		change  func(l *tableLane)
		forget  bool // the history
		want    error
		message string
	}{
		"older":     {change: func(l *tableLane) { l.last = 7 }, want: connect.ErrGap, message: "up to 7, and the flow gives those from 11 on"},
		"empty":     {change: func(l *tableLane) { l.last = 0 }, want: connect.ErrGap, message: "up to 0, and the flow gives those from 11 on"},
		"ahead":     {change: func(l *tableLane) { l.last = 20 }, want: connect.ErrAhead, message: "up to 20, and the flow has given 11"},
		"new flow":  {forget: true, want: connect.ErrAhead, message: "up to 10, and the flow has given 1"},
		"as it was": {},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{})
				app := startWritten(t, log)
				x := newTable()
				drains := connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
				send(t, app.Ports.in, 1, 10)
				time.Sleep(time.Minute)
				stop(t, drains)
				stop(t, app)
				if log = log.Reopen(); test.forget {
					log = journal.NewMemory(journal.MemoryOptions{})
				}
				if test.change != nil {
					test.change(x.lanes[connect.Lane{Flow: "test", Output: "out"}])
				}
				app = startWritten(t, log)
				drains = connect.Drain(t.Context(), app, app.Ports.out, x, lanes)
				send(t, app.Ports.in, 11, 11)
				time.Sleep(time.Minute)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := drains.Stop(ctx)
				if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), test.message) {
					t.Errorf("the error is %v, want %v", err, test.want)
				}
				if got := x.read(t); test.want == nil && !slices.Equal(got, upTo(11)) || test.want != nil && !slices.Equal(got, upTo(10)) {
					t.Errorf("there is %v", got)
				}
				stop(t, app)
			})
		})
	}
}

// fencedTable is a sink whose lanes belong to another writer.
type fencedTable struct{ *table }

func (x fencedTable) Open(context.Context, connect.Lane) (connect.Writer[int, connect.Atomic], uint64, error) {
	return nil, 0, connect.ErrFenced
}

// TestLaneIsLeft checks that a flow can end although another process has taken over its lane.
func TestLaneIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := startWritten(t, journal.NewMemory(journal.MemoryOptions{}))
		opts := lanes
		opts.Most = 1
		drains := connect.Drain(t.Context(), app, app.Ports.out, fencedTable{newTable()}, opts)
		send(t, app.Ports.in, 1, 100)
		time.Sleep(time.Minute)
		stop(t, app)
		select {
		case <-drains.Done():
		case <-time.After(time.Hour):
			t.Fatal("the drain goes on")
		}
		if err := drains.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestLaneWaits checks that a lane that cannot be written does not hold up the other partitions of its process, however much it
// holds.
func TestLaneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ports struct {
			in  *dataflow.SenderInputPort[string, int]
			out *dataflow.OutputPort[dataflow.Entry[string, int]]
		}
		app, err := durable.Start(t.Context(), func(f *dataflow.Flow) ports {
			in, numbers := dataflow.SenderInput[string, int](dataflow.At[shards](f), "numbers")
			return ports{in, keyedstream.Output(numbers, "out")}
		}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 2})}, Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		x := &half{table: newTable()}
		opts := lanes
		opts.Most = 1
		drains := connect.Drain(t.Context(), app, app.Ports.out, x, opts)
		for sender := range 8 {
			for n := range 100 {
				if err := app.Ports.in.Sender(fmt.Sprint(sender)).Send(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		wrote := uint64(0)
		status := drains.Status()
		for _, s := range status {
			wrote += s.Elements
		}
		if len(status) != 2 || status[0].Elements != 0 || status[0].Err == nil || wrote < 100 || wrote%100 != 0 {
			t.Errorf("the status is %+v", status)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := drains.Stop(ctx); err != nil {
			t.Error(err)
		}
		stop(t, app)
	})
}

// half is a table that cannot be reached for partition 0.
type half struct{ *table }

func (x *half) Open(ctx context.Context, l connect.Lane) (connect.Writer[dataflow.Entry[string, int], connect.Atomic], uint64, error) {
	if l.Partition == 0 {
		return nil, 0, connect.Retry(errors.New("nobody is there"))
	}
	w, last, err := x.table.Open(ctx, l)
	return valuesOf{w}, last, err
}

type valuesOf struct {
	connect.Writer[int, connect.Atomic]
}

func (w valuesOf) Write(ctx context.Context, first uint64, xs []dataflow.Entry[string, int]) (connect.Atomic, error) {
	var values []int
	for _, x := range xs {
		values = append(values, x.Value)
	}
	return w.Writer.Write(ctx, first, values)
}
