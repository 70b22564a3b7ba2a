package machines

import (
	"time"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A timerID names a timer: the index of the life it belongs to, and its number there. It is one word, which is hashed quickly.
type timerID uint64

func timerIDOf(life uint32, id uint8) timerID { return timerID(life)<<8 | timerID(id) }

func (r timerID) life() uint32 { return uint32(r >> 8) }

func (r timerID) id() uint8 { return uint8(r) }

// timers holds the timers of all lives of a machine.
//
// It maintains, between turns:
//
//  1. a timer is in byID if and only if it is set, and is in due under the index of its entry,
//  2. the timers of a life are a list that starts at life.timer and is linked by the values of byID,
//  3. a life that will be forgotten is in idle under the index of its entry.
type timers struct {
	byID *keyed.Table[timerID, uint16] // each with the next timer of its life, plus one
	hash *keyed.Hasher[timerID]
	due  *state.Deadlines // for byID
	idle *state.Deadlines // for lives
}

// TimedMachine is [Machine] with a clock: fire is called with each timer that turn has set, when it is due. Timers and values
// come in one order.
func TimedMachine[K comparable, V, S, U, A any](in *engine.KeyedNode[K, V], op *engine.Op, turn *Turn[K, U, A], init func() S, step func(*S, V), fire func(*S, uint8)) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, A]) {
	m := newTimed(in, op, turn, init, state.Plain[S], fire)
	takeValues(m, in, step)
	return m.emitted, m.decided
}

func newTimed[K comparable, V, S, U, A any](in *engine.KeyedNode[K, V], op *engine.Op, turn *Turn[K, U, A], init func() S, stateCodec func(*engine.Op) codec.Of[S], fire func(*S, uint8)) *machine[K, S, U, A] {
	h := engine.Derived(op, in)
	m := newMachine(h, op, turn, init, stateCodec)
	memory := engine.Remember(op, &h)
	byID := state.NewTable(memory, timerIDCodec, nextCodec)
	m.timers = &timers{
		byID: byID, hash: engine.Hasher[timerID](),
		due: state.NewVaryingDeadlines(memory, byID, true), idle: state.NewVaryingDeadlines(memory, m.lives, false),
	}
	keyOf := func(i uint32) any {
		k, _, _ := m.lives.At(i)
		return k
	}
	m.timers.idle.Keys(op, keyOf)
	m.timers.due.Keys(op, func(j uint32) any {
		name, _, _ := byID.At(j)
		return keyOf(name.life())
	})
	m.watch = h.Loc.Graph.Settings.Watch
	r := &timerQueue[K, S, U, A]{machine: m, fire: fire}
	op.Scratch(&r.failing)
	h.Loc.Timed(r, op)
	h.Loc.Timed(&idleQueue[K, S, U, A]{machine: m}, op)
	op.Clocked()
	return m
}

// set carries out what a turn did about the timers of life i.
func (m *machine[K, S, U, A]) set(i uint32, l *life[S]) {
	for _, x := range m.turn.timers {
		name := timerIDOf(i, x.id)
		if x.d == stopped {
			if j, next := m.timers.byID.GetIndex(name, m.timers.hash.Hash(name)); next != nil {
				m.timers.due.Cancel(j)
				m.unlink(i, l, x.id)
				m.stopped()
			}
			continue
		}
		j, next, added := m.timers.byID.PutIndex(name, m.timers.hash.Hash(name))
		if added {
			*next, l.timer = l.timer, uint16(x.id)+1
		}
		m.timers.due.Add(j, m.alarm(x.d))
	}
	if m.turn.idles {
		m.timers.idle.Add(i, m.alarm(m.turn.idle))
	}
}

// alarm returns the deadline of a timer that is set now.
func (m *machine[K, S, U, A]) alarm(d time.Duration) int64 {
	at := m.loc.Alarm(d)
	if at < m.loc.ArmedFor { // otherwise the location wakes up in time anyway
		m.loc.Rearm = true
	}
	return at
}

// stopped makes the location recompute what it waits for if that was the last timer, because it may now end without it.
func (m *machine[K, S, U, A]) stopped() {
	if m.timers.due.Len() == 0 {
		m.loc.Rearm = true
	}
}

