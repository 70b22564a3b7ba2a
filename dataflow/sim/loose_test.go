package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestLoose checks the number of schedules of programs that give up the order of one input, with and without the
// reduction and with several workers. It catches an order that the types do not promise but the simulator keeps, and one
// that a type promises but the simulator does not keep.
func TestLoose(t *testing.T) {
	order := func(n int) program {
		return func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(dataflow.WeakenOrder(b.stream("xs", upTo(n)...)), tried), "out"))
		}
	}
	batches := func(n int) program {
		return func(b bench) string {
			fresh := slice.Batch(slice.At(b.at), dataflow.WeakenOrder(b.stream("xs", upTo(n)...)), tried)
			return run(b, dataflow.Output(slice.Emit(dataflow.Sort(fresh)), "out"), emit(dataflow.Count(fresh)))
		}
	}
	ordered := func(n int) program {
		return func(b bench) string {
			fresh := slice.Batch(slice.At(b.at), dataflow.WeakenOrder(b.stream("xs", upTo(n)...)), tried)
			return run(b, emit(list(dataflow.AssumeOrder(fresh, tried))))
		}
	}
	byKey := func(b bench) dataflow.KeyedStream[int, int, Server, unbounded, dataflow.TotalOrder, once] {
		return dataflow.KeyBy(b.stream("xs", 1, 3, 2), func(x int) int { return x % 2 })
	}
	tests := []struct {
		name string
		p    program
		n    int
	}{
		{"order of 3", order(3), 6},
		{"order of 4", order(4), 24},
		{"batches of 3", batches(3), 13},
		{"batches of 4", batches(4), 75},
		{"order in batches of 3", ordered(3), 24},
		{"order in batches of 4", ordered(4), 192},
		{"behind an operator that observes order", func(b bench) string {
			numbered := dataflow.Enumerate(b.stream("xs", 7, 8, 9))
			return run(b, dataflow.Output(dataflow.AssumeOrder(dataflow.WeakenOrder(numbered), tried), "out"))
		}, 6},
		{"values of two keys", func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(byKey(b)), tried), "out"))
		}, 3},
		{"entries of two keys", func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Entries(byKey(b)), tried), "out"))
		}, 3},
		{"keys of three values", func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Keys(byKey(b)), tried), "out"))
		}, 2},
		{"keys of entries", func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Keys(keyedstream.First(byKey(b))), tried), "out"))
		}, 2},
		{"values without order", func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(keyedstream.WeakenOrder(byKey(b))), tried), "out"))
		}, 6},
		{"values of a key without order", func(b bench) string {
			return run(b, keyedOut(keyedstream.WeakenOrder(b.keyed("ks", e(0, "a"), e(0, "b"), e(0, "c")))))
		}, 6},
		{"values of two keys without order", func(b bench) string {
			return run(b, keyedOut(keyedstream.WeakenOrder(b.keyed("ks", e(0, "a"), e(1, "b"), e(0, "c"), e(1, "d")))))
		}, 4},
		{"pairs of a join", func(b bench) string {
			return run(b, keyedOut(keyedstream.Join(b.keyed("ks", e(0, "a"), e(0, "b"), e(0, "c")), b.keyed("ls", e(0, "x")))))
		}, 6},
		{"answers of three calls", func(b bench) string {
			doubled := keyedsingleton.MapAsync(b.entries("xs", upTo(3)...), func(_ context.Context, x int) int { return 2 * x }, keyedsingleton.AsyncOptions{})
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(doubled), tried), "out"))
		}, 6},
		{"an order that was seen before", func(b bench) string {
			_, xs := dataflow.SharedInput[int](b.at, "none")
			port, s := dataflow.SharedInput[int](b.at, "xs")
			for _, x := range upTo(3) {
				b.Check(port.Send(b.Context(), x))
			}
			seen := dataflow.AssumeOrder(dataflow.Merge(xs, s), tried)
			return run(b, dataflow.Output(dataflow.AssumeOrder(dataflow.WeakenOrder(dataflow.Enumerate(seen)), tried), "out"))
		}, 36},
		{"an output of a stream without order", func(b bench) string {
			out := dataflow.Output(dataflow.WeakenOrder(b.stream("xs", upTo(3)...)), "out")
			b.Start()
			return fmt.Sprint(nextOf(b, out), nextOf(b, out), nextOf(b, out))
		}, 6},
		{"nobody sees the order", func(b bench) string {
			n := singleton.Output(dataflow.Count(dataflow.WeakenOrder(b.stream("xs", 1, 2, 3))), "n")
			b.Start()
			b.Quiesce()
			x, _ := n.Latest()
			return fmt.Sprint(x)
		}, 1},
		{"what is seen elsewhere keeps its order", func(b bench) string {
			xs := b.stream("xs", 1, 2)
			tick := slice.At(b.at)
			pairs := dataflow.CrossSingleton(slice.Batch(tick, dataflow.WeakenOrder(xs), tried), slice.Snapshot(tick, sum(xs), tried))
			return run(b, dataflow.Output(slice.Emit(dataflow.AssumeOrder(pairs, tried)), "out"))
		}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, all := at(t, sim.Types, test.p)
			if n != test.n {
				t.Errorf("%d schedules, want %d: %q", n, test.n, all)
			}
			once := func(s *sim.Sim) { test.p(bench{s, dataflow.At[Server](s.Flow())}) }
			one := sim.ExploreAs(t, sim.Exploring{}, once)
			for _, workers := range []int{2, 8} {
				if got := sim.ExploreAs(t, sim.Exploring{Workers: workers}, once); got != one {
					t.Errorf("%+v with %d workers, %+v with one", got, workers, one)
				}
			}
			if test.n <= 36 {
				if whole := sim.ExploreAs(t, sim.Exploring{Whole: true, Limit: 20_000}, once); !whole.Complete || whole.Schedules != test.n {
					t.Errorf("%+v without the reduction, want %d schedules", whole, test.n)
				}
			}
			_, few := at(t, sim.Engine, test.p)
			for _, x := range few {
				if !slices.Contains(all, x) {
					t.Errorf("%s is seen at Engine only", x)
				}
			}
		})
	}
}

