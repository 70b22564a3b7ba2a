package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

func near(before, after int) window.Within {
	return window.Within{Before: time.Duration(before) * time.Second, After: time.Duration(after) * time.Second}
}

func joined(d window.Disorder, within window.Within) program {
	return func(xs []ticks) []text {
		left, _ := window.Stamp(xs[0], at, d)
		right, _ := window.Stamp(xs[1], at, d)
		pairs := window.Join(dataflow.KeyBy(left, key), dataflow.KeyBy(right, key), within)
		return []text{dataflow.Map(keyedstream.Values(pairs), func(e window.Event[dataflow.Pair[tick, tick]]) string {
			return fmt.Sprintf("(%d,%d)@%s", e.Value.First.N, e.Value.Second.N, inSeconds(e.At))
		})}
	}
}

func maybe(e window.Event[dataflow.Pair[tick, dataflow.Maybe[tick]]]) string {
	if !e.Value.Second.OK {
		return fmt.Sprintf("(%d,-)@%s", e.Value.First.N, inSeconds(e.At))
	}
	return fmt.Sprintf("(%d,%d)@%s", e.Value.First.N, e.Value.Second.Value.N, inSeconds(e.At))
}

func leftJoined(d window.Disorder, within window.Within) program {
	return func(xs []ticks) []text {
		left, _ := window.Stamp(xs[0], at, d)
		right, _ := window.Stamp(xs[1], at, d)
		pairs := window.LeftJoin(dataflow.KeyBy(left, key), dataflow.KeyBy(right, key), within)
		return []text{dataflow.Map(keyedstream.Values(pairs), maybe)}
	}
}

// TestJoin is case 51: both ends of the interval are included.
func TestJoin(t *testing.T) {
	sources := [][]tick{of("a", 10), of("a", 5, 4, 13, 14)}
	check(t, sources, want{report: "(1,1)@10 (1,3)@13"}, joined(slack(1), near(5, 3)))
	check(t, [][]tick{of("a", 10), of("b", 10)}, want{report: ""}, joined(slack(0), near(5, 3)))
}

// TestLeftJoin is case 53: an event without a pair is emitted only when both marks have passed
// its interval.
func TestLeftJoin(t *testing.T) {
	check(t, [][]tick{of("a", 1, 20), of("a", 2)}, want{report: "(1,1)@2 (2,-)@23"}, leftJoined(slack(0), near(5, 3)))
	check(t, [][]tick{of("a", 1, 20), of("b", 2)}, want{report: "(1,-)@4 (2,-)@23"}, leftJoined(slack(0), near(5, 3)))
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := build(s.Flow(), 2, leftJoined(slack(0), near(5, 3)))
		s.Start()
		step := func(i int, x tick, want string) {
			s.Check(b.ins[i].Send(s.Context(), x))
			if got := report([][]string{sim.Collect(s, b.outs[0])}, false); got != want {
				s.Errorf("after %v of %d got %s, want %s", x, i, got, want)
			}
		}
		step(0, tick{"a", 1, 1}, "")
		step(0, tick{"a", 20, 2}, "")
		step(1, tick{"c", 2, 1}, "")
		step(1, tick{"a", 2, 2}, "(1,2)@2")
		step(1, tick{"c", 30, 3}, "")
		step(0, tick{"b", 24, 3}, "(2,-)@23")
	})
}

// TestAsOf checks that each event is paired with the newest value that is not after it.
func TestAsOf(t *testing.T) {
	check(t, [][]tick{of("a", 1, 5, 3, 9), of("a", 3, 2, 8)}, want{report: "a (1,-)@1 a (2,1)@5 a (3,1)@3 a (4,3)@9"}, func(xs []ticks) []text {
		left, _ := window.Stamp(xs[0], at, slack(3))
		right, _ := window.Stamp(xs[1], at, slack(3))
		return []text{keyedLines(window.AsOf(dataflow.KeyBy(left, key), dataflow.KeyBy(right, key)), maybe)}
	})
}

// TestUnique is case 50: a repeated event is counted once, and one from before the mark is late.
func TestUnique(t *testing.T) {
	source := of("a", 1, 5, 3, 11)
	source = append(source, source[1], source[3], source[2], source[0])
	check(t, [][]tick{source}, want{report: "a[0,10)=3 a[10,20)=1 | late a1@1 late a2@5 late a3@3"}, func(xs []ticks) []text {
		es, late := window.Stamp(xs[0], at, slack(5))
		return []text{counted(first(window.Count(window.Unique(dataflow.KeyBy(es, key)), window.Every(10*time.Second)))), said("late", late)}
	})
}

func first[T, U any](x T, _ U) T { return x }
