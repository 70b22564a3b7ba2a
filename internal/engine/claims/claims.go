// Package claims checks, in simulated graphs, what programs claim of their functions: that the order of steps does not matter, or
// that a value only grows. Each check is made where the claim is made, with the values that arrive there, so a wrong claim is
// detected whether or not a schedule shows its consequence.
//
// The functions of this package receive a user's function while a graph is built. In a graph without a watcher they return it
// unchanged, so production pays nothing.
package claims

import (
	"reflect"

	"github.com/millrace/millrace/internal/deep"
	"github.com/millrace/millrace/internal/engine"
)

// Most is how many applications of a function are kept for comparisons, for each key.
const Most = 12

// A Broken is a claim that does not hold.
type Broken struct {
	Op    *engine.Op
	Claim string // the claim, such as "the order does not matter"
	State any    // before A and B, or nil
	A, B  any
	One   any // the claim says that it equals Other, or does not exceed it
	Other any
}

// A Watcher is an [engine.Watcher] that wants claims to be checked.
type Watcher interface {
	engine.Watcher
	// Broken returns the error with which the graph fails.
	Broken(Broken) error
	// Unchecked reports why a claim cannot be checked, or can no longer be checked.
	Unchecked(op *engine.Op, why string)
}

// watcher returns the watcher that wants the claims of an operator checked, or nil.
func watcher(op *engine.Op) Watcher {
	w, _ := op.Loc.Graph.Settings.Watch.(Watcher)
	return w
}

// panicked replaces the result of a function that panicked.
type panicked struct{ Value any }

// try calls f and returns its result, or a panicked if it panicked.
func try(f func() any) (result any) {
	defer func() {
		if v := recover(); v != nil {
			result = panicked{v}
		}
	}()
	return f()
}

// A copier copies the arguments of a function before it is called, until it meets some that cannot be copied.
type copier[A, T any] struct {
	op     *engine.Op
	watch  Watcher
	states func(A) (A, error)
	values func(T) (T, error)
	off    bool
}

func newCopier[A, T any](op *engine.Op, w Watcher) *copier[A, T] {
	return &copier[A, T]{op: op, watch: w, states: deep.Copier[A](), values: deep.Copier[T]()}
}

// pair copies a state and a value.
func (c *copier[A, T]) pair(s A, x T) (A, T, bool) {
	if c.off {
		return s, x, false
	}
	s, err := c.states(s)
	what := "the state"
	if err == nil {
		x, err = c.values(x)
		what = "the value"
	}
	if err != nil {
		c.off = true
		c.watch.Unchecked(c.op, what+" cannot be copied: "+err.Error())
	}
	return s, x, err == nil
}

// key returns the key that an operator works on, or nil if it has none.
func key(op *engine.Op) any {
	if op.Key == nil {
		return nil
	}
	return op.Key()
}

// typeName returns the name of a type for messages.
func typeName[T any]() string { return reflect.TypeFor[T]().String() }
