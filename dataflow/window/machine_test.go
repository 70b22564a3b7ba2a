package window_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type turn = window.Turn[string, string, int]

const (
	wake window.Alarm = iota
	rest
)

// A watch is the state of the machine of these tests. It emits each tick and alarm that it
// receives.
type watch struct{ Told int }

func newWatch() watch { return watch{} }

func (w *watch) told(x tick, do *turn) {
	w.Told++
	do.Emit(fmt.Sprintf("%d", x.N))
	switch x.N % 10 {
	case 1:
		do.At(wake, do.Now().Add(3*time.Second))
	case 2:
		do.Stop(wake)
	case 3:
		do.At(wake, do.Now()) // the alarm is next
	case 4:
		do.Decide(w.Told)
		do.Decide(-1)
		do.At(rest, do.Now().Add(10*time.Second))
	case 5:
		do.At(wake, do.Now().Add(100*time.Second))
		do.At(wake, do.Now().Add(time.Second)) // moves the alarm
	}
}

func (w *watch) rang(a window.Alarm, do *turn) {
	if a == rest {
		do.Emit(fmt.Sprintf("over after %d", w.Told))
		do.Forget()
		return
	}
	do.Emit("rings")
	if w.Told > 5 {
		do.At(wake, do.Now().Add(time.Second)) // again and again
	}
}

func watched(d window.Disorder) program {
	return func(xs []ticks) []text {
		es, _ := window.Stamp(xs[0], at, d)
		emitted, _ := window.Machine(dataflow.KeyBy(es, key), newWatch, (*watch).told, (*watch).rang)
		return []text{keyedLines(emitted, func(e window.Event[string]) string { return e.Value + "@" + inSeconds(e.At) })}
	}
}

// TestMachine checks that events and alarms come in the order of their times.
func TestMachine(t *testing.T) {
	for _, x := range []struct {
		name   string
		source []tick
		d      window.Disorder
		want   string
	}{
		{"59 alarm before event", []tick{{"a", 7, 1}, {"a", 12, 7}, {"a", 10, 6}}, slack(5), "a 1@7 a rings@10 a 6@10 a 7@12"},
		{"stopped", []tick{{"a", 7, 1}, {"a", 9, 2}, {"a", 20, 6}}, slack(0), "a 1@7 a 2@9 a 6@20"},
		{"stopped before it rings", []tick{{"a", 7, 1}, {"a", 20, 6}, {"a", 9, 2}}, slack(20), "a 1@7 a 2@9 a 6@20"},
		{"now", []tick{{"a", 7, 3}, {"a", 7, 6}}, slack(0), "a 3@7 a rings@7 a 6@7"},
		{"moved", []tick{{"a", 7, 5}, {"a", 9, 6}}, slack(0), "a 5@7 a rings@8 a 6@9"},
		{"at the end", []tick{{"a", 7, 1}}, slack(0), "a 1@7 a rings@10"},
		{"forgotten", []tick{{"a", 7, 4}, {"a", 18, 6}, {"a", 19, 4}}, slack(0), "a 4@7 a over after 1@17 a 6@18 a 4@19 a over after 2@29"},
		{"for ever", []tick{{"a", 1, 6}, {"a", 1, 6}, {"a", 1, 6}, {"a", 1, 6}, {"a", 1, 6}, {"a", 1, 1}, {"b", 6, 6}}, slack(0), "a 6@1 a 6@1 a 6@1 a 6@1 a 6@1 a 1@1 a rings@4 a rings@5 a rings@6 b 6@6"},
	} {
		t.Run(x.name, func(t *testing.T) {
			check(t, [][]tick{x.source}, want{report: x.want, inOrder: true}, watched(x.d))
		})
	}
}

// TestMachineCuts checks with random ticks that the results do not depend on how batches are cut.
func TestMachineCuts(t *testing.T) {
	seeds(t, 30, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var source []tick
		for i := range 60 {
			source = append(source, tick{"a", i*2 - rng.IntN(8), rng.IntN(10)})
		}
		want := report(produce(t, [][]tick{source}, 1, watched(slack(4)), nil), true)
		for range 4 {
			if got := report(produce(t, [][]tick{source}, 1+rng.IntN(20), watched(slack(4)), nil), true); got != want {
				t.Errorf("seed %d:\n got %s\nwant %s", seed, got, want)
				return
			}
		}
	})
}

// TestDecided checks that a key has a decision from Decide until Forget.
func TestDecided(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		here := dataflow.At[server](s.Flow())
		in, xs := dataflow.Input[tick](here, "ticks")
		es, _ := window.Stamp(xs, at, slack(0))
		_, decided := window.Machine(dataflow.KeyBy(es, key), newWatch, (*watch).told, (*watch).rang)
		cut := slice.At(here)
		now := keyedsingleton.KeyCount(slice.SnapshotEntries(cut, decided, "each number is looked at"))
		out := dataflow.Output(slice.Emit(singleton.IntoStream(singleton.Map(now, func(n int) string { return fmt.Sprint(n) }))), "decided")
		s.Start()
		var got []string
		for _, x := range []tick{{"a", 7, 4}, {"b", 8, 4}, {"c", 9, 6}, {"c", 18, 6}, {"c", 30, 6}} {
			s.Check(in.Send(s.Context(), x))
			got = append(got, sim.Collect(s, out)...)
		}
		in.Close()
		got = append(got, sim.Collect(s, out)...)
		if all := strings.Join(got, " "); all != "1 2 1 0" {
			s.Errorf("there were %s decisions", all)
		}
	})
}

// TestMachineOfTwo is case 60: in every schedule the machine receives the same sequence from two sources.
func TestMachineOfTwo(t *testing.T) {
	sources := [][]tick{{{"a", 7, 1}, {"a", 12, 7}}, {{"a", 10, 6}, {"a", 11, 3}}}
	p := func(xs []ticks) []text {
		left, _ := window.Stamp(xs[0], at, slack(5))
		right, _ := window.Stamp(xs[1], at, slack(0))
		byNumber := func(a, b tick) int { return a.N - b.N }
		one := window.SortBy(dataflow.Merge(left, right), byNumber, "each has another number")
		emitted, _ := window.Machine(dataflow.KeyBy(one, key), newWatch, (*watch).told, (*watch).rang)
		return []text{keyedLines(emitted, func(e window.Event[string]) string { return e.Value + "@" + inSeconds(e.At) })}
	}
	w := want{report: "a 1@7 a rings@10 a 6@10 a 3@11 a rings@11 a 7@12", inOrder: true}
	w.schedules = sim.Exhaustive(t, func(s *sim.Sim) {
		if got := report(simulated(s, sources, p, true), true); got != w.report {
			s.Errorf("got %s", got)
		}
	})
	check(t, sources, w, p)
}
