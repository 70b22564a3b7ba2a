package window_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// idlePrograms merges three sources and joins two of them. Two sources may be idle, and one of
// these passes through an operator with a mark of its own. Each event is in one span, or late.
func idlePrograms(xs []ticks) []text {
	left, lateLeft := window.Stamp(xs[0], at, slack(2))
	a, lateA := window.Stamp(xs[1], at, window.Disorder{Slack: 2 * time.Second, Confirm: 2})
	b, lateB := window.Stamp(xs[2], at, slack(0))
	a, idledA := window.Idle(a, patience, "tested")
	b, idledB := window.Idle(b, 3*time.Second, "tested")
	sorted := window.Sort(b)
	late := dataflow.Merge(dataflow.Merge(said("late", lateLeft), said("late", lateA)), said("late", lateB))
	late = dataflow.Merge(late, dataflow.Merge(said("late", idledA), said("late", idledB)))
	byKey := dataflow.KeyBy(dataflow.Merge(dataflow.Merge(left, a), sorted), key)
	none := func() who { return nil }
	tumbling, _ := window.FoldCommutative(byKey, window.Every(10*time.Second), none, (*who).add, "numbers in any order")
	sessions, _ := window.Sessions(byKey, 4*time.Second, none, (*who).add, (*who).merge, "numbers in any order")
	alone := keyedstream.Values(keyedstream.Map(window.LeftJoin(dataflow.KeyBy(left, key), dataflow.KeyBy(sorted, key), near(2, 2)), maybe))
	return []text{late, whoIsIn(tumbling), whoIsIn(sessions), dataflow.WeakenOrder(alone)}
}

// numbersIn adds to all how often each tick occurs in lines of whoIsIn or said.
func numbersIn(all map[string]int, lines []string, number func(string) []string) {
	for _, line := range lines {
		for _, n := range number(line) {
			all[n]++
		}
	}
}

// accounted checks the outputs for n ticks. It reports a tick that is neither late nor in exactly
// one span and one session.
func accounted(outs [][]string, n int) string {
	late := func(line string) []string {
		var key string
		var at int
		_, name, _ := strings.Cut(line, " ")
		fmt.Sscanf(strings.ReplaceAll(name, "@", " "), "%s %d", &key, &at)
		return []string{key[1:]}
	}
	in := func(line string) []string {
		_, list, _ := strings.Cut(line, "=[")
		return strings.Fields(strings.TrimSuffix(list, "]"))
	}
	for i := range 2 {
		all := map[string]int{}
		numbersIn(all, outs[0], late)
		numbersIn(all, outs[1+i], in)
		if len(all) != n {
			return fmt.Sprintf("%d of %d are accounted for: %v", len(all), n, outs)
		}
		for k, times := range all {
			if times != 1 {
				return fmt.Sprintf("%s is there %d times", k, times)
			}
		}
	}
	return ""
}

// An idleMove is a batch for a source, or a time to wait.
type idleMove struct {
	source int
	batch  []tick
	pass   time.Duration
}

func idleScript(rng *rand.Rand) (moves []idleMove, sent int) {
	clock := 0
	for range 40 {
		if rng.IntN(3) == 0 {
			d := 1 + rng.IntN(7)
			moves = append(moves, idleMove{pass: time.Duration(d)*time.Second - time.Millisecond})
			clock += d
			continue
		}
		m := idleMove{source: rng.IntN(3)}
		for range 1 + rng.IntN(4) {
			sent++
			m.batch = append(m.batch, tick{"k", clock + rng.IntN(8), sent})
		}
		if rng.IntN(4) > 0 {
			m.source = 0
		}
		moves = append(moves, m)
	}
	return moves, sent
}

// TestIdleRandom sends random batches while time passes. The results must not depend on where a
// batch ends, a run from the recording must have the same results, and each event is accounted for.
func TestIdleRandom(t *testing.T) {
	idled := 0
	seeds(t, 60, func(t *testing.T, seed uint64) {
		moves, sent := idleScript(rand.New(rand.NewPCG(seed, 3)))
		var results []string
		for _, cut := range []int{1, 2, 100} {
			var record dataflow.Recording
			outs := make([][]string, 4)
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.NewWithOptions(dataflow.Options{Record: &record})
				x := build(flow, 3, idlePrograms)
				app, err := dataflow.Start(t.Context(), flow)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range moves {
					for batch := range slices.Chunk(m.batch, cut) {
						send(t, x.ins[m.source], batch...)
					}
					time.Sleep(m.pass)
					synctest.Wait()
				}
				for _, in := range x.ins {
					in.Close()
				}
				for i, out := range x.outs {
					for line := range out.All(t.Context()) {
						outs[i] = append(outs[i], line)
					}
				}
				if err := app.Wait(); err != nil {
					t.Error(err)
				}
			})
			if wrong := accounted(outs, sent); wrong != "" {
				t.Errorf("seed %d, in batches of %d: %s", seed, cut, wrong)
			}
			idled += len(outs[0])
			results = append(results, report(outs, false))
			sim.Rerun(t, &record, func(s *sim.Sim) {
				if got := report(simulated(s, make([][]tick, 3), idlePrograms, false), false); got != results[0] {
					s.Errorf("seed %d, recorded in batches of %d:\n got %s\nwant %s", seed, cut, got, results[0])
				}
			})
		}
		if r := slices.Compact(results); len(r) > 1 {
			t.Errorf("seed %d: it depends on where batches end:\n%s", seed, strings.Join(r, "\n"))
		}
	})
	if idled == 0 {
		t.Error("nothing was ever late")
	}
}

// TestIdleRandomSchedules checks that each event is accounted for in random schedules.
func TestIdleRandomSchedules(t *testing.T) {
	seeds(t, 5, func(t *testing.T, seed uint64) {
		moves, sent := idleScript(rand.New(rand.NewPCG(seed, 4)))
		sim.Random(t, 20, func(s *sim.Sim) {
			x := build(s.Flow(), 3, idlePrograms)
			s.Start()
			for _, m := range moves {
				for _, p := range m.batch {
					s.Check(x.ins[m.source].Send(s.Context(), p))
				}
			}
			outs := make([][]string, len(x.outs))
			for _, in := range x.ins {
				in.Close()
			}
			for i, out := range x.outs {
				outs[i] = sim.Collect(s, out)
			}
			if wrong := accounted(outs, sent); wrong != "" {
				s.Errorf("%s", wrong)
			}
		})
	})
}
