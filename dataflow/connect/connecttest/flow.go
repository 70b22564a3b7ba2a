package connecttest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// ports are the ports of a flow that collects its input.
type ports[K comparable, V any] struct {
	in   *connect.Port[K, V, dataflow.NoOrder, dataflow.ExactlyOnce]
	dead *connect.DeadLetterPort
	out  *dataflow.OutputPort[dataflow.Entry[K, V]]
	bad  *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
}

type collector struct{ dataflow.Process }

func build[K comparable, V any](f *dataflow.Flow) (p ports[K, V]) {
	at := dataflow.At[collector](f)
	in, records := connect.UnorderedInput[K, V](at, "records")
	dead, letters := connect.DeadLetters(at, "letters")
	p.in, p.dead = in, dead
	p.out = keyedstream.Output(records, "out")
	p.bad = keyedstream.Output(letters, "bad")
	return p
}

// collect reads a source into a flow whose history crashes after random actions, crashes times, until the flow has all
// records. It returns the records in the order of the flow, and the number of letters.
func collect[K comparable, V any](t *testing.T, s Source[K, V], crashes, readers int) (all []V, letters int) {
	t.Helper()
	want := 0
	for _, split := range splits(t, s) {
		want += len(s.Want[split.String()])
	}
	bad := s.Bad * len(s.Want)
	log := journal.NewMemory(journal.MemoryOptions{})
	opts := durable.Options{Flow: dataflow.Options{Buffer: want + bad + 1}} // nothing is acknowledged, so each start gives everything again
	for ; ; crashes-- {
		log.SetHook(nil) // of the previous handle, which may not have crashed
		if crashes > 0 {
			log.SetHook(crashAfter(1 + rand.IntN(20)))
		}
		all, letters = nil, 0
		o := opts
		o.Log = journal.Opened{Log: log}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		app, err := durable.Start(ctx, build[K, V], o)
		if err == nil {
			var pumps []*connect.Pumps
			for range readers {
				p, err := connect.Attach(ctx, app, connect.Unordered(open[K, V]{s.Reader}), app.Ports.in, connect.Options{Floor: time.Millisecond, DeadLetters: app.Ports.dead})
				if err != nil {
					t.Fatal(err)
				}
				pumps = append(pumps, p)
			}
			done := make(chan int)
			go func() {
				n := 0
				for n < bad {
					if _, err := app.Ports.bad.Receive(ctx); err != nil {
						break
					}
					n++
				}
				done <- n
			}()
			for len(all) < want {
				d, err := app.Ports.out.Receive(ctx)
				if err != nil {
					break
				}
				all = append(all, d.Value.Value)
			}
			letters = <-done
			if len(all) == want && letters == bad {
				for _, p := range pumps {
					if err := p.Stop(ctx); err != nil && crashes <= 0 {
						t.Error(err)
					}
				}
				// By now, everything that came twice has arrived.
				if err := app.Stop(ctx); err != nil && crashes <= 0 {
					t.Error(err)
				}
				for d := range app.Ports.out.All(ctx) {
					all = append(all, d.Value)
				}
				for range app.Ports.bad.All(ctx) {
					letters++
				}
				if crashes <= 0 {
					cancel()
					return all, letters
				}
			}
			if ctx.Err() != nil {
				t.Fatalf("%d of %d records have come, and %d of %d letters", len(all), want, letters, bad)
			}
			cancel()
			<-app.Done()
			for _, p := range pumps {
				<-p.Done()
			}
		} else if crashes <= 0 {
			t.Fatal(err)
		}
		cancel()
		log.Crash()
		log = log.Reopen()
	}
}

// crashAfter returns a hook that crashes a log after n actions.
func crashAfter(n int) journal.Hook {
	var left atomic.Int64
	left.Store(int64(n))
	return func(journal.Action) journal.Fault { return journal.Fault{Crash: left.Add(-1) == 0} }
}

// open is a reader that is attached several times and closed by the test.
type open[K comparable, V any] struct{ connect.Reader[K, V] }

func (open[K, V]) Close() error { return nil }

func testCrashes[K comparable, V any](t *testing.T, s Source[K, V]) {
	all, letters := collect(t, s, 20, 1)
	s.check(t, all, letters)
}

func testTwo[K comparable, V any](t *testing.T, s Source[K, V]) {
	all, letters := collect(t, s, 2, 2)
	s.check(t, all, letters)
}

// check checks that all records of each split have come once, in their order.
func (s Source[K, V]) check(t *testing.T, all []V, letters int) {
	t.Helper()
	if want := s.Bad * len(s.Want); letters != want {
		t.Errorf("there are %d dead letters, want %d", letters, want)
	}
	want := 0
	at := make(map[string]int)
	for _, vs := range s.Want {
		want += len(vs)
	}
	if len(all) != want {
		t.Errorf("%d records have come, want %d", len(all), want)
	}
next:
	for i, v := range all {
		for name, vs := range s.Want {
			if n := at[name]; n < len(vs) && s.Equal(v, vs[n]) {
				at[name]++
				continue next
			}
		}
		t.Fatalf("record %d, %+v, comes next in no split: it is there twice, out of order, or what is before it is missing", i, v)
	}
}
