package engine

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/keyed"
)

// What an operator remembers is made here and in the files state_*.go, and nowhere else:
// each constructor also registers how it is saved, loaded and described, or that it is
// cleared. Package lint refuses memory that an operator makes for itself.
//
// The order in which an operator calls constructors is the order in which its state is
// saved. It is part of the shape of a history, so that changing it is a new version of
// the program for whoever has one.

// A state is what an operator remembers from one step to the next.
type state interface {
	save(dst []byte, c Codec) ([]byte, error)
	load(d *decoder, c Codec)
	kind() string // with the types in it
	describe(w *describer)

	// size returns how many keys or elements there are, and the memory that they are in,
	// without what they point to. It does not go through them.
	size() (n int, bytes uint64)
}

// A memory is where an operator keeps what it remembers, and how long that lasts.
type memory struct {
	op      *Op
	region  *Region // at the end of whose runs it is cleared; nil if it stays
	derived bool    // it comes of constants, with which each life of a flow begins anew
}

// remember returns the memory of op at the place of h: one run of a slice, or the life
// of the flow, in which case it is saved.
func remember(op *Op, h *Head) memory { return memory{op: op, region: h.region} }

// lasting returns a memory of op that is saved wherever op is: ports have one, and
// operators that carry state from one run of a slice to the next.
func lasting(op *Op) memory { return memory{op: op} }

// ofConstants is [remember] for what comes of constants outside of slices: they run
// before saved state is loaded, so that it is there and not saved.
func ofConstants(op *Op, h *Head) memory {
	return memory{op: op, region: h.region, derived: true}
}

// add registers a part of m: clear empties it, and saved says what is saved of it.
func (m memory) add(clear func(), saved func(op *Op) state) {
	if m.derived && m.region == nil {
		return
	}
	if check := m.op.site.g.set.Check; check != nil && check.forgets(m) {
		return
	}
	if m.region != nil {
		m.region.atEnd(clear)
	} else {
		m.op.states = append(m.op.states, saved(m.op))
	}
}

// newTable returns a table in m with values of these forms.
func newTable[K comparable, V any](m memory, key func(*Op) form[K], value func(*Op) form[V]) *keyed.Table[K, V] {
	t := keyed.NewTable[K, V]()
	m.add(t.Clear, func(op *Op) state { return tableState[K, V]{&t, key(op), value(op)} })
	return t
}

// newSet returns a table in m that is a set.
func newSet[K comparable](m memory) *keyed.Table[K, struct{}] { return newTable(m, plain[K], nothing) }

// newVar returns a variable in m that has the value init at first, and at the start of
// each run of a slice.
func newVar[T any](m memory, init T) *T {
	p := new(T)
	*p = init
	m.add(func() { *p = init }, func(op *Op) state {
		checkType[T](op)
		return varState[T]{p}
	})
	return p
}

// A begun is a value that is there from the first element on.
type begun[T any] struct {
	value T
	some  bool
}

// newBegun returns a begun in m, without a value.
func newBegun[T any](m memory) *begun[T] {
	b := new(begun[T])
	m.add(func() { *b = begun[T]{} }, func(op *Op) state {
		checkType[T](op)
		op.states = append(op.states, varState[T]{&b.value})
		return varState[bool]{&b.some}
	})
	return b
}

// newView returns a map in m, and a cell at h that has what wrap makes of views of it:
// only the map is saved.
func newView[K comparable, V, W any](m memory, h Head, wrap func(cow.View[K, V]) W) (*cow.Map[K, V], *Cell[W]) {
	v, out := cow.NewMap[K, V](), newCell[W](h)
	m.add(func() { *v = *cow.NewMap[K, V]() }, func(op *Op) state {
		set := func() { out.value, out.set = wrap(v.View()), true }
		return viewState[K, V]{m: v, set: set, key: plain[K](op), value: plain[V](op)}
	})
	return v, out
}

// copied returns a table with the entries of t, for who compares them with those of later.
func copied[K comparable, V any](t *keyed.Table[K, V], hash *keyed.Hasher[K]) *keyed.Table[K, V] {
	c := keyed.NewTable[K, V]()
	for k, v := range t.All() {
		p, _ := c.Put(k, hash.Hash(k))
		*p = *v
	}
	return c
}

