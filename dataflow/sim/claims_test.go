package sim_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

const claimed = "it is claimed"

// claim runs a program and returns the broken claim that ends it, if any. The claim must break in
// the first schedule, or in the first one that has a batch of two.
func claim(t *testing.T, build func(b bench)) *sim.ClaimError {
	t.Helper()
	var broken *sim.ClaimError
	_, trace := sim.Fails(t, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		build(b)
		app := b.Start()
		b.Quiesces(app, &broken)
	})
	if broken != nil && trace != "0" && trace != "1" {
		t.Errorf("it shows in the schedule %s only", trace)
	}
	return broken
}

// Quiesces runs the flow and stores the broken claim that ends it, which fails the schedule.
func (b bench) Quiesces(app *dataflow.App, broken **sim.ClaimError) {
	defer func() {
		if err := app.Err(); err != nil {
			if !errors.As(err, broken) {
				b.Errorf("the flow fails with another error: %v", err)
			}
		}
	}()
	b.Quiesce()
}

func zero() int { return 0 }

// shown returns the message of a broken claim.
func shown(e *sim.ClaimError) string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("%v: %v %v: %v %v", e.State, e.A, e.B, e.One, e.Other)
}

// digits is a step that is not commutative.
func digits(acc *int, x int) { *acc = *acc*10 + x }

// in passes a batch of the elements to f, in one slice.
func in[T any](b bench, s stream[T], f func(batch[T])) { f(slice.Batch(slice.At(b.at), s, tried)) }

// keys returns the values under the key of each.
func keys(b bench, xs ...kv) keyed[int, string] { return b.keyed("ks", xs...) }

func join(acc *[]string, v string) { *acc = append(*acc, v) }

func noStrings() []string { return nil }

