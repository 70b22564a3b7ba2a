package dataflow

import (
	"fmt"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// A Failure is an element for which a function returned an error. It is an error itself,
// and unwraps to the function's error.
type Failure[T any] struct {
	Value T
	Err   error
}

// Error returns the element and its error in the form value: error.
func (f Failure[T]) Error() string { return fmt.Sprintf("%v: %v", f.Value, f.Err) }

// Unwrap returns f.Err.
func (f Failure[T]) Unwrap() error { return f.Err }

// TryMap returns f of each element for which f succeeds, and a [Failure] for each other
// element, both in the order of s. A failure does not end the flow; a panic of f does.
func TryMap[T, U any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], f func(T) (U, error),
) (values Stream[U, L, B, O, R], failures Stream[Failure[T], L, B, O, R]) {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.TryMap", f)
	us, fs := operators.TryMap(n, op, f, func(x T, err error) Failure[T] { return Failure[T]{x, err} })
	return newStream[U, L, B, O, R](us), newStream[Failure[T], L, B, O, R](fs)
}
