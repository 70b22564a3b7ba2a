package engine

import (
	"reflect"

	"github.com/millrace/millrace/internal/digest"
)

// This file finds values that are changed by one of several readers, in simulated graphs only. What it adds to a node is decided
// when the graph is built or compiled.

// A AliasChecker is a [Watcher] that checks values with more than one reader.
type AliasChecker interface {
	Watcher
	// Changed returns the error for a value that op has given to several readers and that was found changed after by had run.
	Changed(op, by *Op, value any) error
}

// aliasChecker returns the AliasChecker that checks values of type T at a location, or nil.
func aliasChecker[T any](s *Location) AliasChecker {
	l, _ := s.Graph.Settings.Watch.(AliasChecker)
	if l == nil || !digest.Refers(reflect.TypeFor[T]()) {
		return nil
	}
	return l
}

// readInTurn lets readers read a value one after another. It panics if one of them, other than the last, changes the value, since the
// next one would read something else.
func readInTurn(l AliasChecker, h *Head, value any, readers int, read func(i int)) {
	is := digest.Of(value)
	for i := range readers {
		read(i)
		if i < readers-1 && digest.Of(value) != is {
			panic(changedBetween(l, h, value))
		}
	}
}

// changedBetween returns the error for a value of h that was found changed after the current operator had run.
func changedBetween(l AliasChecker, h *Head, value any) error {
	op, by := h.Op, h.Loc.Ops[h.Loc.At]
	if op == nil { // a constant
		op = by
	}
	return l.Changed(op, by, value)
}

// checkReaders checks the consumers of n, if there is an AliasChecker.
func checkReaders[T any](n *Node[T]) {
	l := aliasChecker[T](n.Loc)
	if l == nil || len(n.Outs) < 2 {
		return
	}
	outs := n.Outs
	n.Push = func(b []T) { readInTurn(l, &n.Head, b, len(outs), func(i int) { outs[i].Push(b) }) }
	n.One = func(x T) { readInTurn(l, &n.Head, x, len(outs), func(i int) { outs[i].One(x) }) }
}

// checkKeyedReaders checks the consumers of n, if there is an AliasChecker. A consumer may add hashes to a batch.
func checkKeyedReaders[K comparable, V any](n *KeyedNode[K, V]) {
	l := aliasChecker[V](n.Loc)
	if l == nil || len(n.Outs) < 2 {
		return
	}
	outs := n.Outs
	n.Push = func(b *Batch[K, V]) { readInTurn(l, &n.Head, b.V, len(outs), func(i int) { outs[i].push(b) }) }
	n.One = func(k K, v V, h uint64) { readInTurn(l, &n.Head, v, len(outs), func(i int) { outs[i].One(k, v, h) }) }
}

// checkReaders checks the consumers of c, if there is an AliasChecker.
func (c *ValueNode[T]) checkReaders() {
	l := aliasChecker[T](c.Loc)
	if l == nil || len(c.outs) < 2 {
		return
	}
	outs := c.outs
	c.outs = []func(T){func(v T) { readInTurn(l, &c.Head, v, len(outs), func(i int) { outs[i](v) }) }}
}

// CheckedInSlice returns f, which lets the value of c into the slice r at each cut. If there is an AliasChecker, f panics if the value was changed
// in the slice, since the operator of c still uses it.
func CheckedInSlice[T any](r *Region, c *ValueNode[T], f func(T)) func(T) {
	l := aliasChecker[T](c.Loc)
	if l == nil {
		return f
	}
	var value T
	var is uint64
	inUse := false
	check := func() {
		if inUse && digest.Of(value) != is {
			panic(changedBetween(l, &c.Head, value))
		}
	}
	r.AtEnd(func() {
		check()
		var none T
		value, inUse = none, false
	})
	return func(v T) {
		value, is, inUse = v, digest.Of(v), true
		f(v)
		check()
	}
}

// CheckedOutput returns f, which gives elements to an output. If there is an AliasChecker, the elements are checked for changes when the
// schedule is over.
func CheckedOutput[T any](op *Op, f func([]T)) func([]T) {
	l := aliasChecker[T](op.Loc)
	if l == nil {
		return f
	}
	return func(xs []T) {
		for _, x := range xs {
			l.Published(op, x)
		}
		f(xs)
	}
}

// CheckedElement is CheckedOutput for an element.
func CheckedElement[T any](op *Op, f func(T)) func(T) {
	l := aliasChecker[T](op.Loc)
	if l == nil {
		return f
	}
	return func(x T) {
		l.Published(op, x)
		f(x)
	}
}

// CheckedEntry is CheckedOutput for an entry.
func CheckedEntry[K comparable, V any](op *Op, f func(K, V, uint64)) func(K, V, uint64) {
	l := aliasChecker[V](op.Loc)
	if l == nil {
		return f
	}
	return func(k K, v V, h uint64) {
		l.Published(op, v)
		f(k, v, h)
	}
}

// CheckedReader returns a function to call when a reader outside has received a value of an output, or nil if there is no AliasChecker.
func CheckedReader[T any](op *Op) func(T) {
	l := aliasChecker[T](op.Loc)
	if l == nil {
		return nil
	}
	return func(v T) { l.Published(op, v) }
}
