package window_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type durablePorts struct {
	in   *dataflow.InputPort[tick]
	outs map[string]*dataflow.EntryOutputPort[string, string]
}

// numbered outputs lines in order as the entries 0, 1, and so on.
func numbered(b *durablePorts, name string, lines dataflow.Stream[string, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
	byNumber := dataflow.KeyBy(dataflow.Enumerate(lines), func(p dataflow.Pair[int, string]) string { return fmt.Sprint(p.First) })
	b.outs[name] = keyedsingleton.Output(keyedstream.First(keyedstream.Map(byNumber, func(p dataflow.Pair[int, string]) string { return p.Second })), name)
}

// perKey is numbered for a keyed stream, with the key before each line.
func perKey[V any](b *durablePorts, name string, ks dataflow.KeyedStream[string, V, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], line func(V) string) {
	lines := keyedstream.Values(keyedstream.MapWithKey(ks, func(k string, v V) string { return k + " " + line(v) }))
	numbered(b, name, dataflow.AssumeOrder(lines, "the test has one key"))
}

func spans(b *durablePorts, name string, closed counts) {
	byName := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(closed), func(k window.Key[string], _ int) string { return spanned(k) })
	b.outs[name] = keyedsingleton.Output(keyedstream.First(keyedstream.Map(keyedstream.AssumeOrder(byName, "each comes once"), func(n int) string { return fmt.Sprint(n) })), name)
}

// durableWindows has one of each operator with state.
func durableWindows(flow *dataflow.Flow) durablePorts {
	b := durablePorts{outs: map[string]*dataflow.EntryOutputPort[string, string]{}}
	in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
	b.in = in
	es, late := window.Stamp(xs, at, slack(2))
	byKey := dataflow.KeyBy(es, key)
	numbered(&b, "late", dataflow.Map(late, func(e window.Event[tick]) string { return fmt.Sprint(e.Value.N) }))
	tumbling, _ := window.Count(byKey, window.Every(10*time.Second))
	spans(&b, "tumbling", tumbling)
	many, _ := window.Count(byKey, window.Sliding(20*time.Second, time.Second))
	spans(&b, "sliding", many)
	sessions, _ := window.Sessions(byKey, 4*time.Second, func() int { return 0 }, func(n *int, _ tick) { *n++ }, func(n *int, m int) { *n += m }, "a sum")
	spans(&b, "sessions", sessions)
	twice, _ := window.Fold(window.Closed(tumbling), window.Every(time.Minute), func() int { return 0 }, func(n *int, m int) { *n += m })
	spans(&b, "minutes", twice)
	numbered(&b, "sorted", dataflow.Map(window.Sort(es), func(e window.Event[tick]) string { return fmt.Sprint(e.Value.N) }))
	perKey(&b, "trailing", window.Trailing(byKey, 5*time.Second, func() int { return 0 }, func(n *int, _ tick) { *n++ }, func(n *int, _ tick) { *n-- }),
		func(e window.Event[dataflow.Pair[tick, int]]) string {
			return fmt.Sprintf("%d %d", e.Value.First.N, e.Value.Second)
		})
	odd, even := keyedstream.Filter(byKey, func(e window.Event[tick]) bool { return e.Value.N%2 == 1 }), keyedstream.Filter(byKey, func(e window.Event[tick]) bool { return e.Value.N%2 == 0 })
	perKey(&b, "as of", window.AsOf(odd, even), maybe)
	perKey(&b, "joined", window.Unique(keyedstream.AssumeOrder(window.LeftJoin(odd, even, near(2, 2)), "of one source")), maybe)
	said, _ := window.Machine(byKey, newWatch, (*watch).told, (*watch).rang)
	perKey(&b, "machine", said, func(e window.Event[string]) string { return e.Value + "@" + inSeconds(e.At) })
	confirmed, _ := window.Stamp(xs, at, window.Disorder{Confirm: 2})
	counted, _ := window.Count(dataflow.KeyBy(confirmed, key), window.Every(10*time.Second))
	spans(&b, "confirmed", counted)
	return b
}

// durableTimes are the times of the events that the tests send to durableWindows, and
// durableResults the results. The last spans stay open.
var (
	durableTimes   = []int{1, 5, 3, 2, 11, 8, 30, 27, 70, 71}
	durableResults = map[string]map[string]string{
		"late":      {"0": "4", "1": "6", "2": "8"},
		"tumbling":  {"a[0,10)": "3", "a[10,20)": "1", "a[30,40)": "1"},
		"sessions":  {"a[1,9)": "3", "a[11,15)": "1", "a[30,34)": "1"},
		"minutes":   {"a[0,60)": "5"},
		"sliding":   {"a[0,20)": "4", "a[5,25)": "2", "a[30,50)": "1"},
		"sorted":    {"0": "1", "1": "3", "2": "2", "3": "5", "4": "7"},
		"trailing":  {"0": "a 1 1", "1": "a 3 2", "2": "a 2 3", "3": "a 5 1", "4": "a 7 1"},
		"as of":     {"0": "a (1,-)@1", "1": "a (3,-)@3", "2": "a (5,2)@11", "3": "a (7,2)@30"},
		"joined":    {"0": "a (3,2)@5", "1": "a (1,-)@3"},
		"machine":   {"0": "a 1@1", "1": "a 3@3", "2": "a rings@3", "3": "a 2@5", "4": "a 5@11", "5": "a rings@12", "6": "a 7@30"},
		"confirmed": {"a[0,10)": "4", "a[10,20)": "1", "a[20,30)": "1", "a[30,40)": "1"},
	}
)

// sendTicks sends the ticks from index first on.
func sendTicks(ctx context.Context, in *dataflow.InputPort[tick], all []tick, first int) error {
	for i, x := range all[first:] {
		if err := in.SendNumbered(ctx, uint64(first+i), x); err != nil {
			return err
		}
	}
	return nil
}

