package sim_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type Server struct{ dataflow.Process }

// Short names for the markers, so that a type fits on a line.
type (
	bounded   = bounds.Bounded
	unbounded = bounds.Unbounded
	ordered   = dataflow.TotalOrder
	once      = dataflow.ExactlyOnce
	inside    = dataflow.Tick[Server]

	stream[T any]                      = dataflow.Stream[T, Server, unbounded, ordered, once]
	batch[T any]                       = dataflow.Stream[T, inside, bounded, ordered, once]
	entries[K comparable, V any]       = dataflow.KeyedSingleton[K, V, Server, bounds.BoundedValue]
	keyed[K comparable, V any]         = dataflow.KeyedStream[K, V, Server, unbounded, ordered, once]
	entriesInside[K comparable, V any] = dataflow.KeyedSingleton[K, V, inside, bounded]
)

const tried = "the simulator tries all of them"

// A bench is one schedule, with helpers for the programs below.
type bench struct {
	*sim.Sim
	at Server
}

func (b bench) stream(name string, xs ...int) stream[int] {
	in, s := dataflow.Input[int](b.at, name)
	for _, x := range xs {
		b.Check(in.Send(b.Context(), x))
	}
	in.Close()
	return s
}

// entries sends entries, which have no order between them, and returns them.
func (b bench) entries(name string, xs ...int) entries[int, int] {
	in, s := keyedsingleton.Input[int, int](b.at, name)
	for i, x := range xs {
		b.Check(in.Put(b.Context(), i, x))
	}
	in.Close()
	return s
}

type kv = dataflow.Entry[int, string]

func e(k int, v string) kv { return kv{Key: k, Value: v} }

func (b bench) keyed(name string, xs ...kv) keyed[int, string] {
	in, s := keyedstream.Input[int, string](b.at, name)
	for _, x := range xs {
		b.Check(in.Send(b.Context(), x.Key, x.Value))
	}
	in.Close()
	return s
}

func sum(s stream[int]) dataflow.Singleton[int, Server, unbounded] {
	return dataflow.Fold(s, func() int { return 0 }, func(acc *int, x int) { *acc += x })
}

func list[T any](s batch[T]) dataflow.Singleton[[]T, inside, bounded] {
	return dataflow.Fold(s, func() []T { return nil }, func(acc *[]T, x T) { *acc = append(*acc, x) })
}

// emit returns an output of the values that a singleton has in each run of its slice.
func emit[T any](x dataflow.Singleton[T, inside, bounded]) *dataflow.OutputPort[T] {
	return dataflow.Output(slice.Emit(singleton.IntoStream(x)), "emitted")
}

// set returns the entries of a keyed singleton in a slice, printed in order of keys.
func set[K comparable, V any](ks entriesInside[K, V]) dataflow.Singleton[string, inside, bounded] {
	return singleton.Map(keyedsingleton.IntoSingleton(ks), dataflow.View[K, V].String)
}

// An uncopied is a state that cannot be copied, so claims about it are not checked.
type uncopied struct {
	words string
	no    func()
}

// A program builds a flow, runs it to its end, and returns what its outputs gave.
type program func(b bench) string

// run runs the flow and returns what the outputs gave.
func run[T any](b bench, outs ...*dataflow.OutputPort[T]) string {
	b.Start()
	var words []string
	for _, out := range outs {
		words = append(words, fmt.Sprint(sim.Collect(b.Sim, out)))
	}
	return strings.Join(words, " ")
}

// outcomes explores a program and returns the number of schedules and the distinct results.
func outcomes(t *testing.T, p program) (n int, got []string) {
	t.Helper()
	all := make(map[string]bool)
	n = sim.Exhaustive(t, func(s *sim.Sim) { all[p(bench{s, dataflow.At[Server](s.Flow())})] = true })
	return n, slices.Sorted(maps.Keys(all))
}

// A countsTest is a program with its number of schedules.
type countsTest struct {
	name string
	p    program
	n    int
	want []string // nil where only the count is asserted
}

