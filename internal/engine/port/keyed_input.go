package port

import (
	"context"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/engine/token"
	"github.com/millrace/millrace/internal/keyed"
)

// A KeyedInput is an input of keyed data.
type KeyedInput[K comparable, V any] struct {
	engine.InputBase
	node    *engine.KeyedNode[K, V]
	once    bool                      // each key is accepted only once
	seen    *keyed.Table[K, struct{}] // keys accepted so far, if once; guarded by mu
	counts  state.Keys[K]             // holds them instead of seen, if not nil; guarded by mu
	hash    *keyed.Hasher[K]
	place   func(K) string       // returns what a key is placed by, or nil; see engine.AffinityOf
	check   func(K) (K, error)   // see [keyed.CheckOf]; nil if every value is its own key
	changes bool                 // check may return another value than it is given
	hashed  bool                 // records come with their hash
	buf     engine.Columns[K, V] // accepted; guarded by mu
	decoded decoded[K, V]        // the entry of a record while it is being accepted
	lastKey encodedKey[K]        // of the record that was accepted last
	_       token.CacheLinePad
	taken   engine.Columns[K, V] // held by the token, as is everything below
	off     int                  // taken[:off] has been pushed
	batch   engine.Batch[K, V]
	lanes   map[K]keyLane   // of a simulated location: one for each key
	turns   turns[K]        // sends begun, by key, in builds for the race detector; see turn.go
	next    numbers[K]      // of numbered sends that do not name a sender
	by      numbers[string] // of those that name their sender

	unordered *recordLanes  // of an input without order, otherwise nil
	bars      func(*V) bool // reports whether later records must not overtake a record; nil if none is such
}

// NewKeyedInput adds an input to the location.
func NewKeyedInput[K comparable, V any](s *engine.Location, op *engine.Op) (*KeyedInput[K, V], *engine.KeyedNode[K, V]) {
	in := &KeyedInput[K, V]{InputBase: engine.InputBase{Loc: s, Op: op, Divided: true}, node: engine.NewKeyedNode[K, V](s.Top()), hash: keyed.HasherOf[K](), check: keyed.CheckOf[K](), changes: keyed.PositiveOf[K]() != nil, place: engine.PlacedBy[K](op)}
	s.AddInput(op, in)
	s.Bases = append(s.Bases, &in.InputBase)
	engine.CheckType[K](op)
	engine.CheckType[V](op)
	op.Takes(in.node.Counter())
	s.Open++
	return in, in.node
}

// NewEntryInput is NewKeyedInput for an input that accepts each key only once. how says how it remembers the keys; if it is nil,
// the input keeps each key.
func NewEntryInput[K comparable, V any](s *engine.Location, op *engine.Op, how *state.Sequence[K]) (*KeyedInput[K, V], *engine.KeyedNode[K, V]) {
	in, n := NewKeyedInput[K, V](s, op)
	in.once, in.hashed = true, true
	if how != nil {
		in.counts = how.Make(engine.Lasting(op))
		check := in.check
		in.check = func(k K) (_ K, err error) { // a function of the program, which may panic, is not called with mu held
			if check != nil {
				if k, err = check(k); err != nil {
					return k, err
				}
			}
			return k, how.Check(k)
		}
	} else {
		in.seen = state.NewSet[K](engine.Lasting(op))
	}
	return in, n
}

// has reports, with mu held, whether a key with hash h was accepted.
func (in *KeyedInput[K, V]) has(k K, h uint64) bool {
	if in.counts != nil {
		return in.counts.Has(k, h)
	}
	return in.seen.Get(k, h) != nil
}

// put records, with mu held, that a key with hash h is accepted, and reports whether it was new.
func (in *KeyedInput[K, V]) put(k K, h uint64) (added bool) {
	if in.counts != nil {
		return in.counts.Put(k, h)
	}
	_, added = in.seen.Put(k, h)
	return added
}

// ForgetOn makes an input that accepts each key once forget those keys of n for which may reports true, in the step in which they
// appear there. The caller guarantees that they do not come again.
func ForgetOn[K comparable, V, X any](in *KeyedInput[K, V], n *engine.KeyedNode[K, X], may func(K) bool) {
	n.To(func(b *engine.Batch[K, X]) {
		in.Loc.Mu.Lock()
		defer in.Loc.Mu.Unlock()
		for _, k := range b.K {
			if may(k) {
				in.forgets(k)
				in.seen.Delete(k, in.hash.Hash(k))
			}
		}
	})
}

