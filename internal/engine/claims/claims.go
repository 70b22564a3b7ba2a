// Package claims checks in simulated graphs what programs claim of their functions: that a
// step comes to the same in any order, that a value only grows. Each check is made where the
// claim is, with the values that come there, so that a wrong claim shows whether or not
// a schedule happens to show its consequence.
//
// The functions of this package are given a user's function while a graph is built. In a
// graph that nobody watches they return it as it is, so that production pays nothing.
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
	Claim string // what is claimed, such as "the order does not matter"
	State any    // before A and B, or nil
	A, B  any
	One   any // what the claim wants to be the same as Other, or not more
	Other any
}

// A Watcher is an [engine.Watcher] that wants claims to be checked.
type Watcher interface {
	engine.Watcher
	// Broken returns the error by which the graph fails.
	Broken(Broken) error
	// Unchecked says why a claim cannot be checked, or cannot be any longer.
	Unchecked(op *engine.Op, why string)
}

// watcher returns who wants the claims of an operator to be checked, or nil.
func watcher(op *engine.Op) Watcher {
	w, _ := op.Loc.Graph.Settings.Watch.(Watcher)
	return w
}

// panicked stands for the result of a function that panicked instead.
type panicked struct{ Value any }

// try calls f and returns its result, or that it panicked.
func try(f func() any) (result any) {
	defer func() {
		if v := recover(); v != nil {
			result = panicked{v}
		}
	}()
	return f()
}

// A copier copies the arguments of a function as they are before it is called, until it
// finds some that cannot be copied.
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

// typeName is how messages name a type.
func typeName[T any]() string { return reflect.TypeFor[T]().String() }