// nextOf returns the next element of an output.
func nextOf(b bench, out *dataflow.OutputPort[int]) int {
	x, err := out.Next(b.Context())
	b.Check(err)
	b.Observe(x)
	return x
}

// upTo returns the numbers from 1 to n.
func upTo(n int) (all []int) {
	for x := range n {
		all = append(all, x+1)
	}
	return all
}

// keyedOut returns an output of the first value of each key. The simulator tries all orders of the values.
func keyedOut[V any](ks dataflow.KeyedStream[int, V, Server, unbounded, dataflow.NoOrder, once]) *dataflow.OutputPort[dataflow.Entry[int, V]] {
	return dataflow.Output(keyedsingleton.Entries(keyedstream.First(keyedstream.AssumeOrder(ks, tried))), "first")
}

// TestLooseKeys checks that elements of different keys are not permuted against each other if the operators that follow
// work per key. Two elements of each of two keys have 2!·2! orders, found in as many executions. It catches a simulator
// that queues the elements of all keys together.
func TestLooseKeys(t *testing.T) {
	found := sim.ExploreAs(t, sim.Exploring{}, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		byKey := dataflow.KeyBy(dataflow.WeakenOrder(b.stream("xs", upTo(4)...)), func(x int) int { return x % 2 })
		out := keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(byKey, tried)), "first")
		s.Start()
		s.Quiesce()
		s.Observe(out.Len())
	})
	if found.Schedules != 4 || found.Executions != 4 {
		t.Errorf("%+v, want 4 schedules in 4 executions", found)
	}
}

// TestLooseClaim checks that behind WeakenOrder the simulator finds a step whose order matters only after 3 came first,
// although 3 is sent last. It catches a claim that is checked in the order of the input only.
func TestLooseClaim(t *testing.T) {
	once3 := func(acc *int, x int) {
		if *acc == 3 && x == 2 {
			x = 100
		}
		*acc += x
	}
	p := func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		dataflow.FoldCommutative(dataflow.WeakenOrder(b.stream("xs", upTo(3)...)), zero, once3, "a sum forgets the order")
		s.Start()
		s.Quiesce()
	}
	sim.ExploreAt(t, sim.Engine, p, false)
	if story, _ := sim.Fails(t, p); !strings.Contains(story, "FoldCommutative") || !strings.Contains(story, "a sum forgets the order") {
		t.Errorf("the claim is not found: %s", story)
	}
}

// TestLooseContinue checks that after a recorded run only later elements are permuted. It catches recorded elements that
// wait although none waited in the recorded engine.
func TestLooseContinue(t *testing.T) {
	build := func(flow *dataflow.Flow) (*dataflow.InputPort[int], *dataflow.OutputPort[int]) {
		in, xs := dataflow.Input[int](dataflow.At[Server](flow), "xs")
		return in, dataflow.Output(dataflow.AssumeOrder(dataflow.WeakenOrder(xs), tried), "out")
	}
	recording := new(dataflow.Recording)
	flow := dataflow.NewWithOptions(dataflow.Options{Record: recording})
	in, out := build(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []int{1, 2} {
		if err := in.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	n := sim.Continue(t, recording, func(s *sim.Sim) {
		in, out := build(s.Flow())
		s.Start()
		s.Check(in.Send(s.Context(), 3))
		s.Check(in.Send(s.Context(), 4))
		got = append(got, fmt.Sprint(sim.Collect(s, out)))
	})
	slices.Sort(got)
	if n != 2 || fmt.Sprint(slices.Compact(got)) != "[[1 2 3 4] [1 2 4 3]]" {
		t.Errorf("%d schedules: %v", n, got)
	}
}

// TestLooseReplay checks that a failure can be repeated from its choices. It catches a simulator that lets elements wait
// only where it already knows that an output is read.
func TestLooseReplay(t *testing.T) {
	p := func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		out := dataflow.Output(dataflow.WeakenOrder(b.stream("xs", upTo(3)...)), "out")
		s.Start()
		if got := fmt.Sprint(nextOf(b, out), nextOf(b, out), nextOf(b, out)); got == "3 1 2" {
			s.Errorf("it is %s", got)
		}
	}
	if story, trace := sim.Fails(t, p); !strings.Contains(story, "it is 3 1 2") { // Fails runs the schedule again
		t.Errorf("the schedule %q gives %q", trace, story)
	}
}