// ForgetGone makes an input that accepts each key once forget the keys that n forgets.
func ForgetGone[K comparable, V any](in *KeyedInput[K, V], n *engine.KeyedNode[K, V]) {
	n.To(func(b *engine.Batch[K, V]) {
		if b.Gone == nil {
			return
		}
		in.Loc.Mu.Lock()
		defer in.Loc.Mu.Unlock()
		for i, k := range b.K {
			if b.Gone[i] {
				in.forgets(k)
				in.seen.Delete(k, in.hash.Hash(k))
			}
		}
	}).One = func(K, V, uint64) {}
}

// Send accepts (k, v), waiting until there is room for it.
func (in *KeyedInput[K, V]) Send(ctx context.Context, k K, v V) (err error) {
	s := in.Loc
	if in.check != nil {
		if k, err = in.check(k); err != nil {
			return in.Op.BadKey(k, err)
		}
	}
	if in.once {
		err := in.sendOnce(ctx, k, v, nil)
		in.used("put", k, v, err)
		return err
	}
	if !in.Shut.Load() && (s.Token.Take() || s.Token.Await()) {
		return s.After(in.stepOne(k, v, 0))
	}
	err = in.sendLater(ctx, k, v)
	in.used("send", k, v, err)
	return err
}

// sendLater is Send for a location that is not idle.
func (in *KeyedInput[K, V]) sendLater(ctx context.Context, k K, v V) error {
	if err := sendTurn(&in.InputBase); err != nil {
		return err
	}
	in.Loc.Mu.Lock()
	how, err := in.Loc.Graph.Driver.Admit(ctx, &in.InputBase)
	return in.enter(ctx, how, err, k, v, 0)
}

// sendOnce is Send for keys that may come once. The keys are guarded by mu and not by the token, because a sender that finds the
// token held must learn of a duplicate, too. If accepted is not nil, it is called with mu held when the record is accepted,
// before any caller can run it.
func (in *KeyedInput[K, V]) sendOnce(ctx context.Context, k K, v V, accepted func()) (err error) {
	s := in.Loc
	h := in.hash.Hash(k)
	how := engine.Enqueue
	if !in.Shut.Load() && (s.Token.Take() || s.Token.Await()) {
		how = engine.RunNow
	}
	if err := sendTurn(&in.InputBase); err != nil {
		return err
	}
	in.looks(k)
	s.Mu.Lock()
	if how == engine.Enqueue {
		// Before the sender waits for room or is refused, check whether its key is a duplicate.
		if (s.Queued >= s.Graph.Settings.Queue || in.Refuse() != nil) && in.has(k, h) {
			s.Mu.Unlock()
			return engine.ErrDuplicate
		}
		how, err = s.Graph.Driver.Admit(ctx, &in.InputBase)
	}
	if how == engine.RunNow || how == engine.Enqueue {
		if !in.put(k, h) {
			if how == engine.RunNow {
				s.Graph.Driver.Settle(s, 1)
			} else { // the key came while this sender waited for room
				s.Mu.Unlock()
			}
			return engine.ErrDuplicate
		}
		if accepted != nil {
			accepted()
		}
	}
	return in.enter(ctx, how, err, k, v, h)
}

// enter proceeds with a record as its admission says. It is called with mu held and returns with mu free. If the caller runs the
// location and the location fails, enter returns why.
func (in *KeyedInput[K, V]) enter(ctx context.Context, how engine.Admission, err error, k K, v V, h uint64) error {
	if how == engine.Enqueue {
		engine.AppendEntry(&in.buf, in.hashed, k, v, h)
		in.Accepted(in, 1)
		return in.Kick()
	}
	in.Loc.Mu.Unlock()
	switch how {
	case engine.RunNow:
		err = in.Loc.After(in.stepOne(k, v, h))
	case engine.Elsewhere:
		err = in.sendOneRemote(ctx, k, v)
	}
	return err
}

// answer accepts a record that the location itself requested, whether or not there is room, and counts the asynchronous call that
// it answers as done.
func (in *KeyedInput[K, V]) answer(k K, v V, h uint64) {
	s := in.Loc
	s.Mu.Lock()
	s.Calls.Add(-1)
	if s.Finished {
		s.Mu.Unlock()
		return
	}
	engine.AppendEntry(&in.buf, in.hashed, k, v, h)
	in.Accepted(in, 1)
	in.Kick()
}

// TakeAll implements [engine.Input].
func (in *KeyedInput[K, V]) TakeAll() { in.buf, in.taken = in.taken, in.buf }

// Lift implements [engine.Input].
func (in *KeyedInput[K, V]) Lift(i int, again bool) (take func()) {
	k, v, h := in.buf.K[i], in.buf.V[i], uint64(0)
	if in.hashed {
		h = in.buf.H[i]
	}
	if !again {
		in.unordered.took(i)
		engine.DeleteEntry(&in.buf, i)
	}
	return func() { engine.AppendEntry(&in.taken, in.hashed, k, v, h) }
}

