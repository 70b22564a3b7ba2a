package port

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Heads returns the first record of each lane that has one, in order of lanes.
func (in *Input[T]) Heads() []engine.LaneHead {
	if len(in.buf) == 0 {
		return nil
	}
	if in.unordered != nil {
		return in.unordered.heads(len(in.buf), in.what)
	}
	return []engine.LaneHead{{}}
}

// Waiting implements [engine.Input].
func (in *Input[T]) Waiting() int { return len(in.buf) }

// LaneOf implements [engine.Input].
func (in *Input[T]) LaneOf(i int) uint64 {
	if in.unordered != nil {
		return in.unordered.lane(i, in.what)
	}
	return 0
}

// what returns a digest of the record at i.
func (in *Input[T]) what(i int) uint64 {
	if in.lane != nil {
		return in.lane(in.buf[i])
	}
	return digest.Of(in.buf[i])
}

// A keyLane is the lane of a key: its number in the order in which keys were first accepted, and an ID that distinguishes it from
// the others.
type keyLane struct {
	number int
	id     uint64
}

// Heads returns the first record of each key that has one, because keys have no order among themselves. Lanes are numbered in the
// order in which their keys were first accepted. No record overtakes the mark of all keys.
func (in *KeyedInput[K, V]) Heads() []engine.LaneHead {
	if in.unordered != nil {
		return in.unordered.heads(len(in.buf.K), in.what)
	}
	var all []engine.LaneHead
	seen := make(map[int]bool)
	for i, k := range in.buf.K {
		n := in.lane(k)
		if in.bars != nil && in.bars(&in.buf.V[i]) {
			if i == 0 {
				return []engine.LaneHead{{Lane: n.number, ID: n.id}}
			}
			break
		}
		if !seen[n.number] {
			seen[n.number] = true
			all = append(all, engine.LaneHead{Lane: n.number, ID: n.id, At: i})
		}
	}
	sortHeads(all)
	return all
}

// Waiting implements [engine.Input].
func (in *KeyedInput[K, V]) Waiting() int { return len(in.buf.K) }

// LaneOf implements [engine.Input].
func (in *KeyedInput[K, V]) LaneOf(i int) uint64 {
	if in.unordered != nil {
		return in.unordered.lane(i, in.what)
	}
	return in.lane(in.buf.K[i]).id
}

// what returns a digest of the record at i. The digest changes if key and value are exchanged.
func (in *KeyedInput[K, V]) what(i int) uint64 {
	return engine.ChainDigest(engine.ChainDigest(0, in.lane(in.buf.K[i]).id), digest.Of(in.buf.V[i]))
}

// lane returns the lane of a key.
func (in *KeyedInput[K, V]) lane(k K) keyLane {
	if in.lanes == nil {
		in.lanes = make(map[K]keyLane)
	}
	n, ok := in.lanes[k]
	if !ok {
		n = keyLane{len(in.lanes), engine.KeyDigest(k)}
		in.lanes[k] = n
	}
	return n
}

// looks records that a caller learns whether the key was accepted before.
func (in *KeyedInput[K, V]) looks(k K) {
	if in.once && in.Loc.Simulated() {
		in.Loc.Graph.Settings.Turns.Touch(in.Op.Lane(engine.KeyDigest(k)), engine.Reads)
	}
}

// forgets records that an input that accepts each key once forgets k.
func (in *KeyedInput[K, V]) forgets(k K) {
	if in.Loc.Simulated() {
		in.Loc.Graph.Settings.Turns.Touch(in.Op.Lane(engine.KeyDigest(k)), engine.Writes)
	}
}

func sortHeads(hs []engine.LaneHead) {
	for i := range hs {
		for j := i; j > 0 && hs[j].Lane < hs[j-1].Lane; j-- {
			hs[j], hs[j-1] = hs[j-1], hs[j]
		}
	}
}

