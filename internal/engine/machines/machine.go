package machines

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A life is what a machine holds for a key.
type life[S any] struct {
	state   S
	timer   uint16 // its first set timer, plus one
	decided bool
}

// State returns a pointer to the state that the functions of the program use, for package lookup.
func (l *life[S]) State() any { return &l.state }

// A machine is the state of a machine operator. What functions did in a batch is pushed together: first what was emitted, then
// what was decided and forgotten.
type machine[K comparable, S, U, A any] struct {
	op    *engine.Op
	loc   *engine.Location
	hash  *keyed.Hasher[K]
	init  func() S
	lives *keyed.Table[K, life[S]]
	turn  *Turn[K, U, A]

	emitted    *engine.KeyedNode[K, U]
	decided    *engine.KeyedNode[K, A]
	goneWanted bool // an operator below remembers decisions
	goneKnown  bool // goneWanted is known, because the graph is complete
	us         engine.Columns[K, U]
	as         engine.Columns[K, A]
	gone       []bool // of as
	ends       bool   // one of them is true
	ub         engine.Batch[K, U]
	ab         engine.Batch[K, A]

	timers  *timers        // nil without a clock
	ended   func(s *S)     // called for each life that ends, if not nil
	flushed func()         // called at the end of a batch, if not nil
	watch   engine.Watcher // if the order of each key is observed
}

// Machine runs a state machine for each key of in, and passes the key's values to step one after another. step acts on the key
// through turn.
func Machine[K comparable, V, S, U, A any](in *engine.KeyedNode[K, V], op *engine.Op, turn *Turn[K, U, A], init func() S, step func(*S, V)) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, A]) {
	m := newMachine(engine.Derived(op, in), op, turn, init, state.Plain[S])
	takeValues(m, in, step)
	return m.emitted, m.decided
}

func newMachine[K comparable, S, U, A any](h engine.Head, op *engine.Op, turn *Turn[K, U, A], init func() S, stateCodec func(*engine.Op) codec.Of[S]) *machine[K, S, U, A] {
	if h.Region != nil {
		engine.Misuse(op.Name, "nothing is forgotten inside %s", h.Region)
	}
	memory := engine.Remember(op, &h)
	m := &machine[K, S, U, A]{
		op: op, loc: h.Loc, hash: engine.Hasher[K](), init: init, turn: turn,
		lives:   state.NewTable(memory, state.Plain[K], lifeCodec(stateCodec)),
		emitted: engine.NewKeyedNode[K, U](h), decided: engine.NewKeyedNode[K, A](h),
	}
	m.decided.Revises, m.decided.Forgets = true, true
	turn.loc, turn.phase = h.Loc, over
	op.Holds(&m.us, &m.as, &m.gone, &turn.us, &turn.timers)
	op.Scratch(&m.ub, &m.ab, &m.ends, &m.goneWanted, &m.goneKnown)
	op.Key = func() any { return turn.key }
	return m
}

// takeValues makes the machine take the values of in.
func takeValues[K comparable, V, S, U, A any](m *machine[K, S, U, A], in *engine.KeyedNode[K, V], step func(*S, V)) {
	var hs []uint64
	m.op.Scratch(&hs)
	take := func(k K, v V, h uint64) (i uint32, l *life[S]) {
		m.turn.begin(k)
		i, l, added := m.lives.PutIndex(k, h)
		if added {
			l.state = m.init()
		}
		if m.watch != nil {
			m.observed(k, digest.Of(v))
		}
		step(&l.state, v)
		return i, l
	}
	in.To(func(b *engine.Batch[K, V]) {
		m.loc.At = m.op.Index
		hs := b.Hashes(m.hash, &hs)[:len(b.K)]
		m.lives.Touch(hs)
		for i, k := range b.K {
			at, l := take(k, b.V[i], hs[i])
			m.settle(k, hs[i], at, l)
		}
		m.flush()
	}).One = func(k K, v V, h uint64) {
		m.loc.At = m.op.Index
		if h == 0 {
			h = m.hash.Hash(k)
		}
		i, l := take(k, v, h)
		m.settleAlone(k, h, i, l)
	}
}

// observed reports to a simulation what the machine of a key received next.
func (m *machine[K, S, U, A]) observed(k K, what uint64) {
	m.watch.Observed(m.loc.Name, engine.FirstObserver+uint64(m.op.Index)<<32^digest.Of(k), what)
}

// settle carries out what a function did about life i, and ends the turn.
func (m *machine[K, S, U, A]) settle(k K, h uint64, i uint32, l *life[S]) {
	t := m.turn
	for _, u := range t.us {
		engine.AppendEntry(&m.us, true, k, u, h)
	}
	if t.some && !l.decided {
		l.decided = true
		engine.AppendEntry(&m.as, true, k, t.a, h)
		m.gone = append(m.gone, false)
	}
	if t.forget {
		m.end(k, h, i, l)
	} else if len(t.timers) > 0 || t.idles {
		m.set(i, l)
	}
	t.end()
}

// settleAlone is settle and then flush, for a turn that is alone in its batch. Most such turns emit or decide once, which is
// pushed without the columns.
func (m *machine[K, S, U, A]) settleAlone(k K, h uint64, i uint32, l *life[S]) {
	t := m.turn
	if len(t.us) > 1 || t.forget {
		m.settle(k, h, i, l)
		m.flush()
		return
	}
	var u, none U
	emits := len(t.us) > 0
	if emits {
		u, t.us[0] = t.us[0], none
		t.us = t.us[:0]
	}
	var a A
	decides := t.some && !l.decided
	if decides {
		a, l.decided = t.a, true
	}
	if len(t.timers) > 0 || t.idles {
		m.set(i, l)
	}
	t.end()
	if emits {
		m.emitted.One(k, u, h)
	}
	if decides {
		m.decided.One(k, a, h)
	}
	if m.flushed != nil {
		m.flushed()
	}
}

// end ends a life.
func (m *machine[K, S, U, A]) end(k K, h uint64, i uint32, l *life[S]) {
	if l.decided && m.wantsGone() {
		var none A
		engine.AppendEntry(&m.as, true, k, none, h)
		m.gone, m.ends = append(m.gone, true), true
	}
	if m.timers != nil {
		m.stopAll(i, l)
	}
	if m.ended != nil {
		m.ended(&l.state)
	}
	m.lives.Delete(k, h)
}

// wantsGone reports whether the removal of forgotten decisions is pushed.
func (m *machine[K, S, U, A]) wantsGone() bool {
	if !m.goneKnown {
		m.goneWanted, m.goneKnown = m.decided.WantsGone(), true
	}
	return m.goneWanted
}

// flush pushes what was emitted, then what was decided and forgotten.
func (m *machine[K, S, U, A]) flush() {
	if len(m.us.K) > 0 {
		engine.PushEntries(m.emitted, m.us, &m.ub)
		engine.ClearEntries(&m.us)
	}
	if len(m.as.K) > 0 {
		m.pushDecided()
	}
	if m.flushed != nil {
		m.flushed()
	}
}

func (m *machine[K, S, U, A]) pushDecided() {
	if m.ends {
		m.ab = engine.Batch[K, A]{K: m.as.K, V: m.as.V, H: m.as.H, Gone: m.gone}
		m.decided.Push(&m.ab)
		m.ab = engine.Batch[K, A]{}
	} else {
		engine.PushEntries(m.decided, m.as, &m.ab)
	}
	engine.ClearEntries(&m.as)
	m.gone, m.ends = m.gone[:0], false
}
