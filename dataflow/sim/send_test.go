package sim_test

import (
	"fmt"
	"maps"
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

// Client is the second location of the programs below.
type Client struct{ dataflow.Process }

type atClient[T any] = dataflow.Stream[T, Client, unbounded, ordered, once]

func client(b bench) Client { return dataflow.At[Client](b.Flow()) }

// batches returns an output of the batches of a stream at the client.
func batches(at Client, s atClient[int]) *dataflow.OutputPort[[]int] {
	list := dataflow.Fold(slice.Batch(slice.At(at), s, tried), func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) })
	return dataflow.Output(slice.Emit(singleton.IntoStream(list)), "batches")
}

// TestSendCounts checks the number of schedules of programs with two locations. A message between
// them is a record like any other, whichever location was built first.
func TestSendCounts(t *testing.T) {
	merged := func(ys ...int) program {
		return func(b bench) string {
			in, s := dataflow.Input[int](client(b), "ys")
			for _, y := range ys {
				b.Check(in.Send(b.Context(), y))
			}
			in.Close()
			there := dataflow.Send(b.stream("xs", 1, 2), client(b))
			return run(b, dataflow.Output(dataflow.MergeOrdered(there, s, tried), "merged"))
		}
	}
	tests := []struct {
		name string
		p    program
		n    int
		want []string
	}{{
		"what is sent and not observed has one schedule",
		func(b bench) string {
			return run(b, dataflow.Output(dataflow.Send(b.stream("xs", 1, 2, 3), client(b)), "out"))
		}, 1, []string{"[1 2 3]"},
	}, {
		"batches of what was sent are those of an input",
		func(b bench) string {
			return run(b, batches(client(b), dataflow.Send(b.stream("xs", 1, 2, 3), client(b))))
		},
		4, []string{"[[1 2 3]]", "[[1 2] [3]]", "[[1] [2 3]]", "[[1] [2] [3]]"},
	}, {
		"batches of the emitted batches: what the first makes of three, cut again",
		func(b bench) string {
			sums := dataflow.Map(slice.Emit(singleton.IntoStream(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3), tried)))), func(xs []int) int {
				n := 0
				for _, x := range xs {
					n = 10*n + x
				}
				return n
			})
			return run(b, batches(client(b), dataflow.Send(sums, client(b))))
		}, 1 + 2*2 + 4, []string{
			"[[123]]", "[[12 3]]", "[[12] [3]]", "[[1 23]]", "[[1 2 3]]", "[[1 2] [3]]", "[[1] [23]]", "[[1] [2 3]]", "[[1] [2] [3]]",
		},
	}, {
		"what was sent beside an input: every interleaving", merged(3, 4), 6, nil,
	}, {
		"nothing beside it", merged(), 1, []string{"[1 2]"},
	}, {
		"two streams that were sent come in any order to each other",
		func(b bench) string {
			one, two := dataflow.Send(b.stream("xs", 1, 2), client(b)), dataflow.Send(b.stream("ys", 3), client(b))
			return run(b, dataflow.Output(dataflow.MergeOrdered(one, two, tried), "merged"))
		}, 3, []string{"[1 2 3]", "[1 3 2]", "[3 1 2]"},
	}, {
		"entries of different keys have no order",
		func(b bench) string {
			there := keyedsingleton.Send(b.entries("es", 1, 2, 3), client(b))
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(there), tried), "values"))
		}, 6, nil,
	}, {
		"values of one key have",
		func(b bench) string {
			there := keyedstream.Send(b.keyed("ks", e(1, "a"), e(1, "b"), e(2, "c")), client(b))
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(there), tried), "values"))
		}, 3, []string{"[a b c]", "[a c b]", "[c a b]"},
	}}
	for _, test := range tests {
		for _, first := range []string{"server", "client"} {
			t.Run(test.name+", made first: "+first, func(t *testing.T) {
				schedule := func(s *sim.Sim) string {
					if first == "client" {
						dataflow.At[Client](s.Flow())
					}
					return test.p(bench{s, dataflow.At[Server](s.Flow())})
				}
				n, got := all(t, schedule)
				if n != test.n {
					t.Errorf("%d schedules, want %d", n, test.n)
				}
				slices.Sort(test.want)
				if test.want != nil && !slices.Equal(got, test.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
				}
				whole := make(map[string]bool)
				sim.Explore(t, func(s *sim.Sim) { whole[schedule(s)] = true }, true)
				if unreduced := slices.Sorted(maps.Keys(whole)); !slices.Equal(got, unreduced) {
					t.Errorf("got\n%s\nand without reduction\n%s", strings.Join(got, "\n"), strings.Join(unreduced, "\n"))
				}
			})
		}
	}
}

// all explores f and returns the number of schedules and the distinct results.
func all(t *testing.T, f func(s *sim.Sim) string) (n int, got []string) {
	t.Helper()
	seen := make(map[string]bool)
	n = sim.Exhaustive(t, func(s *sim.Sim) { seen[f(s)] = true })
	return n, slices.Sorted(maps.Keys(seen))
}

