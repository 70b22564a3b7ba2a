package port

import (
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// Heads returns the first record of each lane that has one, in order of lanes.
func (in *Input[T]) Heads() []engine.LaneHead {
	if len(in.buf) == 0 {
		return nil
	}
	if in.unordered != nil {
		return in.unordered.heads(len(in.buf), in.node.Component, func(i int) uint64 { return digest.Of(in.buf[i]) })
	}
	return []engine.LaneHead{{Lane: 0, At: 0}}
}

// Width returns how many lanes there are so far.
func (in *Input[T]) Width() int {
	if in.unordered != nil {
		return in.unordered.n
	}
	return 1
}

// Heads returns the first record of each key that has one: keys have no order
// between them. A key's lane is the order in which it was first accepted. Nothing overtakes
// the mark of all keys.
func (in *KeyedInput[K, V]) Heads() []engine.LaneHead {
	if in.lanes == nil {
		in.lanes = make(map[K]int)
	}
	if in.unordered != nil {
		return in.unordered.heads(len(in.buf.K), in.node.Component, func(i int) uint64 { return engine.ChainDigest(uint64(in.lane(in.buf.K[i])), digest.Of(in.buf.V[i])) })
	}
	var all []engine.LaneHead
	seen := make(map[int]bool)
	for i, k := range in.buf.K {
		n := in.lane(k)
		if in.bars != nil && in.bars(&in.buf.V[i]) {
			if i == 0 {
				return []engine.LaneHead{{Lane: n, At: 0}}
			}
			break
		}
		if !seen[n] {
			seen[n] = true
			all = append(all, engine.LaneHead{Lane: n, At: i})
		}
	}
	sortHeads(all)
	return all
}

// lane returns the number of a key.
func (in *KeyedInput[K, V]) lane(k K) int {
	n, ok := in.lanes[k]
	if !ok {
		n = len(in.lanes)
		in.lanes[k] = n
	}
	return n
}

func sortHeads(hs []engine.LaneHead) {
	for i := range hs {
		for j := i; j > 0 && hs[j].Lane < hs[j-1].Lane; j-- {
			hs[j], hs[j-1] = hs[j-1], hs[j]
		}
	}
}

// Width returns how many lanes there are so far.
func (in *KeyedInput[K, V]) Width() int {
	if in.unordered != nil {
		return in.unordered.n
	}
	return len(in.lanes)
}

// recordLanes are the lanes of an input whose records have no order: each record is one.
// Records that nobody can tell apart share one, since to take one of them instead of the
// other makes no difference.
type recordLanes struct {
	values reflect.Type   // their type
	opaque bool           // a digest does not say whether two records are equal
	byWhat map[uint64]int // lanes by the digest of their records, once there is one
	of     []int          // lanes of the records that wait, as far as they were looked at
	n      int            // how many lanes there are
}

// Shared makes in an input without order: any number of senders send to it. If retried, a
// record may come more than once.
func (in *Input[T]) Shared(retried bool) {
	in.Retried, in.unordered = retried, &recordLanes{values: reflect.TypeFor[T]()}
}

// Shared makes in an input without order within a key; see [Input.Shared].
func (in *KeyedInput[K, V]) Shared(retried bool) {
	in.Retried, in.unordered = retried, &recordLanes{values: reflect.TypeFor[V]()}
}

// heads returns the first of n waiting records of each lane that has one.
func (r *recordLanes) heads(n int, in *engine.Component, digest func(i int) uint64) []engine.LaneHead {
	if r.byWhat == nil {
		r.byWhat, r.opaque = make(map[uint64]int), opaque(r.values)
	}
	if len(r.of) < n {
		in.Find().Last = -1 // what has come now may have come before what was taken last
	}
	for i := len(r.of); i < n; i++ {
		lane := r.n
		if !r.opaque {
			what := digest(i)
			known, ok := r.byWhat[what]
			if !ok {
				r.byWhat[what] = lane
			} else {
				lane = known
			}
		}
		r.n = max(r.n, lane+1)
		r.of = append(r.of, lane)
	}
	var all []engine.LaneHead
	seen := make(map[int]bool)
	for i, lane := range r.of {
		if !seen[lane] {
			seen[lane] = true
			all = append(all, engine.LaneHead{Lane: lane, At: i})
		}
	}
	sortHeads(all)
	return all
}

// took notes that the record at i waits no longer.
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
