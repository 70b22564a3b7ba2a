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

type shared[T any] = dataflow.Stream[T, Server, unbounded, dataflow.NoOrder, once]

func sendAll[T any](b bench, in *dataflow.SharedInputPort[T], xs []T) {
	for _, x := range xs {
		b.Check(in.Send(b.Context(), x))
	}
	in.Close()
}

func sharedBy[T any](b bench, xs ...T) shared[T] {
	in, s := dataflow.SharedInput[T](b.at, "xs")
	sendAll(b, in, xs)
	return s
}

// TestInputs counts the schedules of inputs by their guarantees: which records are ordered, and which may be repeated.
func TestInputs(t *testing.T) {
	inOrder := func(xs ...int) program {
		return func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(sharedBy(b, xs...), tried), "out"))
		}
	}
	keyedIn := func(inBatch bool, xs ...kv) program {
		return func(b bench) string {
			in, s := keyedstream.SharedInput[int, string](b.at, "xs")
			var ks []int
			var vs []string
			for _, x := range xs {
				ks, vs = append(ks, x.Key), append(vs, x.Value)
				if !inBatch {
					b.Check(in.Send(b.Context(), x.Key, x.Value))
				}
			}
			if inBatch {
				n, err := in.SendBatch(b.Context(), ks, vs)
				if b.Check(err); n != len(xs) {
					b.Errorf("%d were accepted", n)
				}
			}
			in.Close()
			lists := keyedstream.Fold(keyedstream.AssumeOrder(s, tried), func() string { return "" }, func(l *string, v string) { *l += v })
			out := singleton.Output(keyedsingleton.IntoSingleton(lists), "lists")
			b.Start()
			b.Quiesce()
			return fmt.Sprint(out.Latest())
		}
	}
	keyedBy := func(xs ...kv) program { return keyedIn(false, xs...) }
	retried := func(build func(b bench, s dataflow.Stream[int, Server, unbounded, dataflow.NoOrder, dataflow.AtLeastOnce]) string) program {
		return func(b bench) string {
			in, s := dataflow.RetriedInput[int](b.at, "xs")
			sendAll(b, in, []int{1, 2})
			return build(b, s)
		}
	}
	tests := []struct {
		name string
		p    program
		n    int
		want []string // nil where only the count is asserted
	}{
		{"shared, three different, behind AssumeOrder", inOrder(1, 2, 3), 6,
			[]string{"[1 2 3]", "[1 3 2]", "[2 1 3]", "[2 3 1]", "[3 1 2]", "[3 2 1]"}},
		{"shared, two of three equal, behind AssumeOrder", inOrder(1, 2, 1), 3, []string{"[1 1 2]", "[1 2 1]", "[2 1 1]"}},
		{"shared, three equal, behind AssumeOrder", inOrder(7, 7, 7), 1, []string{"[7 7 7]"}},
		{"shared, three different, no reason", func(b bench) string {
			return run(b, dataflow.Output(sharedBy(b, 1, 2, 3), "out"))
		}, 1, nil},
		{"shared, counted", func(b bench) string {
			out := singleton.Output(dataflow.Count(sharedBy(b, 1, 2, 3)), "count")
			b.Start()
			b.Quiesce()
			return fmt.Sprint(out.Latest())
		}, 1, nil},
		{"shared, in a batch", func(b bench) string {
			sums := dataflow.Sum(slice.Batch(slice.At(b.at), sharedBy(b, 1, 2, 4), tried))
			return run(b, emit(sums))
		}, 13, []string{"[1 2 4]", "[1 4 2]", "[1 6]", "[2 1 4]", "[2 4 1]", "[2 5]", "[3 4]", "[4 1 2]", "[4 2 1]", "[4 3]", "[5 2]", "[6 1]", "[7]"}},
		{"shared, functions are never known to be equal", func(b bench) string {
			got := ""
			says := func(word string) func() { return func() { got += word } }
			calls := dataflow.AssumeOrder(sharedBy(b, says("a"), says("b")), tried)
			dataflow.ForEach(calls, func(f func()) { f() })
			b.Start()
			b.Quiesce()
			b.Observe(got)
			return got
		}, 2, []string{"ab", "ba"}},

		{"shared by key, one key", keyedBy(e(1, "a"), e(1, "b"), e(1, "c")), 6, nil},
		{"shared by key, two keys", keyedBy(e(1, "a"), e(1, "b"), e(2, "c"), e(2, "d")), 4,
			[]string{"{1:ab 2:cd} true", "{1:ab 2:dc} true", "{1:ba 2:cd} true", "{1:ba 2:dc} true"}},
		{"shared by key, two keys, in a batch", keyedIn(true, e(1, "a"), e(1, "b"), e(2, "c"), e(2, "d")), 4,
			[]string{"{1:ab 2:cd} true", "{1:ab 2:dc} true", "{1:ba 2:cd} true", "{1:ba 2:dc} true"}},
		{"one sender for each key, in a batch, behind AssumeOrder", func(b bench) string {
			in, s := keyedstream.Input[string, string](b.at, "xs")
			n, err := in.SendBatch(b.Context(), []string{"a", "b", "a"}, []string{"a1", "b1", "a2"})
			if b.Check(err); n != 3 {
				b.Errorf("%d were accepted", n)
			}
			in.Close()
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(s), tried), "out"))
		}, 3, []string{"[a1 a2 b1]", "[a1 b1 a2]", "[b1 a1 a2]"}},
		{"entries, in a batch, behind AssumeOrder", func(b bench) string {
			in, s := keyedsingleton.Input[string, int](b.at, "xs")
			errs, err := in.PutBatch(b.Context(), []string{"a", "b", "a"}, []int{1, 2, 3})
			b.Check(err)
			if !slices.Equal(errs, []error{nil, nil, dataflow.ErrDuplicateKey}) {
				b.Errorf("the outcomes are %v", errs)
			}
			in.Close()
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(keyedsingleton.IntoKeyedStream(s)), tried), "out"))
		}, 2, []string{"[1 2]", "[2 1]"}},
		{"shared by key, equal values of two keys", keyedBy(e(1, "a"), e(2, "a")), 1, nil},

		{"two senders, two records each, behind AssumeOrder", func(b bench) string {
			in, s := dataflow.SenderInput[string, string](b.at, "xs")
			for _, id := range []string{"a", "b"} {
				n, err := in.Sender(id).SendBatch(b.Context(), []string{id + "1", id + "2"})
				if b.Check(err); n != 2 {
					b.Errorf("%d were accepted", n)
				}
			}
			in.Close()
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(s), tried), "out"))
		}, 6, []string{"[a1 a2 b1 b2]", "[a1 b1 a2 b2]", "[a1 b1 b2 a2]", "[b1 a1 a2 b2]", "[b1 a1 b2 a2]", "[b1 b2 a1 a2]"}},

		// Two records are distinct even if the key of one is the value of the other.
		{"shared by key, key and value change places", func(b bench) string {
			in, s := keyedstream.SharedInput[int, int](b.at, "xs")
			for _, k := range []int{1, 2, 3} {
				b.Check(in.Send(b.Context(), k, 4-k))
			}
			in.Close()
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(s), tried), "out"))
		}, 6, []string{"[1 2 3]", "[1 3 2]", "[2 1 3]", "[2 3 1]", "[3 1 2]", "[3 2 1]"}},

		// There are one or two batches. The inspecting function receives their elements without order.
		{"shared, two different in batches, inspected", func(b bench) string {
			dataflow.Inspect(slice.Batch(slice.At(b.at), sharedBy(b, 1, 2), tried), func(int) {})
			b.Start()
			b.Quiesce()
			return ""
		}, 3, nil},

		// Without a repeat there are 2 orders. If one record is repeated, its 3 records have 3 orders, for either record.
		{"retried, behind both reasons", retried(func(b bench, s dataflow.Stream[int, Server, unbounded, dataflow.NoOrder, dataflow.AtLeastOnce]) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(dataflow.AssumeOnce(s, tried), tried), "out"))
		}), 8, []string{"[1 1 2]", "[1 2 1]", "[1 2 2]", "[1 2]", "[2 1 1]", "[2 1 2]", "[2 1]", "[2 2 1]"}},
		{"retried, and shown", retried(func(b bench, s dataflow.Stream[int, Server, unbounded, dataflow.NoOrder, dataflow.AtLeastOnce]) string {
			return run(b, dataflow.Output(s, "out"))
		}), 1, []string{"[1 1 2]", "[1 2 2]", "[1 2]"}},
		{"retried, nobody can see it", retried(func(b bench, s dataflow.Stream[int, Server, unbounded, dataflow.NoOrder, dataflow.AtLeastOnce]) string {
			out := singleton.Output(dataflow.Count(dataflow.Unique(s)), "count")
			b.Start()
			b.Quiesce()
			return fmt.Sprint(out.Latest())
		}), 1, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, got := outcomes(t, test.p)
			if n != test.n {
				t.Errorf("%d schedules, want %d", n, test.n)
			}
			if test.want != nil && !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			unreduced, _ := sim.Explore(t, func(s *sim.Sim) { test.p(bench{s, dataflow.At[Server](s.Flow())}) }, true)
			if unreduced != n {
				t.Errorf("%d schedules without reduction", unreduced)
			}
		})
	}
}