// afterStart returns whether all that hangs on constants has begun. Then calls begun. It
// is not saved, since each life of a flow begins with its constants.
func afterStart(s *Site, begun func()) *bool {
	over := new(bool)
	s.starts.atEnd(func() {
		*over = true
		begun()
	})
	return over
}

// A form is how values of one type are saved and loaded.
type form[T any] struct {
	kind string // with the types in it
	save func(dst []byte, c Codec, x *T) ([]byte, error)
	load func(d *decoder, c Codec, x *T)
}

// plain is the form of a user's type: whatever the codec makes of it.
func plain[T any](op *Op) form[T] {
	checkType[T](op)
	return form[T]{
		kind: reflect.TypeFor[T]().String(),
		save: func(dst []byte, c Codec, x *T) ([]byte, error) { return appendValue(dst, c, *x) },
		load: func(d *decoder, c Codec, x *T) { *x = decodeValue[T](d, c) },
	}
}

// tableState saves a table with its numbering, since that is the order in which its
// entries come.
type tableState[K comparable, V any] struct {
	table **keyed.Table[K, V]
	key   form[K]
	value form[V]
}

func (s tableState[K, V]) kind() string { return "table(" + s.key.kind + "," + s.value.kind + ")" }

func (s tableState[K, V]) save(dst []byte, c Codec) (_ []byte, err error) {
	next, free := (*s.table).Layout()
	dst = binary.AppendUvarint(dst, uint64((*s.table).Len()))
	dst = binary.AppendUvarint(dst, uint64(next))
	dst = binary.AppendUvarint(dst, uint64(len(free)))
	for _, i := range free {
		dst = binary.AppendUvarint(dst, uint64(i))
	}
	for k, v := range (*s.table).All() {
		if dst, err = s.key.save(dst, c, &k); err != nil {
			return dst, err
		}
		if dst, err = s.value.save(dst, c, v); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (s tableState[K, V]) load(d *decoder, c Codec) {
	n := d.uint()
	next := d.uint()
	free := make([]uint32, d.count())
	for i := range free {
		free[i] = uint32(d.uint())
	}
	if n+uint64(len(free)) != next || n > uint64(len(d.data)) {
		d.fail()
		return
	}
	t := keyed.NewTable[K, V]()
	if !t.Fill(uint32(next), free, hasher[K](), func(place func(K) *V) bool {
		var k K
		var v V
		s.key.load(d, c, &k)
		s.value.load(d, c, &v)
		if d.err == nil {
			*place(k) = v
		}
		return d.err == nil
	}) {
		d.fail()
	}
	if d.err == nil {
		**s.table = *t
	}
}

func (s tableState[K, V]) describe(w *describer) {
	for k, v := range (*s.table).All() {
		w.entry("%v: %+v", k, *v)
	}
}

// A varState saves a variable.
type varState[T any] struct{ p *T }

func (s varState[T]) kind() string { return reflect.TypeFor[T]().String() }

func (s varState[T]) save(dst []byte, c Codec) ([]byte, error) { return appendValue(dst, c, *s.p) }

func (s varState[T]) load(d *decoder, c Codec) {
	v := decodeValue[T](d, c)
	if d.err == nil {
		*s.p = v
	}
}

func (s varState[T]) describe(w *describer) { w.entry("%+v", *s.p) }

// A cellState saves what a cell has, without telling its consumers when it is loaded:
// what they made of it is saved as well.
type cellState[T any] struct{ c *Cell[T] }

func (s cellState[T]) kind() string { return fmt.Sprintf("cell(%v)", reflect.TypeFor[T]()) }

func (s cellState[T]) save(dst []byte, c Codec) ([]byte, error) {
	if !s.c.set {
		return append(dst, 0), nil
	}
	return appendValue(append(dst, 1), c, s.c.value)
}

func (s cellState[T]) load(d *decoder, c Codec) {
	var v T
	set := d.byte() == 1
	if set {
		v = decodeValue[T](d, c)
	}
	if d.err == nil {
		s.c.value, s.c.set = v, set
	}
}

func (s cellState[T]) describe(w *describer) {
	if s.c.set {
		w.entry("%+v", s.c.value)
	} else {
		w.entry("nothing")
	}
}