// RecordText implements [engine.Input].
func (in *KeyedInput[K, V]) RecordText(i int) string {
	return fmt.Sprintf("%v:%v", in.buf.K[i], in.buf.V[i])
}

// CopyTaken implements [engine.Input].
func (in *KeyedInput[K, V]) CopyTaken(at, n int) any {
	return &engine.KeyedItems[K, V]{Columns: engine.CloneEntries(in.span(in.off+at, n))}
}

// Check implements [engine.Input].
func (in *KeyedInput[K, V]) Check(c codec.Codec) error { return new(engine.KeyedItems[K, V]).Check(c) }

// Types implements [engine.Input].
func (in *KeyedInput[K, V]) Types() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[K](), reflect.TypeFor[V]()}
}

// AppendTaken implements [engine.Input].
func (in *KeyedInput[K, V]) AppendTaken(dst []byte, c codec.Codec, at, n int) ([]byte, error) {
	return (&engine.KeyedItems[K, V]{Columns: in.span(in.off+at, n)}).AppendTo(dst, c)
}

// span returns n of the taken records.
func (in *KeyedInput[K, V]) span(at, n int) engine.Columns[K, V] {
	return engine.SliceEntries(in.taken, at, at+n)
}

// Load implements [engine.Input].
func (in *KeyedInput[K, V]) Load(records any) error {
	if e, ok := records.(engine.Encoded); ok {
		return e.Decode(in.Op, func(d *codec.Decoder) {
			k := codec.DecodeValue[K](d, e.Codec)
			v := codec.DecodeValue[V](d, e.Codec)
			if d.Err == nil {
				engine.AppendEntry(&in.taken, in.hashed, k, v, in.hashOf(k))
			}
		})
	}
	c, ok := records.(*engine.KeyedItems[K, V])
	if !ok {
		return fmt.Errorf("%s takes %T, the recording has %T", in.Op, c, records)
	}
	engine.AppendEntries(&in.taken, c.Columns)
	return nil
}

// hashOf returns the hash of a key if records carry it, otherwise 0.
func (in *KeyedInput[K, V]) hashOf(k K) uint64 {
	if !in.hashed {
		return 0
	}
	return in.hash.Hash(k)
}

// Push is [Input.Push] for keyed data.
func (in *KeyedInput[K, V]) Push(n int) {
	in.recordPlacement(n)
	engine.PushEntries(in.node, in.span(in.off, n), &in.batch)
	if in.off += n; in.off == len(in.taken.K) {
		engine.ClearEntries(&in.taken)
		in.off = 0
	}
}

// recordPlacement records, for a simulated location, what the next n records are placed by.
func (in *KeyedInput[K, V]) recordPlacement(n int) {
	switch {
	case !in.Loc.Partitioned() || !in.Loc.Simulated():
	case in.place == nil:
		in.Loc.TookOther(in.Divided)
	default:
		taken := in.span(in.off, n)
		for i, k := range taken.K {
			if in.bars != nil && in.bars(&taken.V[i]) { // it is for all keys, and its own has no meaning
				in.Loc.TookOther(false)
			} else {
				in.Loc.TookPlaced(in.place(k))
			}
		}
	}
}

// stepOne runs the step of one entry; see [engine.StepEntry].
func (in *KeyedInput[K, V]) stepOne(k K, v V, h uint64) bool {
	if in.Loc.Planned() {
		engine.AppendEntry(&in.taken, in.hashed, k, v, h)
		return in.StepTaken(1)
	}
	return engine.StepEntry(in.node, k, v, h)
}

// Accept queues an entry of the history. If each key is accepted once, the first record of a key counts.
func (in *KeyedInput[K, V]) Accept(r *codec.Record, c codec.Codec) (bool, error) {
	if r.Kind == codec.KindHas {
		return in.answerHas(r, c)
	}
	if r.Kind != codec.KindValue {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, in.Op)
	}
	e := &in.decoded
	defer func() { *e = decoded[K, V]{} }() // even if decoding panics
	if err := in.decode(r, c, e); err != nil {
		return false, fmt.Errorf("%w for %s", err, in.Op)
	}
	k, v := e.k, e.v
	h := in.hashOf(k)
	if err := in.countable(k); err != nil {
		return false, err
	}
	if in.once && !in.put(k, h) {
		return false, nil
	}
	engine.AppendEntry(&in.buf, in.hashed, k, v, h)
	in.Accepted(in, 1)
	return true, nil
}

// countable returns an error if a key of the history cannot be counted by the program as it is now.
func (in *KeyedInput[K, V]) countable(k K) error {
	if in.counts != nil {
		if _, err := in.check(k); err != nil {
			return fmt.Errorf("dataflow: the key %v for %s: %w", k, in.Op, err)
		}
	}
	return nil
}