// another is a location that receives the records of the first.
type another struct{ dataflow.Process }

// TestRepeatsFindAssumeOnce checks that a counter behind a false AssumeOnce counts too much, and that
// the simulator finds the schedule, wherever the AssumeOnce is.
func TestRepeatsFindAssumeOnce(t *testing.T) {
	programs := map[string]func(s *sim.Sim) (send func(x int), latest func() (int, bool)){
		"stream": func(s *sim.Sim) (func(int), func() (int, bool)) {
			in, xs := dataflow.RetriedInput[int](dataflow.At[Server](s.Flow()), "xs")
			out := singleton.Output(dataflow.Count(dataflow.AssumeOnce(xs, "it is not true")), "count")
			return func(x int) { s.Check(in.Send(s.Context(), x)) }, out.Latest
		},
		"keyed": func(s *sim.Sim) (func(int), func() (int, bool)) {
			in, xs := keyedstream.RetriedInput[int, int](dataflow.At[Server](s.Flow()), "xs")
			out := singleton.Output(dataflow.Count(keyedstream.Values(keyedstream.AssumeOnce(xs, "it is not true"))), "count")
			return func(x int) { s.Check(in.Send(s.Context(), x%2, x)) }, out.Latest
		},
		"at another location": func(s *sim.Sim) (func(int), func() (int, bool)) {
			in, xs := dataflow.RetriedInput[int](dataflow.At[Server](s.Flow()), "xs")
			there := dataflow.Send(xs, dataflow.At[another](s.Flow()))
			out := singleton.Output(dataflow.Count(dataflow.AssumeOnce(there, "it is not true")), "count")
			return func(x int) { s.Check(in.Send(s.Context(), x)) }, out.Latest
		},
	}
	for name, build := range programs {
		t.Run(name, func(t *testing.T) {
			counts := make(map[int]bool)
			f := func(s *sim.Sim) {
				send, latest := build(s)
				s.Start()
				send(1)
				send(2)
				send(3)
				s.Quiesce()
				n, _ := latest()
				counts[n] = true
			}
			sim.Exhaustive(t, f)
			if want := []int{3, 4}; !slices.Equal(slices.Sorted(maps.Keys(counts)), want) {
				t.Errorf("exhaustive: counted %v, want %v", slices.Sorted(maps.Keys(counts)), want)
			}
			clear(counts)
			sim.Random(t, 200, f)
			if want := []int{3, 4, 5, 6}; !slices.Equal(slices.Sorted(maps.Keys(counts)), want) {
				t.Errorf("random: counted %v, want %v", slices.Sorted(maps.Keys(counts)), want)
			}
			// The failed schedule is printed and can be run again.
			check := func(s *sim.Sim) {
				send, latest := build(s)
				s.Start()
				send(1)
				send(2)
				s.Quiesce()
				if n, _ := latest(); n != 2 {
					s.Errorf("counted %d", n)
				}
			}
			if story, _ := sim.Fails(t, check); !strings.Contains(story, "counted 3") || !strings.Contains(story, "it will come again from") {
				t.Errorf("exhaustive: %s", story)
			}
			if story, trace := sim.FailsAtRandom(t, 200, check); !strings.Contains(story, "counted 5") {
				t.Errorf("random: the schedule %s: %s", trace, story)
			}
		})
	}
}
