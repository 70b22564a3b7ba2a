package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A reading is an output of a program, as goroutines outside of the flow read it. Only the
// functions that its kind of output supports are set.
type reading struct {
	node  int
	kind  kind
	given Content                    // what a stream or fixed entries received so far; guarded by the run token
	order []dataflow.Entry[int, int] // the elements of a stream, in order

	latest func() Content
	get    func(k int) (int, bool)
	await  func(ctx context.Context, k int) (int, error)
	length func() int
	next   func(ctx context.Context) (k, v int, err error)
}

// reading adds an output of node i, which is at the top level.
func (b *builder) reading(i int) *reading {
	r := &reading{node: i, kind: kinds[b.p.nodes[i].op.out]}
	r.given.prepare()
	name := fmt.Sprint("n", i, " read")
	one := func(x int) {
		r.given.List, r.order = append(r.given.List, x), append(r.order, dataflow.Entry[int, int]{Value: x})
	}
	many := func(k, v int) {
		r.given.Keyed[k], r.order = append(r.given.Keyed[k], v), append(r.order, dataflow.Entry[int, int]{Key: k, Value: v})
	}
	plain := func(port *dataflow.OutputPort[int]) {
		r.next = func(ctx context.Context) (int, int, error) { v, err := port.Next(ctx); return 0, v, err }
	}
	keys := func(port *dataflow.OutputPort[dataflow.Entry[int, int]]) {
		r.next = func(ctx context.Context) (int, int, error) { e, err := port.Next(ctx); return e.Key, e.Value, err }
	}
	if r.latest = latestOf(b.built[i], name); r.latest != nil {
		return r
	}
	switch s := b.built[i].(type) {
	case stream:
		plain(dataflow.Output(dataflow.Inspect(s, one), name))
	case streamOf[here, bounds.Unbounded, loose]:
		plain(dataflow.Output(dataflow.Inspect(s, one), name))
	case streams:
		keys(keyedstream.Output(keyedstream.InspectWithKey(s, many), name))
	case keyedOf[here, bounds.Unbounded, loose]:
		keys(keyedstream.Output(keyedstream.InspectWithKey(s, many), name))
	case fixed:
		out := keyedsingleton.Output(keyedsingleton.InspectWithKey(s, func(k, v int) { r.given.Entries[k] = v }), name)
		r.get, r.await, r.length = out.Get, out.Await, out.Len
	default:
		panic(fmt.Sprintf("model: there is no output of a %T", s))
	}
	return r
}

// shown returns what the output shows; for a stream, all elements that it received. The
// caller must hold the run token, between two publications.
func (r *reading) shown() string {
	if r.latest != nil {
		return r.kind.text(r.latest())
	}
	if r.get == nil {
		return r.kind.text(r.given)
	}
	c := Content{Entries: make(map[int]int)}
	for k := range r.given.Entries {
		if v, ok := r.get(k); ok {
			c.Entries[k] = v
		}
	}
	if n := r.length(); n != len(c.Entries) {
		return fmt.Sprint(r.kind.text(c), " and a length of ", n)
	}
	return r.kind.text(c)
}

// opsUntil holds the number of operators at the location after each node was built. It maps
// an operator to its node.
type opsUntil []int

func (o opsUntil) node(op int) int {
	i, _ := slices.BinarySearch(o, op+1)
	return i
}