// TestClaims has a wrong function for each claim, at each place where it can be made, with the
// smallest input that shows it: two values of one input. The correct function beside it must pass.
// It catches a check that only schedules with several inputs or in another order make, and a check
// disturbed by a step that changes its state in place.
func TestClaims(t *testing.T) {
	put := func(acc *map[string]bool, v string) { (*acc)[v] = true }
	noSet := func() map[string]bool { return map[string]bool{} }
	tests := []struct {
		name  string
		build func(b bench)
		want  string // what the error shows, or nothing
	}{
		{"FoldCommutative", func(b bench) { dataflow.FoldCommutative(b.stream("xs", 1, 2), zero, digits, claimed) }, "0: 1 2: 12 21"},
		{"FoldCommutative of one value", func(b bench) { dataflow.FoldCommutative(b.stream("xs", 1), zero, digits, claimed) }, ""},
		{"FoldCommutative of equal values", func(b bench) { dataflow.FoldCommutative(b.stream("xs", 1, 1, 1), zero, digits, claimed) }, ""},
		{"FoldCommutative, right", func(b bench) {
			dataflow.FoldCommutative(b.stream("xs", 1, 2, 3), zero, func(acc *int, x int) { *acc += x }, claimed)
		}, ""},
		{"FoldCommutative of two inputs", func(b bench) {
			dataflow.FoldCommutative(dataflow.Merge(b.stream("xs", 1), b.stream("ys", 2)), zero, digits, claimed)
		}, "0: 1 2: 12 21"},
		{"FoldCommutative that only the third of four shows", func(b bench) {
			most := func(acc *[]int, x int) {
				if *acc = append(*acc, x); len(*acc) <= 3 {
					slices.Sort(*acc)
				} else {
					*acc = (*acc)[:3]
				}
			}
			dataflow.FoldCommutative(b.stream("xs", 4, 3, 2, 1), func() []int { return nil }, most, claimed)
		}, "[3 4]: 2 1: [2 3 4] [1 3 4]"},
		{"FoldCommutative behind many values", func(b bench) {
			xs := slices.Repeat([]int{0}, 30)
			dataflow.FoldCommutative(b.stream("xs", append(xs, 1, 2)...), zero, digits, claimed)
		}, "0: 0 1: 1 10"},
		{"FoldCommutative of values far from each other", func(b bench) {
			last := func(acc *int, x int) { // the order matters for 7 and 9 only
				if x == 7 {
					*acc = 7
				} else if x == 9 && *acc == 7 {
					*acc = 9
				}
			}
			dataflow.FoldCommutative(b.stream("xs", 7, 1, 2, 3, 4, 5, 9), zero, last, claimed)
		}, "0: 7 9: 9 7"},
		{"FoldCommutative that panics in another order", func(b bench) {
			open := func(acc *int, x int) {
				if x == 2 && *acc == 0 {
					panic("it is not open")
				}
				*acc = 1
			}
			dataflow.FoldCommutative(b.stream("xs", 1, 2), zero, open, claimed)
		}, "0: 1 2: 1 {it is not open}"},
		{"FoldCommutative in a slice", func(b bench) {
			in(b, b.stream("xs", 1, 2), func(xs batch[int]) { emit(dataflow.FoldCommutative(xs, zero, digits, claimed)) })
		}, "0: 1 2: 12 21"},
		{"FoldCommutative in place", func(b bench) {
			s := dataflow.Map(b.stream("xs", 1, 2), func(x int) string { return fmt.Sprint(x) })
			dataflow.FoldCommutative(s, noStrings, join, claimed)
		}, "[]: 1 2: [1 2] [2 1]"},
		{"FoldCommutative in place, right", func(b bench) {
			s := dataflow.Map(b.stream("xs", 1, 2, 1), func(x int) string { return fmt.Sprint(x) })
			dataflow.FoldCommutative(s, noSet, put, claimed)
		}, ""},
		{"FoldCommutative that changes its value, right", func(b bench) {
			s := dataflow.Map(b.stream("xs", 1, 2, 1), func(x int) *int { return &x })
			dataflow.FoldCommutative(s, zero, func(acc *int, x *int) { *acc += *x; *x = 0 }, claimed)
		}, ""},

		{"keyed FoldCommutative of one key", func(b bench) { keyedstream.FoldCommutative(keys(b, e(5, "a"), e(5, "b")), noStrings, join, claimed) }, "[]: a b: [a b] [b a]"},
		{"keyed FoldCommutative of two keys", func(b bench) { keyedstream.FoldCommutative(keys(b, e(5, "a"), e(6, "b")), noStrings, join, claimed) }, ""},
		{"keyed FoldCommutative, keys in turns", func(b bench) {
			keyedstream.FoldCommutative(keys(b, e(5, "a"), e(6, "b"), e(5, "c")), noStrings, join, claimed)
		}, "[]: a c: [a c] [c a]"},
		{"keyed FoldCommutative in a slice", func(b bench) {
			xs := slice.BatchKeyed(slice.At(b.at), keys(b, e(5, "a"), e(5, "b")), tried)
			emit(set(keyedstream.FoldCommutative(xs, noStrings, join, claimed)))
		}, "[]: a b: [a b] [b a]"},
		{"keyed FoldCommutative, right", func(b bench) {
			keyedstream.FoldCommutative(keys(b, e(5, "a"), e(5, "b"), e(5, "a")), noSet, put, claimed)
		}, ""},

		{"FoldGrowing", func(b bench) {
			dataflow.FoldGrowing(b.stream("xs", 1, 1, -1), zero, func(acc *int, x int) { *acc += x }, claimed)
		}, "2: -1 <nil>: 2 1"},
		{"FoldGrowing of one value", func(b bench) {
			dataflow.FoldGrowing(b.stream("xs", -1), zero, func(acc *int, x int) { *acc += x }, claimed)
		}, "0: -1 <nil>: 0 -1"},
		{"FoldGrowing, right", func(b bench) {
			dataflow.FoldGrowing(b.stream("xs", 1, 0, 1), zero, func(acc *int, x int) { *acc += x }, claimed)
		}, ""},
		{"FoldCommutativeGrowing that shrinks", func(b bench) {
			dataflow.FoldCommutativeGrowing(b.stream("xs", 2, -1), zero, func(acc *int, x int) { *acc += x }, claimed)
		}, "2: -1 <nil>: 2 1"},
		{"FoldCommutativeGrowing in an order", func(b bench) { dataflow.FoldCommutativeGrowing(b.stream("xs", 1, 2), zero, digits, claimed) }, "0: 1 2: 12 21"},
		{"keyed FoldGrowing", func(b bench) {
			keyedstream.FoldGrowing(keys(b, e(5, "b"), e(6, "a"), e(5, "a")), func() string { return "" }, func(acc *string, v string) { *acc = v }, claimed)
		}, "b: a <nil>: b a"},
		{"keyed FoldGrowing, right", func(b bench) {
			keyedstream.FoldGrowing(keys(b, e(5, "b"), e(6, "a"), e(5, "c")), func() string { return "" }, func(acc *string, v string) { *acc = v }, claimed)
		}, ""},
		{"keyed FoldCommutativeGrowing", func(b bench) {
			keyedstream.FoldCommutativeGrowing(keys(b, e(5, "b"), e(5, "cc")), func() int { return 2 }, func(acc *int, v string) { *acc = min(*acc, len(v)) }, claimed)
		}, "2: b <nil>: 2 1"},

		{"MapGrowing", func(b bench) {
			count := dataflow.Count(b.stream("xs", 1, 2, 3))
			singleton.Output(singleton.MapGrowing(count, func(n int) int { return n % 3 }, claimed), "out")
		}, "<nil>: 1 3: 1 0"},
		{"MapGrowing, right", func(b bench) {
			count := dataflow.Count(b.stream("xs", 1, 2, 3))
			singleton.Output(singleton.MapGrowing(count, func(n int) int { return n / 2 }, claimed), "out")
		}, ""},
		{"MapGrowing in a slice", func(b bench) { // where a later value may be smaller
			in(b, b.stream("xs", 1, 2), func(xs batch[int]) {
				last := dataflow.Fold(xs, zero, func(acc *int, x int) { *acc = x })
				emit(singleton.MapGrowing(last, func(n int) int { return -n }, claimed))
			})
		}, "<nil>: 1 2: -1 -2"},
		{"MapGrowing in a slice, right", func(b bench) {
			in(b, b.stream("xs", 3, 1, 2), func(xs batch[int]) {
				last := dataflow.Fold(xs, zero, func(acc *int, x int) { *acc = x })
				emit(singleton.MapGrowing(last, func(n int) int { return n / 2 }, claimed))
			})
		}, ""},

		{"SortFunc", func(b bench) {
			xs := slice.BatchKeyed(slice.At(b.at), keys(b, e(5, "a1"), e(5, "a2")), tried)
			first := func(x, y string) int { return strings.Compare(x[:1], y[:1]) }
			emit(dataflow.Count(keyedstream.Values(keyedstream.SortFunc(xs, first, claimed))))
		}, "<nil>: a2 a1: <nil> <nil>"},
		{"SortFunc, right", func(b bench) {
			xs := slice.BatchKeyed(slice.At(b.at), keys(b, e(5, "a1"), e(5, "a2"), e(5, "a1")), tried)
			emit(dataflow.Count(keyedstream.Values(keyedstream.SortFunc(xs, strings.Compare, claimed))))
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := shown(claim(t, test.build)); got != test.want {
				t.Errorf("it shows %q, want %q", got, test.want)
			}
		})
	}
}

