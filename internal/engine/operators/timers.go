package operators

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Running returns how many timers of an operator are set.

func (a *after[K, V]) Running() int { return a.Len() }

func (t *expiring[K, V]) Running() int { return t.idx.Len() }

func (t *interval) Running() int { return oneIf(t.Next()) }

func (m *recentSet[K]) Running() int { return oneIf(m.Next()) }

func oneIf(_ int64, ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// An interval is a timer that fires repeatedly, on multiples of its period since the start. If firings were missed because the
// location was busy, only the last one happens.
type interval struct {
	engine.Tiring
	every int64
	at    *int64
	out   *engine.Node[time.Duration]
	one   [1]time.Duration

	op      *engine.Op
	blames  bool
	failing int64   // the current firing, if blames is set; otherwise 0
	again   []int64 // held firings that are repeated in this step
	now     int64   // the time of this step, if there are such firings
}

func (t *interval) Idle() bool { return false }

// Interval returns the times at which a timer fires. For the location it counts as an input that stays open until the flow is
// stopped.
func Interval(s *engine.Location, op *engine.Op, every time.Duration) *engine.Node[time.Duration] {
	h := s.Top()
	t := &interval{every: int64(every), at: state.NewVar(engine.Lasting(op), engine.NoDeadline), out: engine.NewNode[time.Duration](h), op: op}
	op.Scratch(&t.one, &t.failing, &t.now)
	op.Holds(&t.again)
	s.Timed(t, op)
	op.Clocked()
	s.Open++
	s.Starts.AtEnd(func() {
		s.Mu.Lock()
		closed := s.Closing
		s.Mu.Unlock()
		if !closed {
			*t.at, s.Rearm = t.every, true
		}
	})
	return t.out
}

func (t *interval) Next() (int64, bool) {
	if len(t.again) > 0 {
		return t.now, true
	}
	if t.Tired() {
		return engine.NoDeadline, false
	}
	return *t.at, *t.at != engine.NoDeadline
}

// Skip leaves out all firings up to now except the last. That one happens even in a simulation in which time passes only for
// another timer.
func (t *interval) Skip(now int64) {
	if *t.at <= now {
		*t.at = now / t.every * t.every
		t.OnceMore()
	}
}

func (t *interval) Expire(now int64) {
	for _, at := range t.again {
		t.push(at)
	}
	if t.again = t.again[:0]; now < *t.at {
		return
	}
	t.Skip(now)
	t.Fired()
	at := *t.at
	*t.at += t.every
	if t.blames {
		t.failing = at
	}
	t.push(at)
	t.failing = 0
}

func (t *interval) push(at int64) {
	t.one[0] = time.Duration(at)
	t.out.Push(t.one[:])
}

// Blame implements [engine.HeldTimer].
func (t *interval) Blame(on bool) { t.blames = on }

// Failing implements [engine.HeldTimer]. A firing has no key, and is identified by its time.
func (t *interval) Failing() (key any, timer []byte, at int64, ok bool) {
	return nil, binary.AppendVarint(nil, t.failing), t.failing, t.failing != 0
}

// Hold implements [engine.HeldTimer]. Firings before a held one are missed.
func (t *interval) Hold(x *codec.Record, now int64, _ codec.Codec) (bool, error) {
	d := codec.Decoder{Data: x.Value}
	at := d.Int()
	if d.Err != nil || at <= 0 || x.Kind == codec.KindHeldTimer && (at%t.every != 0 || at > math.MaxInt64-t.every) {
		return false, fmt.Errorf("%w: it is of a firing of %s", codec.ErrRecord, t.op)
	}
	switch {
	case x.Kind == codec.KindHeldTimer && *t.at <= at:
		*t.at = at + t.every
	case x.Kind == codec.KindRetry:
		t.again, t.now = append(t.again, at), max(now, 1)
	case x.Kind == codec.KindDrop:
	default:
		return false, nil
	}
	return true, nil
}

// after is an After operator: entries that wait for their time.
type after[K comparable, V any] struct {
	engine.EveryTimer
	*state.Pending[K, V]
	loc   *engine.Location
	out   *engine.KeyedNode[K, V]
	due   engine.Columns[K, V]
	batch engine.Batch[K, V]
	fired func(slot uint32)

	op      *engine.Op
	hash    *keyed.Hasher[K]
	blames  bool
	failing firing[K] // if blames is set

	// For entries that can be forgotten: one plus the slot of each key, or 0 once its timer has fired. Otherwise nil.
	lives *keyed.Table[K, uint32]
	over  lifeRows[K, V]
}

// A firing is the timer of an entry that fires, recorded to find the one on which a function fails.
type firing[K comparable] struct {
	fires bool
	key   K
	slot  uint32
	at    int64
}

// After returns the entries of n, each with a delay after it appeared. The delay is constant or, if each is not nil, depends on
// the value.
func After[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op, delay time.Duration, each func(V) time.Duration) *engine.KeyedNode[K, V] {
	h := engine.Same(op.Name, n)
	if h.Region == &h.Loc.Starts {
		h.Region = nil // results of constants come later
	}
	if h.Region != nil {
		engine.Misuse(op.Name, "nothing changes later inside %s", h.Region)
	}
	if !n.Forgets { // otherwise a removal is passed on at once
		h.Deps, h.Loops = nil, nil // a firing is a record, so what follows is not feedback of a slice into itself
	}
	h.Mark = nil
	a := &after[K, V]{loc: h.Loc, out: engine.NewKeyedNode[K, V](h), op: op, hash: engine.Hasher[K]()}
	a.Pending = state.NewPending[K, V](engine.Remember(op, &h), each == nil)
	a.Pending.Keys(op)
	if n.Forgets {
		a.lives = state.NewTable(engine.Remember(op, &h), state.Plain[K], state.Plain[uint32])
		a.out.Revises, a.out.Forgets = true, true
	}
	op.Holds(&a.due, &a.over)
	op.Scratch(&a.batch, &a.failing)
	a.fired = func(slot uint32) {
		k, v, h := a.Take(slot)
		if a.lives != nil {
			p, _ := a.lives.Put(k, h)
			*p = 0
		}
		a.due.K, a.due.V, a.due.H = append(a.due.K, k), append(a.due.V, v), append(a.due.H, h)
	}
	h.Loc.Timed(a, op)
	op.Clocked()
	least := time.Duration(0)
	if h.Loc.Graph.Settings.Failed {
		least = 1 // so that the record that holds a timer can precede it
	}
	hash := a.hash
	var hs []uint64
	op.Scratch(&hs)
	c, cur := track(op, n, func(b *engine.Batch[K, V]) {
		for i, h := range b.Hashes(hash, &hs) {
			if b.Gone != nil && b.Gone[i] {
				a.end(b.K[i], h)
				continue
			}
			d := delay
			if each != nil {
				op.At = i
				d = each(b.V[i])
			}
			at := a.loc.Alarm(max(d, least))
			a.set(b.K[i], b.V[i], h, at)
		}
		pushRows(a.out, &a.over)
	})
	c.One = func(k K, v V, kh uint64) {
		cur.enter(k)
		if kh == 0 {
			kh = hash.Hash(k)
		}
		d := delay
		if each != nil {
			d = each(v)
		}
		at := a.loc.Alarm(max(d, least))
		a.set(k, v, kh, at)
	}
	return a.out
}

// set sets the timer of an entry.
func (a *after[K, V]) set(k K, v V, h uint64, at int64) {
	slot := a.Slot(k, v, h)
	if a.lives != nil {
		p, _ := a.lives.Put(k, h)
		*p = slot + 1
	}
	a.Idx.Add(slot, at)
	if at < a.loc.ArmedFor { // otherwise the location wakes up in time anyway
		a.loc.Rearm = true
	}
}

// end ends the life of k: its timer does not fire or, if it has fired, its result is forgotten.
func (a *after[K, V]) end(k K, h uint64) {
	p := a.lives.Get(k, h)
	if p == nil {
		return
	}
	if *p == 0 {
		forgetRow(&a.over, k, h)
	} else {
		a.Cancel(*p - 1)
	}
	a.lives.Delete(k, h)
}

// Deadlines implements [engine.ManyTimers].
func (a *after[K, V]) Deadlines(do func(key any, at int64)) { a.EachKey(do) }

func (a *after[K, V]) Expire(now int64) {
	if a.blames {
		a.expireAlone(now)
		return
	}
	a.Idx.Expire(now, a.fired)
	a.flush()
}

// flush pushes what is due.
func (a *after[K, V]) flush() {
	engine.PushEntries(a.out, a.due, &a.batch)
	clear(a.due.K)
	clear(a.due.V)
	a.due = engine.Columns[K, V]{K: a.due.K[:0], V: a.due.V[:0], H: a.due.H[:0]}
}

// expireAlone pushes each due entry by itself.
func (a *after[K, V]) expireAlone(now int64) {
	a.Idx.Expire(now, func(slot uint32) {
		at := a.Idx.At(slot)
		a.fired(slot)
		a.failing = firing[K]{true, a.due.K[0], slot, at}
		a.flush()
	})
	a.failing = firing[K]{}
}

// Blame implements [engine.HeldTimer].
func (a *after[K, V]) Blame(on bool) { a.blames = on }

// Failing implements [engine.HeldTimer]. A key has at most one timer, so its number is 0.
func (a *after[K, V]) Failing() (key any, timer []byte, at int64, ok bool) {
	f := &a.failing
	return f.key, binary.AppendVarint(binary.AppendUvarint([]byte{0}, uint64(f.slot)), f.at), f.at, f.fires
}

// Hold implements [engine.HeldTimer]. The life of a dropped entry continues without it.
func (a *after[K, V]) Hold(x *codec.Record, now int64, c codec.Codec) (bool, error) {
	var k K
	if err := c.Decode(x.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding the key of a timer of %s: %w", a.op, err)
	}
	if x.Kind == codec.KindHeldTimer {
		d := codec.Decoder{Data: x.Value}
		_, slot, at := d.Byte(), d.Uint(), d.Int()
		if d.Err != nil || slot > math.MaxUint32 {
			return false, fmt.Errorf("%w: it is of a timer of %s", codec.ErrRecord, a.op)
		}
		return a.Pending.Hold(uint32(slot), k, at), nil
	}
	slot, ok := a.Held(k)
	switch {
	case !ok:
	case x.Kind == codec.KindRetry:
		a.Release(slot, max(now, 1))
	default:
		a.Cancel(slot)
		if a.lives != nil {
			a.lives.Delete(k, a.hash.Hash(k))
		}
	}
	return ok, nil
}
