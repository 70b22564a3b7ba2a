package window_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// others is a second location with divided keys.
type others struct{ dataflow.Cluster }

// A route is a flow whose events go to a cluster, come from one, or both. One of its inputs is nil.
type route struct {
	ticks  *dataflow.InputPort[tick]
	keyed  *dataflow.KeyedInputPort[string, tick]
	closed *dataflow.EntryOutputPort[window.Key[string], int]
}

func (r route) send(ctx context.Context, all []tick, first int) error {
	for i, x := range all[first:] {
		var err error
		if r.ticks != nil {
			err = r.ticks.SendNumbered(ctx, uint64(first+i), x)
		} else {
			err = r.keyed.SendNumbered(ctx, x.Key, uint64(first+i), x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r route) close() {
	if r.ticks != nil {
		r.ticks.Close()
	} else {
		r.keyed.Close()
	}
}

const inTurn = "the test sends in the order of times, but for the slack"

// stampedOnce is a route from the server to a cluster. The server stamps the events.
func stampedOnce(through func(flow *dataflow.Flow, es eventStream) counts) func(*dataflow.Flow) route {
	return func(flow *dataflow.Flow) route {
		in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
		es, _ := window.Stamp(xs, at, slack(2))
		return route{ticks: in, closed: keyedsingleton.Output(through(flow, es), "closed")}
	}
}

type clusterEvents = dataflow.KeyedStream[string, window.Event[tick], cluster, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// stampedInParts is a route from a cluster to the server. The cluster's partitions stamp the events.
func stampedInParts(through func(flow *dataflow.Flow, es clusterEvents) counts) func(*dataflow.Flow) route {
	return func(flow *dataflow.Flow) route {
		in, xs := keyedstream.Input[string, tick](dataflow.At[cluster](flow), "ticks")
		es, _ := window.StampKeyed(xs, at, slack(2), inTurn)
		return route{keyed: in, closed: keyedsingleton.Output(through(flow, es), "closed")}
	}
}

// routes are the ways in which events and their mark reach a cluster, or leave it. Each must close
// the same windows as counting at the server.
var routes = map[string]func(*dataflow.Flow) route{
	"to": stampedOnce(func(flow *dataflow.Flow, es eventStream) counts {
		closed, _ := window.Count(keyedstream.Send(dataflow.KeyBy(es, key), dataflow.At[cluster](flow)), window.Every(10*time.Second))
		return keyedsingleton.Send(closed, dataflow.At[server](flow))
	}),
	"there and back": stampedOnce(func(flow *dataflow.Flow, es eventStream) counts {
		there := dataflow.WeakenOrder(dataflow.Send(es, dataflow.At[cluster](flow))) // divided by value, so that a key is in several partitions
		closed, _ := window.Count(dataflow.KeyBy(dataflow.Send(there, dataflow.At[server](flow)), key), window.Every(10*time.Second))
		return closed
	}),
	"back with keys": stampedOnce(func(flow *dataflow.Flow, es eventStream) counts {
		there := keyedstream.Send(dataflow.KeyBy(es, key), dataflow.At[cluster](flow)) // some partitions get only the mark
		closed, _ := window.Count(keyedstream.Send(there, dataflow.At[server](flow)), window.Every(10*time.Second))
		return closed
	}),
	"from": stampedInParts(func(flow *dataflow.Flow, es clusterEvents) counts {
		closed, _ := window.Count(keyedstream.Send(es, dataflow.At[server](flow)), window.Every(10*time.Second))
		return closed
	}),
	"values from": stampedInParts(func(flow *dataflow.Flow, es clusterEvents) counts {
		closed, _ := window.Count(dataflow.KeyBy(dataflow.Send(keyedstream.Values(es), dataflow.At[server](flow)), key), window.Every(10*time.Second))
		return closed
	}),
	"idle from": stampedInParts(func(flow *dataflow.Flow, es clusterEvents) counts {
		still, _ := window.Idle(dataflow.Send(keyedstream.Values(es), dataflow.At[server](flow)), time.Hour, "it never falls silent")
		closed, _ := window.Count(dataflow.KeyBy(still, key), window.Every(10*time.Second))
		return closed
	}),
	"closed from": stampedInParts(func(flow *dataflow.Flow, es clusterEvents) counts {
		seconds, _ := window.Count(es, window.Every(time.Second))
		sums, _ := window.Fold(window.Closed(keyedsingleton.Send(seconds, dataflow.At[server](flow))), window.Every(10*time.Second), func() int { return 0 }, func(n *int, m int) { *n += m })
		return sums
	}),
	"between": stampedInParts(func(flow *dataflow.Flow, es clusterEvents) counts {
		turned := keyedstream.Rekey(es, func(k string, _ window.Event[tick]) string { return "of " + k })
		closed, _ := window.Count(keyedstream.Send(turned, dataflow.At[others](flow)), window.Every(10*time.Second))
		there := keyedsingleton.Send(closed, dataflow.At[server](flow))
		byName := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(there), func(k window.Key[string], _ int) window.Key[string] {
			return window.Key[string]{Key: strings.TrimPrefix(k.Key, "of "), Span: k.Span}
		})
		return keyedstream.First(keyedstream.AssumeOrder(byName, "each comes once"))
	}),
}

// closedBy returns the windows that are closed when the mark has reached a time in seconds.
func closedBy(source []tick, mark int) map[window.Key[string]]int {
	all := make(map[window.Key[string]]int)
	for _, x := range source {
		if from := x.At / 10 * 10; from+10 <= mark {
			all[window.Key[string]{Key: x.Key, Span: window.Span{From: seconds(from), To: seconds(from + 10)}}]++
		}
	}
	return all
}

// has returns an error if the windows closed by a route differ from want.
func (r route) has(ctx context.Context, want map[window.Key[string]]int) error {
	for k, n := range want {
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		got, err := r.closed.Await(soon, k)
		cancel()
		if err != nil || got != n {
			return fmt.Errorf("%s has %d, want %d: %w", spanned(k), got, n, err)
		}
	}
	if n := r.closed.Len(); n != len(want) {
		return fmt.Errorf("%d are closed, want %d", n, len(want))
	}
	return nil
}

// manyKeys has keys in each of four partitions.
var manyKeys = strings.Split("abcdefgh", "")

// inRounds returns n random ticks of manyKeys followed by one tick of each key at the time end, in seconds.
func inRounds(rng *rand.Rand, n, end int) (all []tick) {
	for i := range n {
		at := max(0, end*i/n-rng.IntN(3))
		all = append(all, tick{manyKeys[rng.IntN(len(manyKeys))], at, i})
	}
	for _, k := range manyKeys {
		all = append(all, tick{k, end, n})
	}
	return all
}

// TestClusterInMemory checks that each route closes the same windows as counting, with a cluster of one partition.
func TestClusterInMemory(t *testing.T) {
	source := inRounds(rand.New(rand.NewPCG(1, 2)), 20, 31)
	want := closedBy(source, 1000)
	for name, build := range routes {
		t.Run(name, func(t *testing.T) {
			flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2})
			r := build(flow)
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.send(t.Context(), source, 0); err != nil {
				t.Fatal(err)
			}
			r.close()
			if err := app.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := r.has(t.Context(), want); err != nil {
				t.Error(err)
			}
			if r.keyed != nil {
				return // the simulator reorders keys beyond any slack
			}
			sim.Random(t, 20, func(s *sim.Sim) {
				r := build(s.Flow())
				s.Start()
				s.Check(r.send(s.Context(), source, 0))
				r.close()
				s.Quiesce()
				s.Check(r.has(s.Context(), want))
			})
		})
	}
}

// TestClusterCrash kills each route at every step.
func TestClusterCrash(t *testing.T) {
	var source []tick
	for i, at := range []int{1, 13} {
		for _, k := range manyKeys[:4] { // one in each partition
			source = append(source, tick{k, at, i})
		}
	}
	names := slices.Sorted(maps.Keys(routes))
	for _, name := range names[:long.Of(1, len(names))] {
		t.Run(name, func(t *testing.T) {
			runs := durabletest.Crash(t, durabletest.Program[route]{
				Build: routes[name],
				Drive: func(ctx context.Context, r route) error { return r.send(ctx, source, 0) },
				Check: func(ctx context.Context, r route) error { return r.has(ctx, closedBy(source, 11)) },
			}, durabletest.Options{Durable: durable.Options{Partitions: 4}})
			if runs < 40 {
				t.Errorf("there were only %d runs", runs)
			}
		})
	}
}

// TestClusterRandom checks that the routes close the same windows as counting, for random sources, with
// one partition, with several, and after a restart. An event overtaken by a mark would end the flow.
func TestClusterRandom(t *testing.T) {
	seeds(t, 4, func(t *testing.T, seed uint64) {
		for name, build := range routes {
			rng := rand.New(rand.NewPCG(seed, 3))
			source := inRounds(rng, 100, 52)
			cut := rng.IntN(len(source))
			if seed%2 == 0 { // three of four partitions have stamped their last mark and do not send it again
				cut = len(source) - len(manyKeys) + 3
			}
			dir := t.TempDir()
			partitions := 1 << (seed % 3)
			if build(dataflow.New()).ticks != nil {
				partitions *= 4 // some partitions have no keys
			}
			for _, until := range []int{cut, len(source)} {
				app, err := durable.Start(t.Context(), build, durable.Options{
					Log: disklog.Dir(dir), Partitions: partitions, SnapshotBytes: 1 + rng.IntN(10_000), StepBytes: 1 + rng.IntN(1000), EndOnFailure: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := app.Ports.send(t.Context(), source[:until], 0); err != nil {
					t.Fatal(err)
				}
				if until == len(source) {
					if err := app.Ports.has(t.Context(), closedBy(source, 50)); err != nil {
						t.Errorf("%s, seed %d: %v", name, seed, err)
					}
				}
				if err := app.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