// recordLanes are the lanes of an input whose records have no order: each record is a lane. Indistinguishable records share a
// lane, since taking one of them instead of another makes no difference.
type recordLanes struct {
	values reflect.Type   // their type
	opaque bool           // equal digests do not imply equal records
	byWhat map[uint64]int // lanes by the digest of their records; may be nil before the first look
	of     []int          // lanes of the waiting records, as far as they were looked at
	ids    []uint64       // of each lane, what distinguishes it from the others
}

// Shared makes in an input without order, to which any number of senders send. If retried, a record may come more than once.
func (in *Input[T]) Shared(retried bool) {
	in.Retried, in.unordered = retried, &recordLanes{values: reflect.TypeFor[T]()}
}

// Shared makes in an input without order within a key; see [Input.Shared].
func (in *KeyedInput[K, V]) Shared(retried bool) {
	in.Retried, in.unordered = retried, &recordLanes{values: reflect.TypeFor[V]()}
}

// lane returns the ID of the lane of the record at i.
func (r *recordLanes) lane(i int, digest func(i int) uint64) uint64 {
	r.look(i+1, digest)
	return r.ids[r.of[i]]
}

// look finds the lanes of the first n waiting records.
func (r *recordLanes) look(n int, digest func(i int) uint64) {
	if r.byWhat == nil {
		r.byWhat, r.opaque = make(map[uint64]int), opaque(r.values)
	}
	for i := len(r.of); i < n; i++ {
		what := digest(i)
		lane, known := r.byWhat[what]
		switch {
		case !known:
			r.byWhat[what] = len(r.ids)
			lane = len(r.ids)
			r.ids = append(r.ids, max(what&^(1<<63), 1))
		case r.opaque: // records that look the same may differ
			r.ids = append(r.ids, max(engine.ChainDigest(what, uint64(len(r.ids)))&^(1<<63), 1))
			lane = len(r.ids) - 1
		}
		r.of = append(r.of, lane)
	}
}

// heads returns, for each lane with a record among the first n waiting ones, the first such record.
func (r *recordLanes) heads(n int, digest func(i int) uint64) []engine.LaneHead {
	r.look(n, digest)
	var all []engine.LaneHead
	seen := make(map[int]bool)
	for i, lane := range r.of {
		if !seen[lane] {
			seen[lane] = true
			all = append(all, engine.LaneHead{Lane: lane, ID: r.ids[lane], At: i})
		}
	}
	sortHeads(all)
	return all
}

// took records that the record at i no longer waits.
func (r *recordLanes) took(i int) {
	if r != nil {
		r.of = slices.Delete(r.of, i, i+1)
	}
}

// opaque reports whether values of t can differ although their digests do not.
func opaque(t reflect.Type) bool { return opaqueIn(t, nil) }

func opaqueIn(t reflect.Type, in []reflect.Type) bool {
	if slices.Contains(in, t) {
		return false
	}
	in = append(in, t)
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return opaqueIn(t.Elem(), in)
	case reflect.Map:
		return opaqueIn(t.Key(), in) || opaqueIn(t.Elem(), in)
	case reflect.Struct:
		for i := range t.NumField() {
			if opaqueIn(t.Field(i).Type, in) {
				return true
			}
		}
	}
	return false
}

// A simulation that continues where a recording ends needs more of its inputs than a replay does, because what they accept
// afterwards depends on what has come in. What the flow sends to itself comes from the steps before; the recording says which
// part of it was taken.

// Entered implements [engine.Input].
func (in *Input[T]) Entered(n int) error {
	for i := len(in.taken) - n; i < len(in.taken); i++ {
		want := digest.Of(in.taken[i])
		at := slices.IndexFunc(in.buf, func(x T) bool { return digest.Of(x) == want })
		switch {
		case at >= 0:
			in.unordered.took(at)
			in.buf = slices.Delete(in.buf, at, at+1)
			in.Withdrawn()
		case !in.FromOutside():
			return fmt.Errorf("it takes %v from %s, and the steps before have sent no such record", in.taken[i], in.Op)
		}
	}
	return nil
}

