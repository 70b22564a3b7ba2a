package sim_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestIndependent checks that independent requests make one schedule and one execution, whatever their number.
func TestIndependent(t *testing.T) {
	for _, n := range []int{1, 10, 300} {
		schedules, executions := sim.Explore(t, func(s *sim.Sim) {
			in, requests := keyedsingleton.Input[int, int](dataflow.At[Server](s.Flow()), "requests")
			answers := keyedsingleton.Output(keyedsingleton.Map(requests, func(x int) int { return 2 * x }), "answers")
			s.Start()
			for i := range n {
				s.Check(in.Put(s.Context(), i, i))
			}
			s.Quiesce()
			for i := range n {
				if got, ok := answers.Get(i); !ok || got != 2*i {
					s.Errorf("%d: %d, %v", i, got, ok)
				}
			}
		}, false)
		if schedules != 1 || executions != 1 {
			t.Errorf("%d requests: %d schedules in %d executions", n, schedules, executions)
		}
	}
}

// Away is another location.
type Away struct{ dataflow.Process }

// features are small programs that share the inputs of a bench. Each returns two functions: look returns
// what the program shows while others still run, end what it shows at the end. Either may be nil.
var features = []struct {
	name string
	make func(b bench, in sharedInputs) (look, end func() string)
}{
	{"batch", func(b bench, in sharedInputs) (look, end func() string) {
		out := emit(list(slice.Batch(slice.At(b.at), in.ordered, tried)))
		return nil, func() string { return fmt.Sprint(sim.Collect(b.Sim, out)) }
	}},
	{"two inputs in a batch, in order", func(b bench, in sharedInputs) (look, end func() string) {
		keys := keyedsingleton.Keys(in.entries)
		both := dataflow.AssumeOrder(dataflow.Merge(dataflow.WeakenOrder(in.ordered), keys), tried)
		out := emit(list(slice.Batch(slice.At(b.at), both, tried)))
		return nil, func() string { return fmt.Sprint(sim.Collect(b.Sim, out)) }
	}},
	{"count", func(b bench, in sharedInputs) (look, end func() string) {
		n := singleton.Output(keyedsingleton.KeyCount(in.entries), "count")
		return func() string { x, _ := n.Latest(); return fmt.Sprint(x) }, nil
	}},
	{"entry", func(b bench, in sharedInputs) (look, end func() string) {
		out := keyedsingleton.Output(keyedsingleton.Map(in.entries, func(x int) int { return x + 1 }), "mapped")
		return func() string { x, ok := out.Get(1); return fmt.Sprint(x, ok) }, nil
	}},
	{"calls", func(b bench, in sharedInputs) (look, end func() string) {
		var made []int
		out := keyedsingleton.Output(keyedsingleton.MapAsync(in.entries, func(_ context.Context, x int) int {
			made = append(made, x)
			return len(made)
		}, keyedsingleton.AsyncOptions{}), "called")
		return nil, func() string { a, _ := out.Get(0); b, _ := out.Get(1); return fmt.Sprint(a, b) }
	}},
	{"snapshot", func(b bench, in sharedInputs) (look, end func() string) {
		tick := slice.At(b.at)
		now := slice.Snapshot(tick, sum(in.ordered), tried)
		out := dataflow.Output(slice.Emit(dataflow.CrossSingleton(keyedsingleton.Keys(slice.BatchEntries(tick, in.entries, tried)), now)), "crossed")
		return nil, func() string { return inOrderOf(sim.Collect(b.Sim, out)) }
	}},
	{"away", func(b bench, in sharedInputs) (look, end func() string) {
		away := dataflow.At[Away](b.Flow())
		moved := dataflow.Send(dataflow.Merge(dataflow.WeakenOrder(in.ordered), keyedsingleton.Keys(in.entries)), away)
		out := dataflow.Output(dataflow.AssumeOrder(moved, tried), "moved")
		return nil, func() string { return fmt.Sprint(sim.Collect(b.Sim, out)) }
	}},
	{"timers", func(b bench, in sharedInputs) (look, end func() string) {
		late := keyedsingleton.Keys(keyedsingleton.After(in.entries, time.Second, tried))
		out := dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(late, dataflow.WeakenOrder(in.ordered)), tried), "late")
		return nil, func() string { return fmt.Sprint(sim.Collect(b.Sim, out)) }
	}},
	{"folds by key", func(b bench, in sharedInputs) (look, end func() string) {
		words := keyedstream.Fold(dataflow.KeyBy(in.ordered, func(x int) int { return x % 2 }), func() string { return "" },
			func(acc *string, x int) { *acc += fmt.Sprint(x) })
		out := emit(set(slice.SnapshotEntries(slice.At(b.at), words, tried)))
		return nil, func() string { return fmt.Sprint(sim.Collect(b.Sim, out)) }
	}},
}

