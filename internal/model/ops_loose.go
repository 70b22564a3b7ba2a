package model

import (
	"fmt"

	"github.com/millrace/millrace/bounds"
)

// An operator that gives up an order passes its input on at once, except in a simulation, where
// elements may wait behind it; see internal/engine/order.go. So outside slices the model takes
// what came through as given, and checks that it was possible.

// frees marks o as an operator that gives up an order.
func (o operator) frees() operator {
	o.loosens = true
	build := o.build
	o.build = func(b *builder, x *node, in []any) any {
		switch s := build(b, x, in).(type) {
		case streamOf[here, bounds.Unbounded, loose]:
			return taken(call{b, x.n, x.slice}, s)
		case keyedOf[here, bounds.Unbounded, loose]:
			return takenKeyed(call{b, x.n, x.slice}, s)
		default:
			return s
		}
	}
	return o
}

// recorded reports whether the output of node i is recorded.
func (p *Program) recorded(i int) bool { return p.nodes[i].op.loosens && p.nodes[i].slice < 0 }

// passed says what is wrong with the output of node i, or returns "". If all is true, nothing
// waits.
func (e *evaluator) passed(i int, all bool) string {
	x, now := &e.p.nodes[i], len(e.events)
	in := make([]Content, len(x.args))
	for a, arg := range x.args {
		in[a] = e.at(arg, now)
	}
	got, source := e.at(i, now), x.op.eval(x.n, in)
	if wrong := bagOf(got.List, source.List, all); wrong != "" {
		return wrong
	}
	for k := range together(got, source).Keyed {
		if wrong := bagOf(got.Keyed[k], source.Keyed[k], all); wrong != "" {
			return fmt.Sprint(k, ": ", wrong)
		}
	}
	return ""
}
