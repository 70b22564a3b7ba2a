package port

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// askedCalls are the calls of a simulated graph that wait to be made, in the order in which
// they were asked for.
type askedCalls[K comparable, V any] struct {
	engine.Columns[K, V]
	ids   []uint64
	times map[K]uint64 // how often a call was asked for, by key
	made  []madeCall   // whose answers were not accepted
}

// A madeCall is a call of a simulated graph whose function has returned.
type madeCall struct {
	id     uint64
	call   string
	answer func()
}

// Ask implements [engine.Calling].
func (a *async[K, V, U]) Ask() {
	q := &a.asked
	if q.times == nil {
		q.times = make(map[K]uint64)
	}
	a.loc.Calls.Add(int64(len(a.step.K)))
	for i, k := range a.step.K {
		q.times[k]++
		id := engine.ChainDigest(engine.KeyDigest(k), q.times[k])
		q.Append(true, k, a.step.V[i], a.step.H[i])
		q.ids = append(q.ids, id)
		a.op.Touch(id, engine.Writes)
		a.queues()
	}
	a.Discard()
}

// queues says that a call was asked for or made. If more ever wait than may be made at once, it
// makes a difference which was the first.
func (a *async[K, V, U]) queues() {
	if len(a.asked.ids)+len(a.asked.made) > a.limit {
		a.op.Touch(0, engine.Takes|engine.Writes)
	} else {
		a.op.Touch(0, engine.Adds)
	}
}

// Asked implements [engine.Calling].
func (a *async[K, V, U]) Asked() int { return min(len(a.asked.ids), a.limit-len(a.asked.made)) }

// CallID implements [engine.Calling].
func (a *async[K, V, U]) CallID(i int) uint64 { return a.asked.ids[i] }

// SayCall implements [engine.Calling].
func (a *async[K, V, U]) SayCall(i int) string {
	return fmt.Sprintf("%v:%v", a.asked.K[i], a.asked.V[i])
}

// CallNow implements [engine.Calling].
func (a *async[K, V, U]) CallNow(i int, later bool) {
	q := &a.asked
	a.op.Touch(q.ids[i], engine.Writes)
	a.queues()
	m := madeCall{id: q.ids[i], call: a.SayCall(i)}
	k, v, h := q.K[i], q.V[i], q.H[i]
	q.Delete(i)
	q.ids = append(q.ids[:i], q.ids[i+1:]...)
	u, ok := a.call(k, v)
	if !ok {
		return
	}
	m.answer = func() { a.in.answer(k, u, h) }
	if q.made = append(q.made, m); !later {
		a.Answer(len(q.made) - 1)
	}
}

// Made implements [engine.Calling].
func (a *async[K, V, U]) Made() int { return len(a.asked.made) }

// MadeID implements [engine.Calling].
func (a *async[K, V, U]) MadeID(i int) uint64 { return a.asked.made[i].id }

// SayMade implements [engine.Calling].
func (a *async[K, V, U]) SayMade(i int) string { return a.asked.made[i].call }

// Answer implements [engine.Calling].
func (a *async[K, V, U]) Answer(i int) {
	m := a.asked.made[i]
	a.op.Touch(m.id, engine.Writes)
	a.queues()
	a.asked.made = slices.Delete(a.asked.made, i, i+1)
	m.answer()
}

// Again implements [engine.Calling]. The call waits before those that were asked for later.
func (a *async[K, V, U]) Again(i int) func() {
	q := &a.asked
	id, k, v, h := q.ids[i], q.K[i], q.V[i], q.H[i]
	before := slices.Clone(q.ids[:i])
	return func() {
		at := 0
		for j, other := range q.ids {
			if slices.Contains(before, other) {
				at = j + 1
			}
		}
		q.K, q.V, q.H = slices.Insert(q.K, at, k), slices.Insert(q.V, at, v), slices.Insert(q.H, at, h)
		q.ids = slices.Insert(q.ids, at, id)
		a.loc.Calls.Add(1)
		a.op.Touch(id, engine.Writes)
		a.queues()
	}
}
