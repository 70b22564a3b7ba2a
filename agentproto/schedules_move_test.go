package agentproto

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/sim"
)

// TestEveryMoment plays every order of the five steps of a move, two results, an interruption and the
// end of the lifetime, which may come at any moment: 9!/(5!·2) = 1512. Inputs go to the source until it
// knows that the thread is committed, and then to the destination. In each order the two programs
// together have one result, no prompt is left open, and all inputs are accounted for.
func TestEveryMoment(t *testing.T) {
	orders := interleavings("FESCT", "aaxt")
	if len(orders) != 1512 {
		t.Errorf("%d orders, want 1512", len(orders))
	}
	for order := range orders {
		synctest.Test(t, func(t *testing.T) { playMove(t, order) })
	}
}

// interleavings returns the words made of the letters of steps, in this order, and those of others, in any order.
func interleavings(steps, others string) map[string]bool {
	all := map[string]bool{steps: true}
	for _, letter := range others {
		more := make(map[string]bool)
		for word := range all {
			for i := range len(word) + 1 {
				more[word[:i]+string(letter)+word[i:]] = true
			}
		}
		all = more
	}
	return all
}

func playMove(t *testing.T, order string) {
	m := startMovers(t)
	m.s.call(k1, func(c *Call) { c.Made = time.Now() })
	m.s.deliver(k1, oauth("u"))
	synctest.Wait()
	ctx, at := t.Context(), m.s
	var thread *ThreadSnapshot
	for _, letter := range order {
		switch letter {
		case 'F':
			m.must(m.s.Freeze(ctx, "thread", "m"))
		case 'E':
			var err error
			thread, err = m.s.Export(ctx, "thread", "m")
			m.must(err)
		case 'S':
			m.must(m.d.Stage(ctx, thread))
		case 'C':
			m.must(m.d.Commit(ctx, "thread", "m"))
		case 'T':
			m.must(m.s.Commit(ctx, "thread", "m"))
			at = m.d
		case 'a':
			at.deliver(k1, result("a"))
		case 'x':
			at.deliver(k1, Event{Kind: Interrupted})
		case 't':
			time.Sleep(DefaultOAuthTimeout)
		}
		synctest.Wait()
	}
	m.s.stop()
	m.d.stop()
	if results := m.account(t.Errorf, order); results != 1 {
		t.Errorf("%s: %d results: %s, then %s", order, results, m.s.story(k1), m.d.story(k1))
	}
}

// account reports errors in what both programs did, and returns the number of results.
func (m *movers) account(errorf func(string, ...any), order string) (results int) {
	accounted := -strings.Count(m.d.story(k1), "oauth") // the source showed it earlier
	for _, h := range []*host{m.s, m.d} {
		var a account
		for _, e := range h.effects {
			a.add(e)
		}
		if len(a.open) != 0 || len(a.wrong) != 0 {
			errorf("%s: %d prompts are left open; %q", order, len(a.open), a.wrong)
		}
		results, accounted = results+a.results, accounted+a.accounted
	}
	if accounted != 4 { // the authorization, two results, an interruption
		errorf("%s: %d inputs of 4 are accounted for: %s, then %s", order, accounted, m.s.story(k1), m.d.story(k1))
	}
	return results
}

// TestEveryMove simulates both programs together: a result and the lifetime race with each step of a move, also
// inside the programs. Either program may be told of the commit first. A host that runs both tells the
// destination first, which leaves fewer schedules.
func TestEveryMove(t *testing.T) {
	if n := everyMove(t, false); n != 105 {
		t.Errorf("%d schedules, want 105", n)
	}
	if n := everyMove(t, true); n != 66 {
		t.Errorf("%d schedules with the destination first, want 66", n)
	}
}

func everyMove(t *testing.T, destinationFirst bool) (schedules int) {
	return sim.Exhaustive(t, func(s *sim.Sim) {
		accepted := func(context.Context, *Call) DispatchOutcome { return DispatchOutcome{Accepted: true} }
		var to *Program
		from := NewProgram(ProgramOptions{Flow: s.Flow(), Now: stopped, Dispatch: accepted, Forward: func(ctx context.Context, f *Forwarded) {
			s.Check(to.Relay(ctx, f))
		}})
		to = NewProgram(ProgramOptions{Flow: s.Flow(), Now: stopped, Dispatch: accepted})
		s.Check(from.Start(s.Context()))
		to.app = from.app
		s.Check(from.Call(s.Context(), &Call{Key: k1, Invocation: &Invocation{GroupID: k1.GroupID, ID: k1.ID}}))
		s.Check(from.Deliver(s.Context(), k1, result("a")))

		ctx := s.Context()
		s.Check(from.Freeze(ctx, "thread", "m"))
		thread, err := from.Export(ctx, "thread", "m")
		s.Check(err)
		s.Check(to.Stage(ctx, thread))
		both := []*Program{from, to}
		if destinationFirst {
			both = []*Program{to, from}
		}
		for _, p := range both {
			s.Check(p.Commit(ctx, "thread", "m"))
		}
		results, accounted := 0, 0
		for _, p := range []*Program{from, to} {
			var a account
			for _, e := range sim.Collect(s, effectsOf(p)) {
				a.add(e)
			}
			results, accounted = results+a.results, accounted+a.accounted
		}
		if results != 1 || accounted != 1 {
			s.Errorf("%d results, and %d inputs of 1 are accounted for", results, accounted)
		}
	})
}
