package handover

import (
	"slices"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
)

// Source and Destination are the two sides of a transfer.
type (
	Source      struct{ dataflow.Process }
	Destination struct{ dataflow.Process }
)

// A message is sent from one side to the other, or to one side from outside.
type message struct {
	Step     Step // 0 for a result of the call
	Transfer string
	Taken    bool  // in an answer: the step was made, now or before
	Results  []int // in Stage: the results that arrived while it was frozen
	Result   int   // from 1 on
	Again    bool  // the process has crashed or waited long enough: it asks again for what it does not know
}

// An emission is a message to the other side, or the fate of a result at this side.
type emission struct {
	Say      *message
	Result   int
	Resolved bool
}

// A side is one of the two. It holds one thing, which has one call.
type side struct {
	State
	Resolved bool
	Held     []int // results that arrived during the transfer
	Exported bool
	Sent     int   // number of Held that leave with the state, fixed at the first export
	Passed   []int // results that are forwarded and not yet acknowledged
}

type sideTurn = keyedstream.Turn[string, emission, struct{}]

func say(do *sideTurn, m message) { do.Emit(emission{Say: &m}) }

// resolve handles results where the call is served.
func (s *side) resolve(do *sideTurn, results ...int) {
	for _, n := range results {
		do.Emit(emission{Result: n, Resolved: !s.Resolved})
		s.Resolved = true
	}
}

// goOn handles the results that were held.
func (s *side) goOn(do *sideTurn) {
	held := s.Held
	s.Held = nil
	s.resolve(do, held...)
}

// ask makes the source ask for what it does not know.
func (s *side) ask(do *sideTurn, again bool) {
	switch {
	case s.Place == Frozen:
		if !s.Exported {
			s.Exported, s.Sent = true, len(s.Held)
		}
		say(do, message{Step: Stage, Transfer: s.Transfer, Results: slices.Clone(s.Held[:s.Sent])})
	case s.Place == Doubt && again:
		say(do, message{Step: Abort, Transfer: s.Transfer})
	case s.Place == Doubt:
		say(do, message{Step: Commit, Transfer: s.Transfer})
	case len(s.Passed) > 0:
		say(do, message{Result: s.Passed[0]})
	}
}

// leave is a step of the source.
func leave(s *side, m message, do *sideTurn) {
	switch {
	case m.Again:
		s.ask(do, true)
	case m.Step == Freeze:
		if changed, _ := s.Take(Freeze, "1.move"); changed {
			s.ask(do, false)
		}
	case m.Step == 0 && m.Taken: // it has arrived
		if i := slices.Index(s.Passed, m.Result); i >= 0 {
			s.Passed = slices.Delete(s.Passed, i, i+1)
			s.ask(do, false)
		}
	case m.Step == 0 && s.Place == Here:
		s.resolve(do, m.Result)
	case m.Step == 0 && s.Place == Gone:
		s.Passed = append(s.Passed, m.Result)
		s.ask(do, false)
	case m.Step == 0:
		s.Held = append(s.Held, m.Result)
	case m.Step == Stage && s.Place == Frozen && m.Taken:
		s.Take(Send, m.Transfer)
		s.ask(do, false)
	case m.Step == Stage && s.Place == Frozen:
		s.Take(Abort, m.Transfer)
		s.goOn(do)
	case m.Step != Stage && s.Place == Doubt:
		if (m.Step == Commit) == m.Taken { // it has committed, or can no longer be aborted
			s.Take(Commit, m.Transfer)
			s.Passed, s.Held = append(s.Passed, s.Held[s.Sent:]...), nil
		} else {
			s.Take(Abort, m.Transfer)
			s.goOn(do)
		}
		s.ask(do, false)
	}
}

// arrive is a step of the destination.
func arrive(s *side, m message, do *sideTurn) {
	switch {
	case m.Step == 0 && s.Place == Here:
		if !slices.Contains(s.Passed, m.Result) {
			s.Passed = append(s.Passed, m.Result)
			s.resolve(do, m.Result)
		}
		m.Taken = true
		say(do, m)
	case m.Step != 0:
		changed, why := s.Take(m.Step, m.Transfer)
		switch {
		case changed && m.Step == Stage:
			s.Held = m.Results
		case changed && m.Step == Commit:
			s.goOn(do)
		case changed:
			s.Held = nil
		}
		say(do, message{Step: m.Step, Transfer: m.Transfer, Taken: why == ""})
	}
}

