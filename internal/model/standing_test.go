package model

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/simulate"
	"github.com/millrace/millrace/internal/long"
)

// The standing test checks that production does only what the definition of a flow allows. A
// random program runs in production, with goroutines that send, read, wait, spin and make
// calls. Goroutines outside of the flow, functions within a step, calls and another location
// read its outputs. Fresh graphs then replay the recording in two ways.
//
// One graph makes a whole step at a time:
//
//   - Each value that was read from an output must be what that output shows after some step
//     that was current during the read, and not before a step that had been seen anywhere;
//     see [replayedRun.explain].
//   - The readers of streams must have received all elements.
//   - At every publication, every output must show what the replay shows and what the model
//     computes from the records that were taken.
//
// The other graph makes one event at a time:
//
//   - Each event must have been possible; see [membership].
//   - After the last event of a step, the outputs must show the same.
//   - Timers must fire in the same order.
//
// The test catches a partial publication, a timer that overtakes another, a slice that is not
// cut, a record that is lost, repeated or overtaken, a call or a message that precedes the step
// that caused it, and a simulator that does not offer what production does.
var (
	standingFlows = flag.Int("standing.flows", long.Of(200, 1000), "how many flows the standing test runs in production")
	standingFrom  = flag.Int("standing.from", 0, "the number of the first of them")
	standingTries = flag.Int("standing.tries", 1, "how often each of them is run")
)

// TestStanding runs random programs in production and checks each run.
func TestStanding(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	did := make(tally)
	for n := *standingFrom; n < *standingFrom+*standingFlows; n++ {
		for range *standingTries {
			s := drawScript(rand.New(rand.NewPCG(*seed, uint64(n))), n)
			if err := s.stand(t, did); err != nil {
				t.Fatalf("flow %d:\n%s%v\nrerun: go test ./internal/model -run '^TestStanding$' -seed %d -standing.from %d -standing.flows 1 -standing.tries 1000", n, s, err, *seed, n)
			}
		}
	}
	t.Log(did)
	if *standingFlows < 500 {
		return
	}
	for what, least := range map[string]int{
		"events": 20, "sights": 100, "sights from calls": 1, "sights from other locations": 1, "elements read": 5, "firings": 1,
		"steps of several records": 2, "batches": 1,
	} {
		if did[what] < least**standingFlows {
			t.Errorf("%d %s in %d flows: the test sees too little", did[what], what, *standingFlows)
		}
	}
	for _, what := range []string{"led through the simulator", "in a bubble", "on two processors", "records refused", "timers led through the simulator", "batches of several keys", "elements that waited where an order is given up"} {
		if did[what] < *standingFlows/20 {
			t.Errorf("%d flows of %d: %s: the test sees too little", did[what], *standingFlows, what)
		}
	}
}

// A tally counts what must occur in the runs for the test to be meaningful.
type tally map[string]int

// String returns the counts in the order of their names.
func (c tally) String() string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprintf("%s: %d", what, c[what]))
	}
	return fmt.Sprintf("%q", all)
}

func (c tally) countIf(yes bool, what string) {
	if yes {
		c[what]++
	}
}

// stand runs a script in production and checks the run.
func (s *script) stand(t *testing.T, did tally) (err error) {
	runtime.GOMAXPROCS(s.procs)
	var r *production
	if s.bubble {
		synctest.Test(t, func(*testing.T) { r, err = produce(s) })
	} else {
		r, err = produce(s)
	}
	if err != nil {
		return err
	}
	c, err := replay(s, &r.recording)
	if err != nil {
		return err
	}
	if err := r.check(c); err != nil {
		return err
	}
	if err := c.agrees(); err != nil {
		return err
	}
	all := []membership{newRules(r), &counted{did: did}}
	simulated, hole := newSimulatedRun(s)
	if hole == "" {
		all = append(all, simulated)
	}
	did.countIf(hole == "", "led through the simulator")
	did.countIf(hole == "" && s.p.hasTimers(), "timers led through the simulator")
	did.countIf(hole != "", "not led because of "+hole)
	if err := walkThrough(r, c, all...); err != nil {
		return fmt.Errorf("event by event: %w", err)
	}
	if err := r.compare(true); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	if simulated != nil {
		did["elements that waited where an order is given up"] += simulated.passed
	}
	did["flows"]++
	did.countIf(s.bubble, "in a bubble")
	did.countIf(s.procs > 1, "on two processors")
	did["sights"] += len(r.sights)
	for _, x := range r.sights {
		did.countIf(x.asked >= 0, "sights from calls")
		did.countIf(x.moved >= 0, "sights from other locations")
		did.countIf(x.form == aNext, "elements read")
	}
	for _, x := range r.sent {
		did.countIf(x.refused, "records refused")
		did.countIf(len(x.records) > 1, "batches")
		did.countIf(slices.ContainsFunc(x.accepted, func(r Record) bool { return r.key != x.accepted[0].key }), "batches of several keys")
	}
	return nil
}

// counted is a membership that accepts every event and counts it.
type counted struct {
	did   tally
	taken int // in this step
}

func (m *counted) possible(_ *walk, e simulate.Event) error {
	m.did["events"]++
	m.did.countIf(e.Fire, "firings")
	if e.In != nil {
		m.taken++
	}
	return nil
}

func (m *counted) stepped(*walk, int) error {
	m.did.countIf(m.taken > 1, "steps of several records")
	m.taken = 0
	return nil
}

func (m *counted) ended(*walk) error { return nil }

// slept advances the time of a bubble.
func slept(d time.Duration) { time.Sleep(d) }