// unlink removes a timer of a life, which will not fire.
func (m *machine[K, S, U, A]) unlink(i uint32, l *life[S], id uint8) {
	t := m.timers
	name := timerIDOf(i, id)
	h := t.hash.Hash(name)
	_, next := t.byID.GetIndex(name, h)
	if after := *next; l.timer == uint16(id)+1 {
		l.timer = after
	} else {
		for before := l.timer; ; {
			name := timerIDOf(i, uint8(before-1))
			j, behind := t.byID.GetIndex(name, t.hash.Hash(name))
			if before = *behind; before == uint16(id)+1 {
				t.byID.Change(j)
				*behind = after
				break
			}
		}
	}
	t.byID.Delete(name, h)
}

// stopAll stops the timers of a life that ends.
func (m *machine[K, S, U, A]) stopAll(i uint32, l *life[S]) {
	t := m.timers
	t.idle.Cancel(i)
	if l.timer == 0 {
		return
	}
	for l.timer != 0 {
		name := timerIDOf(i, uint8(l.timer-1))
		h := t.hash.Hash(name)
		j, next := t.byID.GetIndex(name, h)
		t.due.Cancel(j)
		l.timer = *next
		t.byID.Delete(name, h)
	}
	m.stopped()
}

// timerQueue is the timer queue of a machine's timers that call a function.
type timerQueue[K comparable, S, U, A any] struct {
	engine.EveryTimer
	*machine[K, S, U, A]
	fire    func(*S, uint8)
	blames  bool
	failing failing[K] // if blames is set
}

func (r *timerQueue[K, S, U, A]) Next() (int64, bool) { return r.timers.due.Next() }

func (r *timerQueue[K, S, U, A]) Running() int { return r.timers.due.Len() }

// Deadlines implements [engine.ManyTimers].
func (r *timerQueue[K, S, U, A]) Deadlines(do func(key any, at int64)) { r.timers.due.EachKey(do) }

// Stepwise implements [engine.SteppedTimer]: the called function sets timers.
func (r *timerQueue[K, S, U, A]) Stepwise() {}

func (r *timerQueue[K, S, U, A]) Expire(now int64) {
	m := r.machine
	m.loc.At = m.op.Index
	m.timers.due.Expire(now, func(j uint32) {
		name, _, _ := m.timers.byID.At(j)
		i, id := name.life(), name.id()
		k, l, _ := m.lives.At(i)
		m.lives.Change(i)
		m.unlink(i, l, id)
		m.turn.begin(k)
		if m.watch != nil {
			m.observed(k, digest.Of(id))
		}
		if r.blames {
			r.failing = failing[K]{true, k, id, m.timers.due.At(j)}
		}
		r.fire(&l.state, id)
		m.settle(k, m.hash.Hash(k), i, l)
		if r.blames {
			m.flush()
		}
	})
	m.flush()
	if r.blames {
		r.failing = failing[K]{}
	}
}

// idleQueue is the timer queue of lives that are forgotten after a while.
type idleQueue[K comparable, S, U, A any] struct {
	*machine[K, S, U, A]
}

func (r *idleQueue[K, S, U, A]) Next() (int64, bool) { return r.timers.idle.Next() }

func (r *idleQueue[K, S, U, A]) Running() int { return r.timers.idle.Len() }

// Deadlines implements [engine.ManyTimers].
func (r *idleQueue[K, S, U, A]) Deadlines(do func(key any, at int64)) { r.timers.idle.EachKey(do) }

func (r *idleQueue[K, S, U, A]) Skip(int64) {}

// Idle returns true: nothing is lost if the flow ends before a life is forgotten.
func (r *idleQueue[K, S, U, A]) Idle() bool { return true }

func (r *idleQueue[K, S, U, A]) Expire(now int64) {
	m := r.machine
	m.timers.idle.Expire(now, func(i uint32) {
		k, l, _ := m.lives.At(i)
		m.lives.Change(i)
		if m.watch != nil {
			m.observed(k, digest.Of("forgotten"))
		}
		m.end(k, m.hash.Hash(k), i, l)
	})
	m.flush()
}
