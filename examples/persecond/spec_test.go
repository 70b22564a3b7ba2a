package main

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// ask makes a request and waits for its answer.
func ask(id string, second int) sim.Client[Ports] {
	return sim.Client[Ports]{Name: id, Do: func(c *sim.Ctx, p Ports) error {
		if err := p.Requests.Put(c, id, second); err != nil {
			return err
		}
		_, err := p.Answers.Await(c, id)
		return err
	}}
}

// passed returns how many of some requests have passed.
func passed(p Ports, ids ...string) (n int) {
	for _, id := range ids {
		if a, ok := p.Answers.Get(id); ok && a.Passes {
			n++
		}
	}
	return n
}

// race specifies what holds when ann and bob ask in the same second.
func race(build func(*dataflow.Flow) Ports) sim.Spec[Ports] {
	return sim.Spec[Ports]{
		Build:   build,
		Clients: []sim.Client[Ports]{ask("ann", 7), ask("bob", 7)},
		Always: map[string]func(*sim.View, Ports) error{"at most one passes": func(_ *sim.View, p Ports) error {
			if n := passed(p, "ann", "bob"); n > Limit {
				return fmt.Errorf("%d have passed", n)
			}
			return nil
		}},
		Eventually: map[string]func(*sim.View, Ports) error{"one passes": func(_ *sim.View, p Ports) error {
			if passed(p, "ann", "bob") == 0 {
				return fmt.Errorf("nobody has passed")
			}
			return nil
		}},
		Sometimes: map[string]func(*sim.View, Ports) bool{
			"ann passes": func(_ *sim.View, p Ports) bool { return passed(p, "ann") == 1 },
			"bob passes": func(_ *sim.View, p Ports) bool { return passed(p, "bob") == 1 },
		},
	}
}

// TestRace runs all schedules of ann and bob.
func TestRace(t *testing.T) { sim.Test(t, race(Build)) }
