package windows

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A Turn records what a state machine did about a key, and when.
type Turn[K comparable, U, A any] struct {
	Key     K
	Now     int64
	Emitted []U
	Answer  A
	Decided bool
	Over    bool
	Alarms  []Alarm // set or stopped, in order
}

// An Alarm is an alarm of a key that is set or, in a turn, stopped. It is exported so that it can be saved.
type Alarm struct {
	Name   uint8
	Stop   bool
	At     int64
	Seq    uint64 // its number among all that were ever set
	ByRing bool   // it was set by an alarm that fired
}

// A Life is what a machine holds for a key. It is exported so that it can be saved.
type Life[S any] struct {
	State   S
	Decided bool
	Alarms  []Alarm
}

// A Ring is an alarm that waits for its time.
type Ring[K comparable] struct {
	Key K
	Set uint64 // the Seq of the alarm; an alarm that was stopped or moved has another
}

// A machine is the state of a Machine.
type machine[K comparable, E, S, U, A, W any] struct {
	turn   *Turn[K, U, A]
	lives  *keyed.Table[K, Life[S]]
	events *queue[Row[K, E]]
	alarms *queue[Ring[K]]
	set    *uint64
	newest *int64 // the latest time of an event
	hash   *keyed.Hasher[K]
	event  func(t int64, u U) W

	emitted engine.Columns[K, W]
	decided engine.Columns[K, A]
	gone    []bool
}

// Machine runs a state machine for each key. Its events and alarms come in the order of their times, with an alarm before an
// event of the same time. step and fire record in turn what they do.
func Machine[K comparable, E, S, U, A, W any](
	in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64, init func() S, step func(*S, *E), fire func(*S, uint8), turn *Turn[K, U, A], event func(t int64, u U) W,
) (emitted *engine.KeyedNode[K, W], decided *engine.KeyedNode[K, A]) {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	h.Mark = own(op, marks)
	emitted = engine.NewKeyedNode[K, W](h)
	plain := h
	plain.Mark = nil
	decided = engine.NewKeyedNode[K, A](plain)
	decided.Revises, decided.Forgets = true, true
	m := engine.Remember(op, &h)
	x := &machine[K, E, S, U, A, W]{
		turn: turn, lives: state.NewTable(m, state.Plain[K], state.Plain[Life[S]]), events: newQueue[Row[K, E]](m), alarms: newQueue[Ring[K]](m),
		set: state.NewVar(m, uint64(0)), newest: state.NewVar(m, past), hash: engine.Hasher[K](), event: event,
	}
	var eb engine.Batch[K, W]
	var db engine.Batch[K, A]
	op.Holds(&x.emitted, &x.decided, &x.gone)
	op.Scratch(&eb, &db, turn)
	op.Key = func() any { return turn.Key }
	waits(in, op, at, marks, x.events)
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		if now == future {
			for _, e := range *x.events.all {
				*x.newest = max(*x.newest, e.At)
			}
		}
		for t := min(x.events.next(), x.alarms.next()); t < now; t = min(x.events.next(), x.alarms.next()) {
			if x.alarms.next() <= x.events.next() {
				r := x.alarms.take()
				k, kh := r.What.Key, x.hash.Hash(r.What.Key)
				j, life := x.lives.GetIndex(k, kh)
				if life == nil {
					continue
				}
				i := slices.IndexFunc(life.Alarms, func(a Alarm) bool { return a.Seq == r.What.Set })
				if i < 0 {
					continue
				}
				a := life.Alarms[i]
				x.lives.Change(j)
				life.Alarms = remove(life.Alarms, i)
				if now == future && a.ByRing && a.At > *x.newest { // it might repeat without end
					continue
				}
				x.begin(k, r.At)
				fire(&life.State, a.Name)
				x.end(life, kh, true)
				continue
			}
			e := x.events.take()
			k := e.What.Key
			kh := x.hash.Hash(k)
			*x.newest = max(*x.newest, e.At)
			x.begin(k, e.At)
			life, added := x.lives.Put(k, kh)
			if added {
				life.State = init()
			}
			step(&life.State, &e.What.Event)
			x.end(life, kh, false)
		}
		engine.PushEntries(emitted, x.emitted, &eb)
		engine.ClearEntries(&x.emitted)
		if len(x.gone) > 0 {
			db = engine.Batch[K, A]{K: x.decided.K, V: x.decided.V, H: x.decided.H}
			if slices.Contains(x.gone, true) {
				db.Gone = x.gone
			}
			decided.Push(&db)
			engine.ClearEntries(&x.decided)
			x.gone = x.gone[:0]
		}
		h.Mark.Advance(now)
	})
	return emitted, decided
}

// begin starts a turn.
func (x *machine[K, E, S, U, A, W]) begin(k K, now int64) {
	*x.turn = Turn[K, U, A]{Key: k, Now: now, Emitted: x.turn.Emitted[:0], Alarms: x.turn.Alarms[:0]}
}

// end carries out a turn: first what was emitted, then the decision, and then the key is forgotten.
func (x *machine[K, E, S, U, A, W]) end(life *Life[S], h uint64, byRing bool) {
	t := x.turn
	for _, u := range t.Emitted {
		engine.AppendEntry(&x.emitted, true, t.Key, x.event(t.Now, u), h)
	}
	if t.Decided && !life.Decided {
		life.Decided = true
		engine.AppendEntry(&x.decided, true, t.Key, t.Answer, h)
		x.gone = append(x.gone, false)
	}
	if t.Over {
		if life.Decided {
			var none A
			engine.AppendEntry(&x.decided, true, t.Key, none, h)
			x.gone = append(x.gone, true)
		}
		x.lives.Delete(t.Key, h)
		return
	}
	for _, a := range t.Alarms {
		if i := slices.IndexFunc(life.Alarms, func(b Alarm) bool { return b.Name == a.Name }); i >= 0 {
			life.Alarms = remove(life.Alarms, i)
		}
		if a.Stop {
			continue
		}
		*x.set++
		a.At, a.Seq, a.ByRing = max(a.At, t.Now), *x.set, byRing
		life.Alarms = append(life.Alarms, a)
		x.alarms.add(a.At, Ring[K]{t.Key, a.Seq})
	}
}
