package model

import (
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

const why = "the model says what each cut shows"

// none is the evaluation of an operator that the evaluator handles by its edge.
func none(int, Content) Content { return Content{} }

// operators returns all operators of which programs are made.
func operators() []operator {
	type (
		b   = bounds.Bounded
		bv  = bounds.BoundedValue
		rv  = bounds.RetainedValue
		mv  = bounds.MonotonicValue
		mk  = bounds.MonotonicKeys
		u   = bounds.Unbounded
		in  = inside
		out = here
	)
	var all []operator
	for _, ops := range [][]operator{
		edges(), inputs(), lates(), arrangers(), forgetfuls(), entrances[u](), entrances[mv](), changing[rv](), changing[mv](), changing[mk](), changing[u](), emits[ordered](), emits[loose](),

		someOf[out, u, ordered, mv](), someOf[out, u, loose, mv](), rowOf[out, u, mv](),
		somesOf[out, u, ordered, mv, mk](), somesOf[out, u, loose, mv, mk](), rowsOf[out, u, mv, mk, bv](),
		anyOf[out, bv, bv, bv, mv, u](), anyOf[out, rv, rv, rv, u, u](), anyOf[out, mv, mk, u, mv, u](), anyOf[out, mk, mk, u, mv, u](), anyOf[out, u, u, u, u, u](),
		fixedOf[out, bv, u](), permanentOf[out, bv, u](), growingOf[out, bv, bv, u, bv](), growingOf[out, mv, bv, u, bv](),
		valuesOf[out, mv, u](), valuesOf[out, u, u](), maybesOf[out, mv, u](), maybesOf[out, u, u](), risingOf[out, mv, u](),

		someOf[in, b, ordered, b](), someOf[in, b, loose, b](), rowOf[in, b, b](),
		somesOf[in, b, ordered, b, b](), somesOf[in, b, loose, b, b](), rowsOf[in, b, b, b, b](),
		anyOf[in, b, b, b, b, b](), fixedOf[in, b, b](), permanentOf[in, b, b](), growingOf[in, b, b, b, b](),
		valuesOf[in, b, b](), maybesOf[in, b, b](), risingOf[in, b, b](), relations(), findings(), wholes(),
	} {
		all = append(all, ops...)
	}
	return all
}

// inputs returns the inputs for several senders, which are rare. The other inputs are in
// edges.
func inputs() []operator {
	return []operator{
		op0("dataflow.SharedInput", func(c call) streamOf[here, bounds.Unbounded, loose] {
			port, s := dataflow.SharedInput[int](c.at, c.name)
			c.send = func(_, v int) error { return port.Send(c.ctx, v) }
			c.sendBatch = func(ks, vs []int) []error { return prefix(len(vs))(port.SendBatch(c.ctx, vs)) }
			c.close = port.Close
			took := c.took
			return dataflow.Inspect(s, func(x int) { took(0, x) })
		}, nil).at(input).rarely(),
		op0("dataflow.RetriedInput", func(c call) streamOf[here, bounds.Unbounded, loose] {
			port, s := dataflow.RetriedInput[int](c.at, c.name)
			c.send = func(_, v int) error { return port.Send(c.ctx, v) }
			c.sendBatch = func(ks, vs []int) []error { return prefix(len(vs))(port.SendBatch(c.ctx, vs)) }
			c.close = port.Close
			took := c.took
			return dataflow.Inspect(dataflow.AssumeOnce(s, "the model sends each once"), func(x int) { took(0, x) })
		}, nil).at(input).rarely(),
		op0("dataflow.SenderInput", func(c call) streams {
			port, s := dataflow.SenderInput[int, int](c.at, c.name)
			c.send = func(k, v int) error { return port.Sender(k).Send(c.ctx, v) }
			c.close = port.Close
			return keyedstream.InspectWithKey(s, c.took)
		}, nil).at(input).rarely(),
		op0("keyedstream.SharedInput", func(c call) keyedOf[here, bounds.Unbounded, loose] {
			port, s := keyedstream.SharedInput[int, int](c.at, c.name)
			c.send = func(k, v int) error { return port.Send(c.ctx, k, v) }
			c.sendBatch = func(ks, vs []int) []error { return prefix(len(vs))(port.SendBatch(c.ctx, ks, vs)) }
			c.close = port.Close
			return keyedstream.InspectWithKey(s, c.took)
		}, nil).at(input).rarely(),
		op0("keyedstream.RetriedInput", func(c call) keyedOf[here, bounds.Unbounded, loose] {
			port, s := keyedstream.RetriedInput[int, int](c.at, c.name)
			c.send = func(k, v int) error { return port.Send(c.ctx, k, v) }
			c.sendBatch = func(ks, vs []int) []error { return prefix(len(vs))(port.SendBatch(c.ctx, ks, vs)) }
			c.close = port.Close
			return keyedstream.InspectWithKey(keyedstream.AssumeOnce(s, "the model sends each once"), c.took)
		}, nil).at(input).rarely(),
	}
}

// prefix returns a function that converts the result of a batch of n records to a result
// for each record.
func prefix(n int) func(accepted int, err error) []error {
	return func(accepted int, err error) []error {
		errs := make([]error, n)
		for i := accepted; i < n; i++ {
			errs[i] = err
		}
		return errs
	}
}

// entries returns an input of entries.
func entries(c call, how ...dataflow.Sequence[int]) fixed {
	port, s := keyedsingleton.Input[int, int](c.at, c.name, how...)
	c.send = func(k, v int) error { return port.Put(c.ctx, k, v) }
	c.sendBatch = func(ks, vs []int) []error {
		errs, err := port.PutBatch(c.ctx, ks, vs)
		if err != nil && !slices.Contains(errs, err) { // the step of another record failed
			errs[len(errs)-1] = err
		}
		return errs
	}
	c.close = port.Close
	return keyedsingleton.InspectWithKey(s, c.took)
}

// edges returns the inputs, and the operators that cross the border of a slice in only
// one direction.
func edges() []operator {
	return []operator{
		op0("dataflow.Input", func(c call) stream {
			port, s := dataflow.Input[int](c.at, c.name)
			c.send = func(_, v int) error { return port.Send(c.ctx, v) }
			c.sendBatch = func(ks, vs []int) []error { return prefix(len(vs))(port.SendBatch(c.ctx, vs)) }
			c.close = port.Close
			took := c.took
			return dataflow.Inspect(s, func(x int) { took(0, x) })
		}, nil).at(input),
		op0("keyedstream.Input", func(c call) streams {
			port, s := keyedstream.Input[int, int](c.at, c.name)
			c.send = func(k, v int) error { return port.Send(c.ctx, k, v) }
			c.sendBatch = func(ks, vs []int) []error { return prefix(len(vs))(port.SendBatch(c.ctx, ks, vs)) }
			c.close = port.Close
			return keyedstream.InspectWithKey(s, c.took)
		}, nil).at(input),
		op0("keyedsingleton.Input", func(c call) fixed { return entries(c) }, nil).at(input),
		op0("keyedsingleton.Input, counted", func(c call) fixed { return entries(c, numbers(c.n)) }, nil).at(input).draws("keyedsingleton.Input", "dataflow.Sequenced"),
		op1("slice.BatchEntries", func(c call, s fixed) content { return slice.BatchEntries(c.ticks[c.slice], s, why) }, none).at(batch),
		op0("slice.State", func(c call) value {
			v, keep := slice.State(c.ticks[c.slice], c.n)
			c.keeps = func(next any) { keep(next.(value)) }
			return v
		}, func(n int) Content { return Content{Value: n} }).at(state),
		op0("slice.StateEntries", func(c call) content {
			v, keep := slice.StateEntries(c.ticks[c.slice], dataflow.Entry[int, int]{Key: c.n % 4, Value: c.n})
			c.keeps = func(next any) { keep(next.(content)) }
			return v
		}, func(n int) Content { return ofEntries(map[int]int{n % 4: n}) }).at(state),
		op1("slice.EmitEntries", func(_ call, s content) fixed { return slice.EmitEntries(s) }, none).at(emit),
		op1("slice.Latest", func(c call, x value) valueOf[here, bounds.Unbounded] { return slice.Latest(x, c.n) },
			func(n int, _ Content) Content { return Content{Value: n} }).at(latest).first(),
		op1("slice.LatestOptional", func(_ call, x maybeOf[inside, bounds.Bounded]) maybeOf[here, bounds.Unbounded] {
			return slice.LatestOptional(x)
		}, none).at(latest).first(),
	}
}

// first makes the evaluation of an operator that has a content before there is any input.
func (o operator) first() operator {
	eval := o.eval
	o.eval = func(n int, _ []Content) Content { return eval(n, []Content{{}}) }
	return o
}

// entrances returns the ways into a slice for a single value and for streams.
func entrances[B bounds.Singleton]() []operator {
	ops := []operator{
		op1("slice.Snapshot", func(c call, s valueOf[here, B]) value {
			x := slice.Snapshot(c.ticks[c.slice], s, why)
			if c.passive {
				x = slice.Passive(x)
			}
			return x
		}, none).at(snapshot).draws("slice.Passive"),
		op1("slice.SnapshotOptional", func(c call, s maybeOf[here, B]) maybeOf[inside, bounds.Bounded] {
			x := slice.SnapshotOptional(c.ticks[c.slice], s, why)
			if c.passive {
				x = slice.Passive(x)
			}
			return x
		}, none).at(snapshot).draws("slice.Passive"),
	}
	return ops
}

// changing returns the way into a slice for entries that change.
func changing[B interface {
	bounds.Changing
	bounds.KeyedSingleton
}]() []operator {
	return []operator{op1("slice.SnapshotEntries", func(c call, s entriesOf[here, B]) content {
		x := slice.SnapshotEntries(c.ticks[c.slice], s, why)
		if c.passive {
			x = slice.Passive(x)
		}
		return x
	}, none).at(snapshot).draws("slice.Passive")}
}

// emits returns the ways in and out of a slice for streams of one order.
func emits[O dataflow.Order]() []operator {
	return []operator{
		op1("slice.Batch", func(c call, s streamOf[here, bounds.Unbounded, O]) streamOf[inside, bounds.Bounded, O] {
			return slice.Batch(c.ticks[c.slice], s, why)
		}, none).at(batch),
		op1("slice.BatchKeyed", func(c call, s keyedOf[here, bounds.Unbounded, O]) keyedOf[inside, bounds.Bounded, O] {
			return slice.BatchKeyed(c.ticks[c.slice], s, why)
		}, none).at(batch),
		op1("slice.Emit", func(_ call, s streamOf[inside, bounds.Bounded, O]) streamOf[here, bounds.Unbounded, O] {
			return slice.Emit(s)
		}, none).at(emit),
		op1("slice.EmitKeyed", func(_ call, s keyedOf[inside, bounds.Bounded, O]) keyedOf[here, bounds.Unbounded, O] {
			return slice.EmitKeyed(s)
		}, none).at(emit),
	}
}