type (
	messagesAt[L dataflow.Location, O dataflow.Order] = dataflow.KeyedStream[string, message, L, bounds.Unbounded, O, dataflow.ExactlyOnce]
	emittedAt[L dataflow.Location]                    = dataflow.KeyedStream[string, emission, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
)

// said returns the messages for the other side.
func said[L dataflow.Location](emitted emittedAt[L]) messagesAt[L, dataflow.NoOrder] {
	return keyedstream.WeakenOrder(keyedstream.FilterMap(emitted, func(e emission) (message, bool) {
		if e.Say == nil {
			return message{}, false
		}
		return *e.Say, true
	}))
}

// results returns the fates of results at one side.
func results[L dataflow.Location](emitted emittedAt[L], name string) *dataflow.OutputPort[dataflow.Entry[string, emission]] {
	return keyedstream.Output(keyedstream.Filter(emitted, func(e emission) bool { return e.Say == nil }), name)
}

// TestN82 moves a thing with a call from one location to another while a result arrives at the source. It tries all orders: of
// the messages, with one lost, repeated or both, and of a crash of the source, after which the source asks again. The
// destination stores all its state, so its crash is the same as a lost message. The thing is never here at both. It is gone at
// the source once the source knows that it is here at the destination. The call is resolved once, by the result that the
// source accepted.
func TestN82(t *testing.T) {
	for _, test := range []struct {
		name      string
		faults    sim.Faults
		again     int
		schedules int
	}{
		{"nothing", sim.Faults{}, 0, 4},
		{"lost", sim.Faults{Lose: 1}, 0, 20},
		{"repeated", sim.Faults{Repeat: 1}, 0, 77},
		{"crash", sim.Faults{}, 1, 101},
		{"lost and a crash", sim.Faults{Lose: 1}, 1, 281},
		{"lost and repeated", sim.Faults{Lose: 1, Repeat: 1}, 0, 289},
		{"repeated and a crash", sim.Faults{Repeat: 1}, 1, 2972},
	} {
		t.Run(test.name, func(t *testing.T) {
			ends := map[Place]int{}
			n := sim.Exhaustive(t, func(s *sim.Sim) { play(s, test.faults, test.again, ends) })
			if n != test.schedules || ends[Gone] == 0 {
				t.Errorf("%d schedules, want %d; the thing ends %v at the source", n, test.schedules, ends)
			}
		})
	}
}

const thing = "thing"

func play(s *sim.Sim, faults sim.Faults, again int, ends map[Place]int) {
	s.Inject(faults)
	var source, destination side
	destination.Place = None
	check := func() {
		if destination.Place == Here && !source.Place.Leaving() && source.Place != Gone {
			s.Errorf("it is %s at the source and %s at the destination", source.Place, destination.Place)
		}
	}
	from, to := dataflow.At[Source](s.Flow()), dataflow.At[Destination](s.Flow())
	in, inputs := keyedstream.SharedInput[string, message](from, "source")
	loop, answers := dataflow.Cycle[dataflow.Entry[string, message], dataflow.NoOrder](from, "answers")
	all := keyedstream.AssumeOrder(keyedstream.Merge(inputs, dataflow.Keyed(answers)), "any order is right")
	left, _ := keyedstream.Machine(all, func() *side { return &source }, func(x **side, m message, do *sideTurn) { leave(*x, m, do); check() })
	asked := keyedstream.AssumeOrder(keyedstream.Send(said(left), to), "any order is right")
	came, _ := keyedstream.Machine(asked, func() *side { return &destination }, func(x **side, m message, do *sideTurn) { arrive(*x, m, do); check() })
	loop.Complete(keyedstream.Entries(keyedstream.Send(said(came), from)))
	atSource, atDestination := results(left, "at the source"), results(came, "at the destination")
	s.Start()
	ctx := s.Context()
	s.Check(in.Send(ctx, thing, message{Step: Freeze}))
	s.Check(in.Send(ctx, thing, message{Result: 1}))
	for range again {
		s.Check(in.Send(ctx, thing, message{Again: true}))
	}
	s.Quiesce()
	for source.Place.Leaving() || len(source.Passed) > 0 { // at the end everything is asked again
		s.Check(in.Send(ctx, thing, message{Again: true}))
		s.Quiesce()
	}
	resolved, had := 0, 0
	for _, e := range append(sim.Collect(s, atSource), sim.Collect(s, atDestination)...) {
		had++
		if e.Value.Resolved {
			resolved++
		}
	}
	if resolved != 1 || had != 1 || (source.Place == Gone) != (destination.Place == Here) {
		s.Errorf("%d resolutions and %d results of 1; it is %s at the source and %s at the destination", resolved, had, source.Place, destination.Place)
	}
	ends[source.Place]++
}