func inOrderOf[T any](xs []T) string {
	var all []string
	for _, x := range xs {
		all = append(all, fmt.Sprint(x))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

type sharedInputs struct {
	ordered stream[int]
	entries entries[int, int]
}

// TestReducedIsWhole compares what pairs of programs show with the reduction and without it. Pairs
// with too many schedules are compared with random schedules.
func TestReducedIsWhole(t *testing.T) {
	saved := 0
	for i, one := range features {
		for j, other := range features[i:] {
			if !long.Searches() && (i+j)%5 > 0 {
				continue
			}
			const (
				reducing = iota
				whole
				random
			)
			explored := func(how int) (all map[string]int, executions int) {
				all = make(map[string]int)
				f := func(s *sim.Sim) {
					b := bench{s, dataflow.At[Server](s.Flow())}
					xs, ordered := dataflow.Input[int](b.at, "ordered")
					es, entered := keyedsingleton.Input[int, int](b.at, "entries")
					in := sharedInputs{ordered, entered}
					look, end := one.make(b, in)
					var looks, ends []func() string
					looks, ends = append(looks, look), append(ends, end)
					if other.name != one.name {
						look, end = other.make(b, in)
						looks, ends = append(looks, look), append(ends, end)
					}
					b.Start()
					b.Check(es.Put(b.Context(), 0, 10))
					b.Check(xs.Send(b.Context(), 1))
					got := ""
					see := func(all []func() string) {
						for _, f := range all {
							if f != nil {
								got += f() + "; "
							}
						}
					}
					see(looks)
					b.Check(es.Put(b.Context(), 1, 20))
					see(looks)
					b.Quiesce()
					see(ends)
					b.Observe(got)
					all[got]++
				}
				if how == random {
					sim.Random(t, 1000, f)
					return all, 1000
				}
				_, executions = sim.Explore(t, f, how == whole)
				return all, executions
			}
			reduced, few := explored(reducing)
			how := whole
			if one.name == "calls" || other.name == "calls" {
				how = random
			}
			all, many := explored(how)
			for got := range all {
				if reduced[got] == 0 {
					t.Errorf("%s, %s: %q is seen in %d of %d executions without the reduction, and in none of %d with it", one.name, other.name, got, all[got], many, few)
				}
			}
			for got := range reduced {
				if all[got] == 0 && how == whole {
					t.Errorf("%s, %s: %q is seen with the reduction only", one.name, other.name, got)
				}
			}
			saved += max(many-few, 0)
			t.Logf("%s, %s: %d outcomes in %d executions, %d without the reduction", one.name, other.name, len(reduced), few, many)
		}
	}
	if saved < long.Of(100, 1000) {
		t.Errorf("the reduction saves %d executions", saved)
	}
}

// TestDisabled checks that a record that stops a timer comes before or after its firing, although
// the timer never fires after the record.
func TestDisabled(t *testing.T) {
	const alarm keyedstream.Timer = 0
	type turn = keyedstream.TimedTurn[string, string, bool]
	n, got := outcomes(t, func(b bench) string {
		in, words := keyedstream.Input[string, string](b.at, "words")
		says, _ := keyedstream.TimedMachine(words, func() int { return 0 },
			func(_ *int, word string, do *turn) {
				if word == "set" {
					do.After(alarm, time.Second)
					return
				}
				do.Stop(alarm)
			},
			func(_ *int, _ keyedstream.Timer, do *turn) { do.Emit("rings") }, tried)
		out := dataflow.Output(keyedstream.Values(says), "out")
		b.Start()
		b.Check(in.Send(b.Context(), "a", "set"))
		b.Check(in.Send(b.Context(), "a", "stop"))
		got := fmt.Sprint(sim.Collect(b.Sim, out))
		b.Observe(got)
		return got
	})
	if n != 2 || !slices.Equal(got, []string{"[]", "[rings]"}) {
		t.Errorf("%d schedules: %q", n, got)
	}
}

// TestSentWithoutOrder checks that unordered elements reach another location in any order, even if
// one step sends all of them.
func TestSentWithoutOrder(t *testing.T) {
	for _, test := range []struct {
		send func(s stream[int], to Away) dataflow.Stream[int, Away, unbounded, dataflow.NoOrder, once]
		want []string
	}{
		{func(s stream[int], to Away) dataflow.Stream[int, Away, unbounded, dataflow.NoOrder, once] {
			return dataflow.Send(dataflow.WeakenOrder(s), to)
		}, []string{"[1 2]", "[2 1]"}},
		{func(s stream[int], to Away) dataflow.Stream[int, Away, unbounded, dataflow.NoOrder, once] {
			return dataflow.WeakenOrder(dataflow.Send(s, to))
		}, []string{"[1 2]", "[2 1]"}},
		{func(s stream[int], to Away) dataflow.Stream[int, Away, unbounded, dataflow.NoOrder, once] {
			one := keyedstream.WeakenOrder(dataflow.KeyBy(s, func(int) int { return 0 }))
			return keyedstream.Values(keyedstream.Send(one, to))
		}, []string{"[1 2]", "[2 1]"}},
	} {
		_, got := outcomes(t, func(b bench) string {
			both := dataflow.FlatMap(b.stream("xs", 1), func(x int, emit func(int)) { emit(x); emit(x + 1) })
			return run(b, dataflow.Output(dataflow.AssumeOrder(test.send(both, dataflow.At[Away](b.Flow())), tried), "out"))
		})
		if !slices.Equal(got, test.want) {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
