package engine

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/internal/keyed"
)

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

// keepsTable makes a table part of what is saved of op.
func keepsTable[K comparable, V any](op *Op, table *keyed.Table[K, V]) {
	op.keeps(tableState[K, V]{&table, plain[K](op), plain[V](op)})
}

// scoped makes a table last for one run inside a slice, and for as long as the flow
// elsewhere: it is part of what is saved then.
func scoped[K comparable, V any](op *Op, r *Region, table *keyed.Table[K, V], key form[K], value form[V]) {
	if r != nil {
		r.atEnd(table.Clear)
		return
	}
	op.keeps(tableState[K, V]{&table, key, value})
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

// keepsVar makes variables part of what is saved of op.
func keepsVar[T any](op *Op, p *T) {
	checkType[T](op)
	op.keeps(varState[T]{p})
}

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
