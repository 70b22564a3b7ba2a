package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// TestLogDrivenWindows does with flows in event time what TestLogDrivenByHand does.
func TestLogDrivenWindows(t *testing.T) {
	for name, build := range map[string]func(at here, see func(string)) []hands{"spans": spanWindows, "waiting": markedWindows} {
		t.Run(name, func(t *testing.T) {
			for n := range *programs / 30 {
				rng := rand.New(rand.NewPCG(*seed, uint64(n)))
				if err := logDrivenByHand(build, rng, nil); err != nil {
					t.Fatalf("history %d: %v\n%s", n, err, rerun(t))
				}
			}
		})
	}
}

// A bell is an element with a time, in seconds.
type bell struct {
	Who   seat
	At, N int
}

func (b bell) time() window.Time {
	return window.Time(0).Add(time.Duration(b.At) * time.Second)
}

// ringing returns a function that returns the next bell. Bells arrive nearly in the order of
// their times, with a long gap now and then.
func ringing() func(rng *rand.Rand) bell {
	now := 0
	return func(rng *rand.Rand) bell {
		if now += rng.IntN(3); rng.IntN(50) == 0 {
			now += 100
		}
		return bell{somewhere(rng, 3), now - rng.IntN(8), rng.IntN(100)}
	}
}

type (
	bells       = dataflow.KeyedStream[seat, window.Event[bell], here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	tallies     = dataflow.KeyedSingleton[window.Key[seat], []int, here, bounds.BoundedValue]
	openTallies = dataflow.KeyedSingleton[window.Key[seat], []int, here, bounds.Unbounded]
)

// stamped returns an input and its events, by key and sorted by time.
func stamped(at here, see func(string)) (in *dataflow.InputPort[bell], events bells, sorted dataflow.Stream[window.Event[bell], here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
	in, all := dataflow.Input[bell](at, "in")
	es, late := window.Stamp(all, bell.time, window.Disorder{Slack: 5 * time.Second, Confirm: 2})
	dataflow.Inspect(late, func(e window.Event[bell]) { see(fmt.Sprint("late", e)) })
	singleton.Output(window.Mark(es), "mark")
	return in, dataflow.KeyBy(es, func(e window.Event[bell]) seat { return e.Value.Who }), window.Sort(es)
}

// spanWindows is a flow that aggregates over spans: tumbling, sliding and session windows.
func spanWindows(at here, see func(string)) []hands {
	in, events, _ := stamped(at, see)
	none := func() []int { return nil }
	add := func(all *[]int, b bell) { *all = append(append([]int{}, *all...), b.N) }
	look := func(name string, closed tallies, open openTallies) {
		keyedsingleton.InspectWithKey(closed, func(k window.Key[seat], all []int) { see(fmt.Sprint(name, k, all)) })
		keyedsingleton.Output(window.Retain(closed, 30*time.Second), name)
		singleton.Output(keyedsingleton.KeyCount(open), "open "+name)
	}
	closed, open := window.Fold(events, window.Every(10*time.Second), none, add)
	look("tens", closed, open)
	sums, _ := window.Fold(window.Closed(closed), window.Every(time.Minute), func() int { return 0 }, func(n *int, all []int) { *n += len(all) })
	keyedsingleton.Output(sums, "minutes")
	closed, open = window.Fold(events, window.Sliding(20*time.Second, time.Second), none, add)
	look("sliding", closed, open)
	closed, open = window.Sessions(events, 4*time.Second, none, add, func(all *[]int, more []int) { *all = append(append([]int{}, *all...), more...) }, why)
	look("sessions", closed, open)
	return []hands{sendsBells(in)}
}

// markedWindows is a flow of the operators that wait for the mark.
func markedWindows(at here, see func(string)) []hands {
	in, events, sorted := stamped(at, see)
	odd, even := keyedstream.Partition(events, func(e window.Event[bell]) bool { return e.Value.N%2 == 1 })
	near := window.Within{Before: 3 * time.Second, After: 2 * time.Second}
	keyedstream.InspectWithKey(window.Join(odd, even, near), func(k seat, e window.Event[dataflow.Pair[bell, bell]]) { see(fmt.Sprint("joined", k, e)) })
	keyedstream.InspectWithKey(window.LeftJoin(odd, even, near), func(k seat, e window.Event[dataflow.Pair[bell, dataflow.Maybe[bell]]]) { see(fmt.Sprint("left", k, e)) })
	keyedstream.InspectWithKey(window.AsOf(odd, even), func(k seat, e window.Event[dataflow.Pair[bell, dataflow.Maybe[bell]]]) {
		see(fmt.Sprint("as of", k, e))
	})
	keyedstream.InspectWithKey(window.Trailing(events, 6*time.Second, func() int { return 0 }, func(n *int, b bell) { *n += b.N }, func(n *int, b bell) { *n -= b.N }),
		func(k seat, e window.Event[dataflow.Pair[bell, int]]) { see(fmt.Sprint("trailing", k, e)) })
	keyedstream.InspectWithKey(window.Unique(events), func(k seat, e window.Event[bell]) { see(fmt.Sprint("unique", k, e)) })
	rung, decided := window.Machine(events, func() robot { return robot{} }, func(r *robot, b bell, do *window.Turn[seat, string, int]) {
		if r.Turns, r.Sum = r.Turns+1, r.Sum+b.N; b.N%3 > 0 {
			do.At(window.Alarm(b.N%2), do.Now().Add(time.Duration(b.N%7)*time.Second))
		}
		if b.N%5 == 0 {
			do.Decide(r.Sum)
		}
	}, func(r *robot, a window.Alarm, do *window.Turn[seat, string, int]) {
		switch do.Emit(fmt.Sprint(a, *r)); r.Sum % 4 {
		case 0:
			do.Forget()
		case 1:
			do.Stop(1 - a)
		}
	})
	keyedstream.InspectWithKey(rung, func(k seat, e window.Event[string]) { see(fmt.Sprint("rung", k, e)) })
	singleton.Output(keyedsingleton.KeyCount(decided), "decided")
	inOrder := dataflow.Output(dataflow.Map(sorted, func(e window.Event[bell]) bell { return e.Value }), "sorted")
	return []hands{{sendsBells(in).send, func() { inOrder.Next(canceled) }}}
}

func sendsBells(in *dataflow.InputPort[bell]) hands {
	next := ringing()
	return hands{send: func(rng *rand.Rand) error { return in.Send(context.Background(), next(rng)) }}
}
