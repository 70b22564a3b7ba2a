package state

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A View is a map of which views can be taken.
type View[K comparable, V any] struct {
	m *cow.Map[K, V]

	// If the map is saved entry by entry, its keys are numbered. The value counts in which order they
	// were first set.
	keys *keyed.Table[K, uint64]
	hash *keyed.Hasher[K]
	set  uint64
}

// NewView returns a map in m, and a value node at h whose values wrap makes from views of the map. Only the map is saved.
func NewView[K comparable, V, W any](m engine.Memory, h engine.Head, wrap func(cow.View[K, V]) W) (*View[K, V], *engine.ValueNode[W]) {
	v, out := &View[K, V]{m: cow.NewMap[K, V]()}, engine.NewUnsavedValueNode[W](h)
	m.Add(func() { *v.m = *cow.NewMap[K, V]() }, func(op *engine.Op) engine.State {
		set := func() { out.Value, out.IsSet = wrap(v.m.View()), true }
		return &viewState[K, V]{View: v, changed: set, key: Plain[K](op), value: Plain[V](op)}
	})
	return v, out
}

// View returns a view of the map as it is now.
func (v *View[K, V]) View() cow.View[K, V] { return v.m.View() }

// Set makes x the value of k.
func (v *View[K, V]) Set(k K, x V) {
	if v.keys != nil {
		v.note(k)
	}
	v.m.Set(k, x)
}

// Delete removes k and reports whether it was present.
func (v *View[K, V]) Delete(k K) bool {
	if v.keys != nil {
		v.keys.Delete(k, v.hash.Hash(k))
	}
	return v.m.Delete(k)
}

// note numbers k before its value changes.
func (v *View[K, V]) note(k K) {
	if at, added := v.keys.Put(k, v.hash.Hash(k)); added {
		*at = v.set
		v.set++
	}
}

// number numbers all keys.
func (v *View[K, V]) number() {
	v.keys, v.hash = keyed.NewTable[K, uint64](), engine.Hasher[K]()
	for k := range v.m.View().All() {
		v.note(k)
	}
}

// A viewState saves a map of which views are taken, and the state of its value node.
type viewState[K comparable, V any] struct {
	*View[K, V]
	changed func()
	key     codec.Of[K]
	value   codec.Of[V]
	loader  *keyed.Loader
	loaded  map[uint32]V
}

func (s *viewState[K, V]) Kind() string { return "view(" + s.key.Kind + "," + s.value.Kind + ")" }

func (s *viewState[K, V]) Mark(early func(i uint32)) *keyed.Marks {
	if s.keys == nil {
		s.number()
	}
	return s.keys.Numbers().Save(false, early)
}

func (s *viewState[K, V]) Freeze() { s.keys.Numbers().Freeze() }

func (s *viewState[K, V]) Thaw() { s.keys.Numbers().Thaw() }

func (s *viewState[K, V]) Count() (uint32, int) {
	next, _, _ := s.keys.Numbers().Next()
	return next, s.keys.Len()
}

// SaveEntry appends the current value in the map. That is the value at the cut, because the table of keys saves a key before its
// value changes.
func (s *viewState[K, V]) SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error) {
	k, set, under, lives := keyed.ImageOf(s.keys, i)
	if !lives {
		return appendFree(dst, under), nil
	}
	dst, err := s.key.Save(binary.AppendUvarint(append(dst, live), *set), c, &k)
	if err != nil {
		return dst, err
	}
	v, _ := s.m.Get(k)
	return s.value.Save(dst, c, &v)
}

func (s *viewState[K, V]) EntryKey(i uint32) (any, bool) { return keyAt(s.keys, i) }

func (s *viewState[K, V]) LoadEntry(d *codec.Decoder, c codec.Codec, i uint32) {
	if s.loader == nil {
		s.loader, s.loaded = new(keyed.Loader), make(map[uint32]V)
	}
	switch d.Byte() {
	case freeBottom:
		s.loader.FreeBottom(i)
	case live:
		k, set := keyed.Live[K, uint64](s.loader, i)
		*set = d.Uint()
		s.key.Load(d, c, k)
		var v V
		s.value.Load(d, c, &v)
		s.loaded[i] = v
	case freeAbove:
		s.loader.Free(i, uint32(d.Uint()))
	default:
		d.Fail()
	}
}

func (s *viewState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	next, free, some := s.keys.Numbers().Next()
	if free++; !some {
		free = 0
	}
	dst = binary.AppendUvarint(dst, s.set)
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(next)), uint64(free)), nil
}

func (s *viewState[K, V]) Load(d *codec.Decoder, _ codec.Codec) {
	set, next, free := d.Uint(), d.Uint(), d.Uint()
	fill, values := s.loader, s.loaded
	if s.loader, s.loaded = nil, nil; fill == nil {
		fill = new(keyed.Loader)
	}
	keys := keyed.NewTable[K, uint64]()
	if d.Err != nil || next >= 1<<32 || !keyed.Restore(keys, fill, uint32(next), uint32(free-1), free > 0, engine.Hasher[K]()) {
		d.Fail()
		return
	}
	// Keys of a kind without an order are in the order in which they were first set.
	var order []uint32
	at := make([]uint64, next)
	for i := range uint32(next) {
		if _, set, ok := keys.At(i); ok {
			order, at[i] = append(order, i), *set
		}
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(at[a], at[b]) })
	*s.m = *cow.NewMap[K, V]()
	for _, i := range order {
		k, _, _ := keys.At(i)
		s.m.Set(k, values[i])
	}
	s.keys, s.hash, s.View.set = keys, engine.Hasher[K](), set
	s.changed()
}

func (s *viewState[K, V]) Describe(w *codec.Describer) {
	for k, v := range s.m.View().All() {
		w.Entry("%v: %+v", k, v)
	}
}