// Entered implements [engine.Input].
func (in *KeyedInput[K, V]) Entered(n int) error {
	for i := len(in.taken.K) - n; i < len(in.taken.K); i++ {
		k := in.taken.K[i]
		want := digest.Of(in.taken.V[i])
		at := -1
		for j := range in.buf.K {
			if in.buf.K[j] == k && digest.Of(in.buf.V[j]) == want {
				at = j
				break
			}
		}
		switch {
		case at >= 0:
			in.unordered.took(at)
			engine.DeleteEntry(&in.buf, at)
			in.Withdrawn()
		case !in.FromOutside():
			return fmt.Errorf("it takes %v:%v from %s, and the steps before have sent no such record", k, in.taken.V[i], in.Op)
		case in.once:
			if err := in.countable(k); err != nil {
				return err
			}
			in.put(k, in.hash.Hash(k))
		}
	}
	return nil
}

// Entered implements [engine.Input]. An answer replaces its call.
func (in *answers[K, V, U]) Entered(n int) error {
	a := in.to
	q, taken := &a.simulated, a.in.taken.K
	for _, k := range taken[len(taken)-n:] {
		at := slices.Index(q.K, k)
		if at < 0 {
			return fmt.Errorf("it takes an answer for %v from %s, and the steps before have asked for none", k, a.op)
		}
		engine.DeleteEntry(&q.Columns, at)
		q.ids = slices.Delete(q.ids, at, at+1)
		a.loc.Calls.Add(-1)
	}
	return nil
}

// Has reports whether the key was accepted by an input that accepts each key once.
//
// If the history is kept elsewhere, the question is a record of it that adds nothing. So whichever process runs the location, the
// answer is that of one moment after the question was asked, and it covers every Send that returned before.
func (in *KeyedInput[K, V]) Has(ctx context.Context, k K) (_ bool, err error) {
	s := in.Loc
	if in.check != nil {
		if k, err = in.check(k); err != nil {
			return false, in.Op.BadKey(k, err)
		}
	}
	if r := s.Graph.Settings.Remote; r != nil {
		return in.hasRemote(ctx, r, k)
	}
	if err := s.Turn(engine.Turn{Action: "ask", Op: in.Op}); err != nil {
		return false, err
	}
	in.looks(k)
	h := in.hash.Hash(k)
	s.Mu.Lock()
	has := in.has(k, h)
	s.Mu.Unlock()
	if s.Simulated() {
		s.Used(engine.Use{Op: in.Op, Do: "has", Key: k, OK: has})
	}
	return has, nil
}

func (in *KeyedInput[K, V]) hasRemote(ctx context.Context, r engine.Remote, k K) (bool, error) {
	key, err := in.Loc.Graph.Settings.Codec.Append(nil, k)
	if err != nil {
		return false, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, in.Op, err)
	}
	err = r.Put(ctx, in.Loc.Number, []codec.Record{{Op: in.Op.Index, Kind: codec.KindHas, Key: key}})[0]
	if errors.Is(err, engine.ErrDuplicate) {
		return true, nil
	}
	return false, err
}

// answerHas refuses the question if the key was accepted, as its entry would be refused.
func (in *KeyedInput[K, V]) answerHas(r *codec.Record, c codec.Codec) (bool, error) {
	var k K
	if !in.once {
		return false, fmt.Errorf("%w: it asks for a key, of %s", codec.ErrRecord, in.Op)
	}
	if err := c.Decode(r.Key, &k); err != nil {
		return false, fmt.Errorf("dataflow: decoding a key %T for %s: %w", k, in.Op, err)
	}
	if err := in.countable(k); err != nil {
		return false, err
	}
	return !in.has(k, in.hash.Hash(k)), nil
}
