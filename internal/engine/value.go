package engine

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A ValueNode is the output of an operator that yields one value, or at most one.
type ValueNode[T any] struct {
	Head
	outs  []func(T)
	sent  *counter // counts how often it was set or unset, if the graph counts
	gones []func()
	Value T
	IsSet bool // has a value (in this run, inside a region)

	Trigger *Trigger // of a snapshot
}

// NewValueNode returns a value node at h without a value.
func NewValueNode[T any](h Head) *ValueNode[T] {
	c := NewUnsavedValueNode[T](h)
	if c.Op != nil && (h.Region == nil || h.Region == &h.Loc.Starts) {
		Lasting(c.Op).Add(nil, func(op *Op) State {
			CheckType[T](op)
			return valueState[T]{c}
		})
	}
	return c
}

// NewUnsavedValueNode is NewValueNode for a value node that its maker saves.
func NewUnsavedValueNode[T any](h Head) *ValueNode[T] {
	c := &ValueNode[T]{Head: h}
	h.Loc.makes(&c.Head)
	h.Loc.Compiled(c.checkReaders)
	if h.Region != nil && h.Region != &h.Loc.Starts {
		h.Region.AtEnd(func() { var zero T; c.Value, c.IsSet = zero, false })
	}
	return c
}

// To adds a consumer, called whenever the value is set.
func (c *ValueNode[T]) To(f func(T)) {
	c.Loc.Reads(&c.Head)
	c.Loc.enters(c.counter())
	if by := c.Loc.Making; by != nil && c.Loc.Simulated() {
		by.rekeys = true
		then := f
		f = func(v T) { by.gets(1); then(v) }
	}
	c.outs = append(c.outs, f)
}

// Set gives the value node a value and calls its consumers.
func (c *ValueNode[T]) Set(v T) {
	c.Value, c.IsSet = v, true
	for _, out := range c.outs {
		out(v)
	}
}

// ToUnset adds a consumer, called whenever the value goes away.
func (c *ValueNode[T]) ToUnset(f func()) {
	if by := c.Loc.Making; by != nil && c.Loc.Simulated() {
		then := f
		f = func() { by.gets(1); then() }
	}
	c.gones = append(c.gones, f)
}

// Unset takes the value away, if there is one, and calls the consumers. The end of a run of a slice is not a change and calls
// none.
func (c *ValueNode[T]) Unset() {
	if !c.IsSet {
		return
	}
	var zero T
	c.Value, c.IsSet = zero, false
	for _, gone := range c.gones {
		gone()
	}
}

// Changed arranges for f to be called whenever the value node gets another value or none.
func (c *ValueNode[T]) Changed(f func()) {
	c.To(func(T) { f() })
	c.ToUnset(f)
}

// A valueState saves the value of a value node. Loading does not call the node's consumers: what they made of it is saved as
// well.
type valueState[T any] struct{ c *ValueNode[T] }

func (s valueState[T]) Kind() string { return fmt.Sprintf("cell(%v)", reflect.TypeFor[T]()) }

func (s valueState[T]) Save(dst []byte, c codec.Codec) ([]byte, error) {
	if !s.c.IsSet {
		return append(dst, 0), nil
	}
	return codec.AppendValue(append(dst, 1), c, s.c.Value)
}

func (s valueState[T]) Load(d *codec.Decoder, c codec.Codec) {
	var v T
	set := d.Byte() == 1
	if set {
		v = codec.DecodeValue[T](d, c)
	}
	if d.Err == nil {
		s.c.Value, s.c.IsSet = v, set
	}
}

func (s valueState[T]) Describe(w *codec.Describer) {
	if s.c.IsSet {
		w.Entry("%+v", s.c.Value)
	} else {
		w.Entry("nothing")
	}
}

// counter returns the counter of c, or nil if the graph does not count.
func (c *ValueNode[T]) counter() *counter {
	if c.sent == nil && c.Loc.Graph.Settings.Count {
		sent := new(counter)
		c.sent = sent
		c.outs = append(c.outs, func(T) { sent.n++ })
		c.gones = append(c.gones, func() { sent.n++ })
	}
	return c.sent
}

func (s valueState[T]) Size() (int, uint64) { return 0, uint64(unsafe.Sizeof(s.c.Value)) }

// MakePassive keeps a change of what c is a snapshot of from running the slice.
func (c *ValueNode[T]) MakePassive(op *Op) {
	c.Trigger.makePassive(&c.Head, op)
}
