package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func source(rng *rand.Rand, n, first int, disorder int64) []Event {
	es := make([]Event, n)
	for i := range es {
		es[i] = Event{string(rune('a' + rng.IntN(3))), int64(i*3) - rng.Int64N(disorder+1), first + i}
	}
	return es
}

// content writes the events of each span, without their order.
func content(m map[Span][]Event) string {
	var all []string
	for s, es := range m {
		var ns []int
		for _, e := range es {
			ns = append(ns, e.N)
		}
		slices.Sort(ns)
		all = append(all, fmt.Sprint(s, ns))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// TestCutsDoNotShow cuts and interleaves three sources in many ways. The closed spans, the
// sessions and the order of Sort must not depend on it.
func TestCutsDoNotShow(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var sources [][]Event
		for i := range 3 {
			sources = append(sources, source(rng, 30, 100*i, 12))
		}
		confirm := 1 + rng.IntN(3)
		var want, wantLate string
		for range 20 {
			var cuts [][]Cut
			var lates []Event
			for _, s := range sources {
				c, late := Stamp(s, 6, confirm, func(n int) int { return 1 + rng.IntN(n) })
				cuts, lates = append(cuts, c), append(lates, late...)
			}
			m := Merge(cuts, rng.IntN)
			got := content(Fold(m, 10, 10)) + content(Fold(m, 10, 5)) + content(Sessions(m, 4)) + fmt.Sprint(Sort(m))
			if want == "" {
				want, wantLate = got, fmt.Sprint(lates)
			}
			if got != want || fmt.Sprint(lates) != wantLate {
				t.Fatalf("seed %d: it shows", seed)
			}
		}
	}
}

// TestJoin compares the pairs of Join with all pairs within the time, for many cuts and
// interleavings.
func TestJoin(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		a, b := source(rng, 60, 0, 6), source(rng, 60, 100, 6)
		var want, wantAlone string
		for i := range 10 {
			ca, _ := Stamp(a, 6, 1, func(n int) int { return 1 + rng.IntN(min(n, 5)) })
			cb, _ := Stamp(b, 6, 1, func(n int) int { return 1 + rng.IntN(min(n, 5)) })
			pairs, alone := Join(ca, cb, 5, 3, rng.IntN)
			slices.SortFunc(pairs, func(p, q Pair) int { return p.A*1000 + p.B - q.A*1000 - q.B })
			slices.Sort(alone)
			got := fmt.Sprint(pairs)
			if i == 0 {
				want, wantAlone = got, fmt.Sprint(alone)
				var all []Pair
				for _, e := range a {
					for _, f := range b {
						if e.Key == f.Key && f.At >= e.At-5 && f.At <= e.At+3 {
							all = append(all, Pair{e.N, f.N})
						}
					}
				}
				if fmt.Sprint(all) != got {
					t.Fatalf("seed %d: pairs differ from all pairs", seed)
				}
			}
			if got != want || fmt.Sprint(alone) != wantAlone {
				t.Fatalf("seed %d: it shows", seed)
			}
		}
	}
}

// TestLateByItsTime is Beam issue 18677 with a gap of 5: an event at time 3 after the mark has
// reached 6 does not open a session that overlaps the closed one.
func TestLateByItsTime(t *testing.T) {
	cuts, late := Stamp([]Event{{"a", 0, 1}, {"b", 6, 2}, {"a", 3, 3}}, 0, 1, func(int) int { return 1 })
	if got := content(Sessions(cuts, 5)); len(late) != 1 || got != "[{a 0 5} [1] {b 6 11} [2]]" {
		t.Error(late, got)
	}
}

// TestTouching is hazelcast-jet 1152: an event at the end of a session begins another session,
// wherever the cuts are.
func TestTouching(t *testing.T) {
	for _, n := range []int{1, 2} {
		cuts, _ := Stamp([]Event{{"a", 1, 1}, {"a", 3, 2}}, 0, 1, func(left int) int { return min(n, left) })
		if got := content(Sessions(cuts, 2)); got != "[{a 1 3} [1] {a 3 5} [2]]" {
			t.Error(n, got)
		}
	}
}

// TestCases checks the cases that fit on a line. Their numbers are those of the tests of package window.
func TestCases(t *testing.T) {
	one := func(int) int { return 1 }
	all := func(n int) int { return n }
	at := func(ts ...int64) (es []Event) {
		for i, x := range ts {
			es = append(es, Event{"a", x, i + 1})
		}
		return es
	}
	tumble := func(c []Cut) string { return content(Fold(c, 10, 10)) }
	slide := func(c []Cut) string { return content(Fold(c, 10, 5)) }
	sessions := func(c []Cut) string { return content(Sessions(c, 5)) }
	for _, test := range []struct {
		number  int
		source  []Event
		slack   int64
		confirm int
		of      func([]Cut) string
		want    string
		late    int
	}{
		{34, at(1, 5, 3, 2, 11), 2, 1, tumble, "[{a 0 10} [1 2 3] {a 10 20} [5]]", 1},
		{35, at(10, 8), 2, 1, tumble, "[{a 0 10} [2] {a 10 20} [1]]", 0},
		{39, at(1, 9, 5), 9, 1, sessions, "[{a 1 14} [1 2 3]]", 0},
		{40, at(-1, 0), 0, 1, tumble, "[{a -10 0} [1] {a 0 10} [2]]", 0},
		{41, at(7), 0, 1, slide, "[{a 0 10} [1] {a 5 15} [1]]", 0},
		{49, at(1, 2, 1e9, 3, 4), 0, 3, tumble, "[{a 0 10} [1 2 4 5] {a 1000000000 1000000010} [3]]", 0},
	} {
		for _, next := range []func(int) int{one, all} {
			cuts, late := Stamp(test.source, test.slack, test.confirm, next)
			if got := test.of(cuts); got != test.want || len(late) != test.late {
				t.Errorf("case %d: %s, late %v", test.number, got, late)
			}
		}
	}
	ca, _ := Stamp([]Event{{"a", 10, 1}}, 0, 1, one)
	cb, _ := Stamp([]Event{{"a", 4, 4}, {"a", 5, 5}, {"a", 13, 13}, {"a", 14, 14}}, 0, 1, one)
	if pairs, alone := Join(ca, cb, 5, 3, func(int) int { return 0 }); fmt.Sprint(pairs, alone) != "[{1 5} {1 13}] []" {
		t.Error("case 51:", pairs, alone)
	}
}
