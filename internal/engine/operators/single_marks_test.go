package operators_test

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/engine/state"
)

// marked returns the entries of n after they were at another location with a mark, which advances
// behind some of them.
func (d *drawnKeyed) marked(n *knode) *knode {
	op := d.op("marked")
	h := engine.Derived(op, n)
	h.Mark = state.NewMark(op)
	marked := engine.NewKeyedNode[int, int](h)
	given := state.NewVar(engine.Lasting(op), int64(0))
	after := func() {
		if *given++; *given%3 == 0 {
			h.Mark.Advance(*given)
		}
	}
	n.To(func(b *engine.Batch[int, int]) {
		marked.Push(b)
		after()
	}).One = func(k, v int, hash uint64) {
		marked.One(k, v, hash)
		after()
	}
	there := port.KeyedExchange(marked, engine.NewOp(d.other, fmt.Sprint("KMove ", d.ops), ""))
	back := port.KeyedExchange(operators.KMap(there, engine.NewOp(d.other, "KMap", ""), func(v int) int { return v + 2 }), d.op("KMove"))
	id := d.ops
	back.Mark.Follow(func(now int64) { d.say(id, "mark", now) })
	return d.watch(back)
}