// TestClaimError checks that a ClaimError locates the claim in the program and shows the values.
func TestClaimError(t *testing.T) {
	got := claim(t, func(b bench) {
		words := dataflow.Map(b.stream("xs", 1, 2), func(x int) string { return strings.Repeat("w", 300*x) })
		dataflow.FoldCommutative(words, func() string { return "" }, func(acc *string, w string) { *acc += w[:1] + *acc + w[:len(w)/300] }, claimed)
	})
	if got == nil || got.Op != "dataflow.FoldCommutative" || !strings.HasPrefix(got.Pos, "claims_test.go:") || got.Why != claimed {
		t.Fatalf("%+v", got)
	}
	text := got.Error()
	for _, part := range []string{`the order does not matter ("it is claimed")`, `in state ""`, `a = "www`, `b = "www`, "…", `: "ww`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s: it lacks %s", text, part)
		}
	}
	if len(text) > 1000 {
		t.Errorf("it has %d bytes", len(text))
	}
}

// spoken is a test that stores what is logged.
type spoken struct {
	testing.TB
	lines []string
}

func (s *spoken) Helper() {}
func (s *spoken) Logf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}
func (s *spoken) Log(args ...any) { s.lines = append(s.lines, fmt.Sprint(args...)) }

// TestUnchecked checks that the log lists each unchecked claim once, with the reason.
func TestUnchecked(t *testing.T) {
	out := &spoken{TB: t}
	sim.Exhaustive(out, func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		xs := dataflow.Map(b.stream("xs", 1, 2), func(x int) io.Reader { return strings.NewReader(fmt.Sprint(x)) })
		dataflow.FoldCommutative(xs, zero, func(acc *int, _ io.Reader) { *acc++ }, claimed) // this one can be checked
		fs := dataflow.Map(b.stream("ys", 1, 2), func(x int) func() int { return func() int { return x } })
		dataflow.FoldCommutative(fs, zero, func(acc *int, f func() int) { *acc = *acc*10 + f() }, claimed)
		dataflow.FoldGrowing(b.stream("zs", 1), func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) }, claimed)
		b.Start()
		b.Quiesce()
	})
	said := strings.Join(out.lines, "\n")
	for _, part := range []string{"is not checked: the value cannot be copied: it has a func() int", "is not checked: values of type []int have no order"} {
		if strings.Count(said, part) != 1 {
			t.Errorf("%s\nit does not say once %q", said, part)
		}
	}
	if strings.Count(said, "not checked") != 2 {
		t.Errorf("%s\nit says something else", said)
	}
}