// durableHas returns an error if the results differ from durableResults.
func durableHas(ctx context.Context, p durablePorts) error {
	for name, want := range durableResults {
		for k, v := range want {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if got, err := p.outs[name].Await(soon, k); err != nil || got != v {
				return fmt.Errorf("%s has %q under %q, want %q: %w", name, got, k, v, err)
			}
		}
	}
	return nil
}

// TestDurable is case 62: a flow with windows is killed at every step and gives each result once.
// The last spans stay open, because closing an input does not end time.
func TestDurable(t *testing.T) {
	runs := durabletest.Crash(t, durabletest.Program[durablePorts]{
		Build: durableWindows,
		Drive: func(ctx context.Context, p durablePorts) error {
			return sendTicks(ctx, p.in, of("a", durableTimes...), 0)
		},
		Check: durableHas,
	}, durabletest.Options{Durable: durable.Options{Partitions: 1}})
	if runs < 20 {
		t.Errorf("there were only %d runs", runs)
	}
}

// TestDurableClose is case 61 for a durable flow, killed at every step. Closing an input and
// stopping do not end time, so the events sent to the next process find the spans as they were.
func TestDurableClose(t *testing.T) {
	all := of("a", durableTimes...)
	covered := map[string]bool{"sorted 0": true, "trailing 0": true, "as of 0": true, "machine 0": true, "joined 0": true} // closed by the mark, or independent of it
	var going bool
	runs := durabletest.Crash(t, durabletest.Program[durablePorts]{
		Build: durableWindows,
		Drive: func(ctx context.Context, p durablePorts) error {
			going = false
			if err := sendTicks(ctx, p.in, all[:3], 0); err != nil {
				return err
			}
			p.in.Close()
			return nil
		},
		Check: func(ctx context.Context, p durablePorts) error {
			for name, want := range durableResults {
				for k := range want {
					if going || covered[name+" "+k] {
						continue
					}
					soon, cancel := context.WithTimeout(ctx, time.Second)
					got, err := p.outs[name].Await(soon, k)
					cancel()
					if !errors.Is(err, context.DeadlineExceeded) {
						return fmt.Errorf("%s has %q under %q, and the mark is 3: %w", name, got, k, err)
					}
				}
			}
			going = true
			if err := sendTicks(ctx, p.in, all, 3); err != nil {
				return err
			}
			return durableHas(ctx, p)
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 1}})
	if runs < 20 {
		t.Errorf("there were only %d runs", runs)
	}
}

// A cluster has its keys divided into partitions, each with its own mark.
type cluster struct{ dataflow.Cluster }

type clusterPorts struct {
	in     *dataflow.KeyedInputPort[string, tick]
	closed *dataflow.EntryOutputPort[string, int]
}

// TestCluster is case 65: windows by key give the same results in four partitions as in one.
func TestCluster(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	durabletest.Crash(t, durabletest.Program[clusterPorts]{
		Build: func(flow *dataflow.Flow) clusterPorts {
			in, xs := keyedstream.Input[string, tick](dataflow.At[cluster](flow), "ticks")
			es, _ := window.StampKeyed(xs, at, slack(0), "the test sends in the order of times")
			closed, _ := window.Count(es, window.Every(10*time.Second))
			firsts := keyedsingleton.Filter(keyedstream.First(window.Closed(closed)), func(e window.Event[int]) bool { return e.At < seconds(10) })
			return clusterPorts{in, keyedsingleton.Output(keyedsingleton.Map(firsts, func(e window.Event[int]) int { return e.Value }), "first span")}
		},
		Drive: func(ctx context.Context, p clusterPorts) error {
			for i, at := range []int{1, 5, 11} {
				for _, k := range keys {
					if err := p.in.SendNumbered(ctx, k, uint64(i), tick{k, at, i}); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p clusterPorts) error {
			for _, k := range keys {
				soon, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				if n, err := p.closed.Await(soon, k); err != nil || n != 2 {
					return fmt.Errorf("%s has %d, %w", k, n, err)
				}
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 4}})
}

// TestDurableIdle has a flow wait for a silent source, and kills it at every step. After each
// restart it continues the wait where it stood.
func TestDurableIdle(t *testing.T) {
	runs := durabletest.Crash(t, durabletest.Program[durablePorts]{
		Build: func(flow *dataflow.Flow) durablePorts {
			b := durablePorts{outs: map[string]*dataflow.EntryOutputPort[string, string]{}}
			here := dataflow.At[server](flow)
			in, xs := dataflow.Input[tick](here, "a")
			_, ys := dataflow.Input[tick](here, "b")
			b.in = in
			first, _ := window.Stamp(xs, at, slack(0))
			second, _ := window.Stamp(ys, at, slack(0))
			first, _ = window.Idle(first, 10*time.Millisecond, "nothing comes later")
			second, _ = window.Idle(second, 10*time.Millisecond, "nothing comes")
			all := dataflow.KeyBy(dataflow.AssumeOrder(dataflow.Merge(first, window.Sort(second)), "of one source"), key)
			closed, _ := window.Count(all, window.Every(20*time.Millisecond))
			spans(&b, "closed", closed)
			return b
		},
		Drive: func(ctx context.Context, p durablePorts) error {
			return p.in.SendNumbered(ctx, 1, tick{"a", 1, 1})
		},
		Check: func(ctx context.Context, p durablePorts) error {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if got, err := p.outs["closed"].Await(soon, "a[1,1)"); err != nil || got != "1" {
				return fmt.Errorf("closed is %q: %w", got, err)
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 1}})
	if runs < 4 {
		t.Errorf("there were only %d runs", runs)
	}
}