// TestCounts checks the number of schedules of programs that are small enough to count by hand and,
// for some, all possible results.
func TestCounts(t *testing.T) {
	for _, test := range countsTests() {
		t.Run(test.name, func(t *testing.T) {
			n, got := outcomes(t, test.p)
			if n != test.n {
				t.Errorf("%d schedules, want %d", n, test.n)
			}
			if test.want != nil && !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// countsTests are the programs of [TestCounts].
func countsTests() []countsTest {
	batches := func(xs ...int) program {
		return func(b bench) string {
			return run(b, emit(list(slice.Batch(slice.At(b.at), b.stream("xs", xs...), tried))))
		}
	}
	sets := func(xs ...int) program {
		return func(b bench) string {
			return run(b, emit(set(slice.BatchEntries(slice.At(b.at), b.entries("xs", xs...), tried))))
		}
	}
	return []countsTest{
		{"C1 nobody observes timing", func(b bench) string {
			return run(b, dataflow.Output(dataflow.Map(b.stream("xs", 1, 2, 3), func(x int) int { return -x }), "out"))
		}, 1, []string{"[-1 -2 -3]"}},

		{"C2 batch of 1", batches(1), 1, []string{"[[1]]"}},
		{"C2 batch of 2", batches(1, 2), 2, []string{"[[1 2]]", "[[1] [2]]"}},
		{"C2 batch of 3", batches(1, 2, 3), 4, []string{"[[1 2 3]]", "[[1 2] [3]]", "[[1] [2 3]]", "[[1] [2] [3]]"}},
		{"C2 batch of 4", batches(1, 2, 3, 4), 8, nil},

		{"C3 unordered batch of 1", sets(1), 1, nil},
		{"C3 A2 unordered batch of 2", sets(1, 2), 3, []string{"[{0:1 1:2}]", "[{0:1} {1:2}]", "[{1:2} {0:1}]"}},
		{"C3 A3 unordered batch of 3", sets(1, 2, 3), 13, nil},
		{"C3 unordered batch of 4", sets(1, 2, 3, 4), 75, nil},

		{"C4 unordered batch of 4 whose order is observed", func(b bench) string {
			fresh := slice.BatchEntries(slice.At(b.at), b.entries("xs", 1, 2, 3, 4), tried)
			return run(b, emit(list(dataflow.AssumeOrder(keyedsingleton.Values(fresh), tried))))
		}, 192, nil},
		{"C5 order of 3 observed", func(b bench) string {
			return run(b, dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(b.entries("xs", 1, 2, 3)), tried), "out"))
		}, 6, []string{"[1 2 3]", "[1 3 2]", "[2 1 3]", "[2 3 1]", "[3 1 2]", "[3 2 1]"}},
		{"C6 two ordered streams interleaved", func(b bench) string {
			return run(b, dataflow.Output(dataflow.MergeOrdered(b.stream("x", 1, 2), b.stream("y", 3, 4), tried), "out"))
		}, 6, []string{"[1 2 3 4]", "[1 3 2 4]", "[1 3 4 2]", "[3 1 2 4]", "[3 1 4 2]", "[3 4 1 2]"}},
		{"C6 one of them empty", func(b bench) string {
			return run(b, dataflow.Output(dataflow.MergeOrdered(b.stream("x", 1, 2), b.stream("y"), tried), "out"))
		}, 1, []string{"[1 2]"}},
		{"B12 two keyed streams interleaved", func(b bench) string {
			merged := keyedstream.MergeOrdered(b.keyed("x", e(1, "a"), e(1, "b")), b.keyed("y", e(1, "c"), e(2, "d")), tried)
			all := keyedsingleton.Output(keyedstream.FoldEarlyStop(merged, func() string { return "" }, func(acc *string, v string) bool {
				*acc += v
				return len(*acc) == 3
			}), "all")
			b.Start()
			b.Quiesce()
			v, _ := all.Get(1)
			return v
		}, 3, []string{"abc", "acb", "cab"}},
		{"B8 a wrong proof that cannot be checked shows", func(b bench) string {
			words := keyedsingleton.Values(keyedsingleton.Map(b.entries("xs", 1, 2), func(x int) string { return fmt.Sprint(x) }))
			joined := dataflow.FoldCommutative(words, func() uncopied { return uncopied{no: func() {}} }, func(acc *uncopied, w string) { acc.words += w }, "it is claimed, and wrong")
			out := singleton.Output(singleton.Map(joined, func(u uncopied) string { return u.words }), "out")
			b.Start()
			b.Quiesce()
			v, _ := out.Latest()
			b.Observe(v)
			return v
		}, 2, []string{"12", "21"}},
		{"C7 count in a slice", func(b bench) string {
			return run(b, emit(dataflow.Count(slice.Batch(slice.At(b.at), b.stream("xs", 7, 8, 9), tried))))
		}, 4, []string{"[1 1 1]", "[1 2]", "[2 1]", "[3]"}},
		{"C14 a trailing inspect changes nothing", func(b bench) string {
			s := b.stream("xs", 1, 2, 3)
			dataflow.Inspect(s, func(int) {})
			return run(b, emit(list(slice.Batch(slice.At(b.at), s, tried))))
		}, 4, nil},

		{"A1 first of each key", func(b bench) string {
			first := keyedstream.First(b.keyed("xs", e(1, "a"), e(1, "b"), e(2, "c")))
			out := keyedsingleton.Output(first, "first")
			b.Start()
			b.Quiesce()
			x, _ := out.Get(1)
			y, _ := out.Get(2)
			return x + y
		}, 1, []string{"ac"}},
		{"A2 first, in batches", func(b bench) string {
			first := keyedstream.First(b.keyed("xs", e(1, "a"), e(1, "b"), e(2, "c")))
			return run(b, emit(set(slice.BatchEntries(slice.At(b.at), first, tried))))
		}, 3, []string{"[{1:a 2:c}]", "[{1:a} {2:c}]", "[{2:c} {1:a}]"}},
		{"A7 snapshots of a keyed count", func(b bench) string {
			count := keyedstream.Count(b.keyed("xs", e(1, ""), e(1, ""), e(2, "")))
			return run(b, emit(set(slice.SnapshotEntries(slice.At(b.at), count, tried))))
		}, 8, []string{
			"[{1:1 2:1} {1:2 2:1}]", "[{1:1} {1:1 2:1} {1:2 2:1}]", "[{1:1} {1:2 2:1}]", "[{1:1} {1:2} {1:2 2:1}]",
			"[{1:2 2:1}]", "[{1:2} {1:2 2:1}]", "[{2:1} {1:1 2:1} {1:2 2:1}]", "[{2:1} {1:2 2:1}]",
		}},

		{"B1 keyed batch", func(b bench) string {
			fresh := slice.BatchKeyed(slice.At(b.at), b.keyed("xs", e(1, "a"), e(1, "b"), e(2, "c")), tried)
			return run(b, keyedstream.Output(slice.EmitKeyed(fresh), "out"))
		}, 8, nil},
		{"B2 unordered keyed batch", sets(1, 2, 3), 13, nil},
		{"B3 entries in some order", func(b bench) string {
			es := keyedstream.Entries(b.keyed("xs", e(1, "a"), e(1, "b"), e(2, "c")))
			return run(b, dataflow.Output(dataflow.AssumeOrder(es, tried), "out"))
		}, 3, []string{"[1:a 1:b 2:c]", "[1:a 2:c 1:b]", "[2:c 1:a 1:b]"}},
		{"B3 entries in some order, in batches", func(b bench) string {
			es := keyedstream.Entries(b.keyed("xs", e(1, "a"), e(1, "b"), e(2, "c")))
			return run(b, emit(list(slice.Batch(slice.At(b.at), dataflow.AssumeOrder(es, tried), tried))))
		}, 12, nil},
		{"keyed order observed in slices, two keys of two", func(b bench) string {
			in, s := keyedsingleton.Input[string, int](b.at, "xs")
			for i, k := range []string{"a1", "a2", "b1", "b2"} {
				b.Check(in.Put(b.Context(), k, i))
			}
			in.Close()
			fresh := slice.BatchEntries(slice.At(b.at), s, tried)
			byKey := dataflow.KeyBy(keyedsingleton.Keys(fresh), func(k string) byte { return k[0] })
			return run(b, keyedstream.Output(slice.EmitKeyed(keyedstream.AssumeOrder(byKey, tried)), "out"))
		}, 104, nil},

		{"D1 snapshots of a sum of 2", func(b bench) string {
			return run(b, emit(slice.Snapshot(slice.At(b.at), sum(b.stream("xs", 1, 2)), tried)))
		}, 4, []string{"[0 1 3]", "[0 3]", "[1 3]", "[3]"}},
		{"D2 snapshots of a sum of 4", func(b bench) string {
			return run(b, emit(slice.Snapshot(slice.At(b.at), sum(b.stream("xs", 1, 2, 3, 4)), tried)))
		}, 16, nil},
		{"D3 the initial value counts once", func(b bench) string {
			return run(b, emit(slice.Snapshot(slice.At(b.at), sum(b.stream("xs")), tried)))
		}, 1, []string{"[0]"}},
		{"D4 D5 batch and snapshot of one cut agree", func(b bench) string {
			tick := slice.At(b.at)
			xs := b.stream("xs", 1, 2)
			pairs := dataflow.CrossSingleton(slice.Batch(tick, xs, tried), slice.Snapshot(tick, sum(xs), tried))
			return run(b, dataflow.Output(slice.Emit(pairs), "out"))
		}, 2, []string{"[(1, 1) (2, 3)]", "[(1, 3) (2, 3)]"}},
		{"D6 two snapshots of one cut agree", func(b bench) string {
			tick := slice.At(b.at)
			total := sum(b.stream("xs", 1, 2))
			return run(b, emit(singleton.Zip(slice.Snapshot(tick, total, tried), slice.Snapshot(tick, total, tried))))
		}, 4, []string{"[(0, 0) (1, 1) (3, 3)]", "[(0, 0) (3, 3)]", "[(1, 1) (3, 3)]", "[(3, 3)]"}},
		{"D7 a constant is no input", func(b bench) string {
			tick := slice.At(b.at)
			ten := slice.Snapshot(tick, dataflow.Fold(dataflow.Of(b.at, 10), func() int { return 0 }, func(acc *int, x int) { *acc += x }), tried)
			return run(b, dataflow.Output(slice.Emit(dataflow.CrossSingleton(slice.Batch(tick, b.stream("xs", 1, 2, 3), tried), ten)), "out"))
		}, 4, []string{"[(1, 10) (2, 10) (3, 10)]"}},

		{"E1 a counter in slice state", func(b bench) string {
			tick := slice.At(b.at)
			total, keep := slice.State(tick, 0)
			n := dataflow.Count(slice.Batch(tick, b.stream("xs", 1, 1, 1), tried))
			next := singleton.Map(singleton.Zip(total, n), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
			keep(next)
			return run(b, emit(next))
		}, 4, []string{"[1 2 3]", "[1 3]", "[2 3]", "[3]"}},
		{"E3 two inputs of one element", func(b bench) string {
			tick := slice.At(b.at)
			x, y := slice.Batch(tick, b.stream("x", 1), tried), slice.Batch(tick, b.stream("y", 2), tried)
			return run(b, emit(singleton.Zip(list(x), list(y))))
		}, 3, []string{"[([1], [2])]", "[([1], []) ([], [2])]", "[([], [2]) ([1], [])]"}},
		{"E4 two inputs of two elements", func(b bench) string {
			tick := slice.At(b.at)
			x, y := slice.Batch(tick, b.stream("x", 1, 2), tried), slice.Batch(tick, b.stream("y", 3, 4), tried)
			return run(b, emit(singleton.Zip(list(x), list(y))))
		}, 26, nil},
		{"E7 sorting in a slice sorts each batch", func(b bench) string {
			sorted := singleton.Map(list(slice.Batch(slice.At(b.at), b.stream("xs", 3, 1, 2), tried)), func(xs []int) []int { return slices.Sorted(slices.Values(xs)) })
			return run(b, emit(sorted))
		}, 4, []string{"[[1 2 3]]", "[[1 3] [2]]", "[[3] [1 2]]", "[[3] [1] [2]]"}},

		{"two slices that have nothing in common", func(b bench) string {
			x := slice.Batch(slice.At(b.at), b.stream("x", 1, 2, 3), tried)
			y := slice.Batch(slice.At(b.at), b.stream("y", 4, 5, 6), tried)
			return run(b, emit(list(x)), emit(list(y)))
		}, 16, nil},
	}
}

// TestReadYourWrites is F1 and F2: a counter whose location acknowledges writes, and that is read through a snapshot.
func TestReadYourWrites(t *testing.T) {
	build := func(b bench) (write, read *dataflow.InputPort[string], acks *dataflow.OutputPort[string], values *dataflow.OutputPort[int]) {
		write, writes := dataflow.Input[string](b.at, "writes")
		read, reads := dataflow.Input[string](b.at, "reads")
		count := dataflow.Count(writes)
		tick := slice.At(b.at)
		at := dataflow.CrossSingleton(slice.Batch(tick, reads, "a read sees the count of when it is handled"), slice.Snapshot(tick, count, "the same"))
		values = dataflow.Output(dataflow.Map(slice.Emit(at), func(p dataflow.Pair[string, int]) int { return p.Second }), "values")
		return write, read, dataflow.Output(writes, "acks"), values
	}
	t.Run("F1 a read after the acknowledgement", func(t *testing.T) {
		n := sim.Exhaustive(t, func(s *sim.Sim) {
			b := bench{s, dataflow.At[Server](s.Flow())}
			write, read, acks, values := build(b)
			s.Start()
			s.Check(write.Send(s.Context(), "w"))
			_, err := acks.Next(s.Context())
			s.Check(err)
			s.Check(read.Send(s.Context(), "r"))
			if v, err := values.Next(s.Context()); err != nil || v != 1 {
				s.Errorf("read %d, %v", v, err)
			}
		})
		if n != 1 {
			t.Errorf("%d schedules, want 1", n)
		}
	})
	t.Run("F2 a read beside the write", func(t *testing.T) {
		got := make(map[int]bool)
		sim.Exhaustive(t, func(s *sim.Sim) {
			b := bench{s, dataflow.At[Server](s.Flow())}
			write, read, _, values := build(b)
			s.Start()
			s.Check(write.Send(s.Context(), "w"))
			s.Check(read.Send(s.Context(), "r"))
			v, err := values.Next(s.Context())
			s.Check(err)
			s.Observe(v)
			got[v] = true
		})
		if !got[0] || !got[1] {
			t.Errorf("read %v, want both 0 and 1", got)
		}
	})
}
