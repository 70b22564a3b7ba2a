package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/dataflow"
)

// Ticks reports whether the program has an interval.
func (p *Program) Ticks() bool {
	return slices.ContainsFunc(p.nodes, func(x node) bool { return x.op.name == "dataflow.Interval" })
}

// Observe builds a program in flow and sends the first early records of its history. It then
// calls start, sends the rest, calls run, which runs the flow until it is quiet, and returns
// what the collections outside slices hold. If ends is true, it returns only collections from
// which no other is made.
func Observe(ctx context.Context, p *Program, h History, early int, ends bool, flow *dataflow.Flow, start, run func()) (string, error) {
	b := build(ctx, p, flow, func(i int) bool { return p.lives(i) < 0 && !(ends && read(p, i)) })
	for i, r := range h {
		if i == early {
			start()
		}
		if err := b.sends[r.input](r.key, r.value); err != nil {
			return "", err
		}
	}
	if early >= len(h) {
		start()
	}
	run()
	var seen strings.Builder
	for _, w := range b.observed {
		got := w.all
		if w.now != nil {
			got = w.now()
		}
		fmt.Fprintf(&seen, "n%d: %s\n", w.node, kinds[p.nodes[w.node].op.out].text(got))
	}
	return seen.String(), nil
}
