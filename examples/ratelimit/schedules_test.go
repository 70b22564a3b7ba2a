package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

// An event is an answer, or that the window of a request that passed is over.
type event struct {
	answer
	over bool
}

// play lets clients make requests, all of which may race with the ends of their windows,
// and looks at them with timers of its own: at no moment there are more requests that
// passed and whose window is not over than the rule says, and none is refused while
// there are fewer.
func play(s *sim.Sim, r rule, clients string, each int) {
	at := dataflow.At[Gate](s.Flow())
	pause(s, at, r.Window*3/5)
	port, asked := keyedsingleton.Input[string, string](at, "requests")
	answered := answersOf(takeTurns(asked, r))
	passed := keyedsingleton.Filter(answered, func(a answer) bool { return a.Passed })
	over := keyedsingleton.After(passed, r.Window, "the witness has a clock of its own")
	all := dataflow.Merge(events(answered, false), events(over, true))
	seen := dataflow.Output(dataflow.AssumeOrder(all, "the witness counts along"), "seen")
	out := keyedsingleton.Output(answered, "answers")
	s.Start()

	var ids []string
	for _, client := range strings.Fields(clients) {
		for i := range each {
			id := fmt.Sprint(client, "/", i)
			ids = append(ids, id)
			s.Check(port.Put(s.Context(), id, client))
		}
	}
	open := make(map[string]int) // windows of a client
	for _, e := range sim.Collect(s, seen) {
		client, _, _ := strings.Cut(e.Key, "/")
		switch before := open[client]; {
		case e.Value.over:
			open[client]--
		case e.Value.Passed && before >= r.Limit:
			s.Errorf("%s passes as number %d in a window", e.Key, before+1)
		case e.Value.Passed:
			open[client]++
		case before < r.Limit:
			s.Errorf("%s is refused after %d in a window", e.Key, before)
		}
	}
	for _, id := range ids {
		if _, ok := out.Get(id); !ok {
			s.Errorf("%s is not answered", id)
		}
	}
}

// pause sets a timer of which only the firing counts. In a simulation time passes from
// one deadline to the next, so that without it all windows would begin at the start or
// when another one is over, and no two would overlap.
func pause(s *sim.Sim, at Gate, d time.Duration) {
	begin, begun := keyedsingleton.Input[string, bool](at, "pause")
	keyedsingleton.After(begun, d, "somewhere within a window")
	s.Check(begin.Put(s.Context(), "pause", true))
	begin.Close()
}

// events returns entries as the events that they are, each with its request.
func events(as answers, over bool) dataflow.Stream[dataflow.Entry[string, event], Gate, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
	return keyedsingleton.Entries(keyedsingleton.Map(as, func(a answer) event { return event{a, over} }))
}

// TestEverySchedule has a client make four requests where two may pass.
func TestEverySchedule(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) { play(s, rule{Limit: 2, Window: time.Second}, "ann", 4) })
	if want := 336; n != want {
		t.Errorf("%d schedules, want %d", n, want)
	}
}

// TestManySchedules tries some of the schedules of two clients that make five each.
func TestManySchedules(t *testing.T) {
	n := sim.Random(t, 2000, func(s *sim.Sim) { play(s, rule{Limit: 2, Window: time.Second}, "ann bob", 5) })
	if n < 1000 {
		t.Errorf("only %d of 2000 schedules are different ones", n)
	}
}