func wants(t *testing.T, n int, got []string, wantN int, want ...string) {
	t.Helper()
	slices.Sort(want)
	if n != wantN || !slices.Equal(got, want) {
		t.Errorf("%d schedules, want %d, and got\n%s\nwant\n%s", n, wantN, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSendRoundTrip queries another location, and merges its answers with later records. In a
// circle of locations, an answer can come between any two other records that follow its question.
func TestSendRoundTrip(t *testing.T) {
	n, got := all(t, func(s *sim.Sim) string {
		b := bench{s, dataflow.At[Server](s.Flow())}
		questions := b.stream("xs", 1, 2)
		asked := dataflow.Map(dataflow.Send(questions, client(b)), func(x int) int { return -x })
		answers := dataflow.Send(asked, b.at)
		return run(b, dataflow.Output(dataflow.MergeOrdered(questions, answers, tried), "log"))
	})
	wants(t, n, got, 2, "[1 2 -1 -2]", "[1 -1 2 -2]")
}

// TestSendBatchOfQuestionAndAnswer is TestSendRoundTrip with one slice for both: a batch may
// contain a question and its answer.
func TestSendBatchOfQuestionAndAnswer(t *testing.T) {
	n, got := all(t, func(s *sim.Sim) string {
		b := bench{s, dataflow.At[Server](s.Flow())}
		loop, asked := dataflow.Cycle[int, ordered](client(b), "asked") // so that answers are the first input
		answers := dataflow.Send(dataflow.Map(asked, func(x int) int { return -x }), b.at)
		questions := b.stream("xs", 1)
		loop.Complete(dataflow.Send(questions, client(b)))
		both := slice.Batch(slice.At(b.at), dataflow.Merge(answers, questions), tried)
		out := dataflow.Output(slice.Emit(singleton.IntoStream(dataflow.Count(both))), "sizes")
		return run(b, out)
	})
	wants(t, n, got, 2, "[2]", "[1 1]")
}

// TestSendHeldUp has a test send to the first location after it has seen something at the second.
// The first location may or may not have handled its earlier records.
func TestSendHeldUp(t *testing.T) {
	n, got := all(t, func(s *sim.Sim) string {
		b := bench{s, dataflow.At[Server](s.Flow())}
		in, xs := dataflow.Input[int](b.at, "xs")
		tick := slice.At(b.at)
		out := emit(list(slice.Batch(tick, xs, tried)))
		seen := dataflow.Output(dataflow.Send(xs, client(b)), "seen")
		s.Start()
		for x := range 2 {
			s.Check(in.Send(s.Context(), x))
		}
		_, err := seen.Next(s.Context())
		s.Check(err)
		s.Check(in.Send(s.Context(), 2))
		in.Close()
		return fmt.Sprint(sim.Collect(s, out))
	})
	wants(t, n, got, 4, "[[0 1 2]]", "[[0 1] [2]]", "[[0] [1 2]]", "[[0] [1] [2]]")
}

// TestDivideDriven divides keys among members. Every key has one value at one member, and the same
// choices give the same result in every run.
func TestDivideDriven(t *testing.T) {
	n, got := all(t, func(s *sim.Sim) string {
		b := bench{s, dataflow.At[Server](s.Flow())}
		workers := dataflow.Members[Client](s.Flow(), 2)
		var counts []*dataflow.OutputPort[dataflow.Entry[int, string]]
		for _, part := range keyedstream.Divide(b.keyed("ks", e(1, "a"), e(2, "b"), e(1, "c"), e(3, "d")), workers) {
			first := keyedstream.FoldEarlyStop(part, func() string { return "" }, func(acc *string, x string) bool { *acc += x; return x != "a" })
			counts = append(counts, dataflow.Output(keyedsingleton.Entries(first), "first"))
		}
		s.Start()
		var words []string
		for _, out := range counts {
			for _, e := range sim.Collect(s, out) {
				words = append(words, e.String())
			}
		}
		slices.Sort(words)
		return fmt.Sprint(words)
	})
	if n < 1 || !slices.Equal(got, []string{"[1:ac 2:b 3:d]"}) {
		t.Errorf("%d schedules, got %v", n, got)
	}
}

// TestSendRerun records a run of two locations in a circle and runs it again.
func TestSendRerun(t *testing.T) {
	build := func(flow *dataflow.Flow) (in, in2 *dataflow.InputPort[int], out *dataflow.OutputPort[[]int]) {
		one, two := dataflow.At[Server](flow), dataflow.At[Client](flow)
		in, xs := dataflow.Input[int](one, "xs")
		in2, ys := dataflow.Input[int](two, "ys")
		there := dataflow.MergeOrdered(dataflow.Send(xs, two), ys, tried)
		back := dataflow.Send(dataflow.Map(there, func(x int) int { return -x }), one)
		list := dataflow.Fold(slice.Batch(slice.At(one), dataflow.MergeOrdered(back, xs, tried), tried),
			func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) })
		return in, in2, dataflow.Output(slice.Emit(singleton.IntoStream(list)), "out")
	}
	var recording dataflow.Recording
	flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording, Queue: 8})
	in, in2, out := build(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for i, port := range []*dataflow.InputPort[int]{in, in2} {
		go func() {
			defer port.Close()
			for x := range 300 {
				if err := port.Send(t.Context(), 1000*(i+1)+x); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	want := fmt.Sprint(slices.Collect(out.All(t.Context())))
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	sim.Rerun(t, &recording, func(s *sim.Sim) {
		_, _, out := build(s.Flow())
		s.Start()
		if got := fmt.Sprint(sim.Collect(s, out)); got != want {
			s.Errorf("run again it gives\n%s\nand gave\n%s", got, want)
		}
	})
}
