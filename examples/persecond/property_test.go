package main

import (
	"fmt"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
)

// traffic generates requests of up to three clients, each in one of two seconds.
var traffic = simprop.Traffic(simprop.Entries("requests",
	func(p Ports) *dataflow.EntryInputPort[string, int] { return p.Requests },
	gen.OneConstOf("a", "b", "c", "d"), gen.IntRange(1, 2)))

// limits is the property that in each second with requests exactly one passes.
func limits(build func(*dataflow.Flow) Ports) gopter.Prop {
	return simprop.Holds(func(c simprop.Case[Ports]) sim.Spec[Ports] {
		return sim.Spec[Ports]{
			Build: build, Clients: c.Clients(),
			Eventually: map[string]func(*sim.View, Ports) error{"one request of a second passes": func(_ *sim.View, p Ports) error {
				return limited(p, simprop.Sent[dataflow.Entry[string, int]](c, "requests"))
			}},
		}
	}, traffic)
}

// limited checks the answers to requests. Of several requests with the same id, one was accepted.
func limited(p Ports, requests []dataflow.Entry[string, int]) error {
	var asked, passed [3]map[string]bool // by second
	for second := range asked {
		asked[second], passed[second] = make(map[string]bool), make(map[string]bool)
	}
	for _, r := range requests {
		a, ok := p.Answers.Get(r.Key)
		if !ok {
			return fmt.Errorf("%s has no answer", r.Key)
		}
		asked[a.Second][r.Key] = true
		if a.Passes {
			passed[a.Second][r.Key] = true
		}
	}
	for second := range asked {
		if got, want := len(passed[second]), min(len(asked[second]), Limit); got != want {
			return fmt.Errorf("%d requests of second %d pass, and it should be %d", got, second, want)
		}
	}
	return nil
}

// TestLimits checks the limit for random requests.
func TestLimits(t *testing.T) {
	simprop.Run(t, map[string]gopter.Prop{"one request of a second passes": limits(Build)})
}
