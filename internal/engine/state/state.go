// Package state contains the constructors of what operators remember: variables, tables, sets, lists, views and timers. Each
// constructor makes the memory and registers how it is saved, loaded and described, or that it is cleared at the end of a run of
// a slice. Package lint rejects memory that an operator makes for itself.
//
// An [engine.Memory] says where something is remembered and for how long. The registered parts are [engine.State]s. Start reading
// at [NewTable].
//
// An operator's state is saved in the order in which the operator calls the constructors. That order is part of the shape of a
// history, so changing it makes a new version of the program wherever there is a history.
package state

import (
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/keyed"
)

// NewTable returns a table in m whose keys and values have these codecs.
func NewTable[K comparable, V any](m engine.Memory, key func(*engine.Op) codec.Of[K], value func(*engine.Op) codec.Of[V]) *keyed.Table[K, V] {
	t := keyed.NewTable[K, V]()
	m.Add(t.Clear, func(op *engine.Op) engine.State {
		engine.CheckKey[K](op)
		return newTableState(t, key(op), value(op))
	})
	return t
}

// NewSet returns a table in m that is a set.
func NewSet[K comparable](m engine.Memory) *keyed.Table[K, struct{}] {
	return NewTable(m, Plain[K], Nothing)
}

// NewVar returns a variable in m. Its value is init at first, and at the start of each run of a slice.
func NewVar[T any](m engine.Memory, init T) *T {
	p := new(T)
	*p = init
	m.Add(func() { *p = init }, func(op *engine.Op) engine.State {
		engine.CheckType[T](op)
		return varState[T]{p}
	})
	return p
}

// NewMark returns the mark of what op makes of streams with the marks from. It is saved with the state of op.
func NewMark(op *engine.Op, from ...*mark.Mark) *mark.Mark {
	m := mark.Own(NewVar(engine.Lasting(op), mark.Past), NewVar(engine.Lasting(op), mark.Past), from...)
	op.Owns(m)
	return m
}

// NewPartitionMarks returns the marks of a stream that comes to op from another location. They are
// saved with the state of op.
func NewPartitionMarks(op *engine.Op, from *engine.Location) mark.Partitions {
	n := from.Partitions()
	s := &marksState{make([]int64, n), make([]int64, n)}
	for i := range s.at {
		s.at[i], s.until[i] = mark.Past, mark.Past
	}
	engine.Lasting(op).Add(nil, func(*engine.Op) engine.State { return s })
	all := mark.OfPartitions(s.at, s.until, from.Partitioned())
	op.Owns(all...)
	return all
}

// An optional is a value that exists from the first element on.
type optional[T any] struct {
	Value T
	Some  bool
}

// NewOptional returns an optional in m, without a value.
func NewOptional[T any](m engine.Memory) *optional[T] {
	b := new(optional[T])
	m.Add(func() { *b = optional[T]{} }, func(op *engine.Op) engine.State {
		engine.CheckType[T](op)
		op.States = append(op.States, varState[T]{&b.Value})
		return varState[bool]{&b.Some}
	})
	return b
}

// Copied returns a copy of t, for a later comparison with it.
func Copied[K comparable, V any](t *keyed.Table[K, V], hash *keyed.Hasher[K]) *keyed.Table[K, V] {
	c := keyed.NewTable[K, V]()
	for k, v := range keyed.All(t) {
		p, _ := c.Put(k, hash.Hash(k))
		*p = *v
	}
	return c
}

// TableOf returns the state that saves a table of a driver.
func TableOf[K comparable, V any](t *keyed.Table[K, V], key codec.Of[K], value codec.Of[V]) engine.Numbered {
	return newTableState(t, key, value)
}

// Plain returns the codec of a user's type: values are encoded by the flow's codec.
func Plain[T any](op *engine.Op) codec.Of[T] {
	engine.CheckType[T](op)
	return codec.Of[T]{
		Kind: reflect.TypeFor[T]().String(),
		Save: func(dst []byte, c codec.Codec, x *T) ([]byte, error) { return codec.AppendValue(dst, c, *x) },
		Load: func(d *codec.Decoder, c codec.Codec, x *T) { codec.DecodeInto(d, c, x) },
	}
}

// Packed returns the codec of a user's type whose values are kept encoded. It saves what [Plain] saves.
func Packed[T any](op *engine.Op) codec.Of[string] {
	engine.CheckType[T](op)
	own := op.Loc.Graph.Settings.Codec
	return codec.Of[string]{
		Kind: reflect.TypeFor[T]().String(),
		Save: func(dst []byte, _ codec.Codec, x *string) ([]byte, error) { return codec.AppendString(dst, *x), nil },
		Load: func(d *codec.Decoder, c codec.Codec, x *string) {
			data := d.Data
			v := codec.DecodeValue[T](d, c) // checks that it can be decoded
			if d.Err != nil {
				return
			}
			if !codec.Same(c, own) {
				if data, d.Err = codec.AppendFrom(nil, own, &v); d.Err != nil {
					return
				}
			}
			*x = string((&codec.Decoder{Data: data}).Bytes())
		},
		Show: func(x *string) any {
			v := new(T)
			if err := own.Decode([]byte(*x), v); err != nil {
				return x
			}
			return v
		},
		Type: reflect.TypeFor[T](),
	}
}

// A varState saves a variable.
type varState[T any] struct{ p *T }

func (s varState[T]) Kind() string { return reflect.TypeFor[T]().String() }

func (s varState[T]) Save(dst []byte, c codec.Codec) ([]byte, error) {
	return codec.AppendValue(dst, c, *s.p)
}

func (s varState[T]) Load(d *codec.Decoder, c codec.Codec) {
	v := codec.DecodeValue[T](d, c)
	if d.Err == nil {
		*s.p = v
	}
}

func (s varState[T]) Describe(w *codec.Describer) { w.Entry("%+v", *s.p) }
