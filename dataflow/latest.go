package dataflow

import (
	"context"
	"iter"

	"github.com/millrace/millrace/internal/engine"
)

// A SingletonOutputPort is where the value of a [Singleton] is read. It is safe for any
// number of goroutines, each of which sees for itself. It holds the latest value only,
// so the location never waits for a reader.
type SingletonOutputPort[T any] singletonOutputPort[T]

// Latest returns the latest value, and false only before the flow has started. After
// the end it is the last one.
func (p *SingletonOutputPort[T]) Latest() (T, bool) {
	return made(p.out(), "dataflow.SingletonOutputPort").Latest()
}

// Watch iterates over the value, now and whenever the location has made another one,
// until the flow or ctx ends. Values that were replaced before they were looked at are
// skipped, the last one never is. Two values in a row may be equal. [App.Err] says
// whether the flow failed.
func (p *SingletonOutputPort[T]) Watch(ctx context.Context) iter.Seq[T] {
	out := made(p.out(), "dataflow.SingletonOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.SingletonOutputPort.Watch")
	}
	return func(yield func(T) bool) {
		for seen := uint64(0); ; {
			v, _, version, err := out.Next(ctx, seen)
			if err != nil || !yield(v) {
				return
			}
			seen = version
		}
	}
}

// An OptionalOutputPort is where the value of an [Optional] is read; see
// [SingletonOutputPort].
type OptionalOutputPort[T any] optionalOutputPort[T]

// Latest returns the latest value, and false while there is none.
func (p *OptionalOutputPort[T]) Latest() (T, bool) {
	return made(p.out(), "dataflow.OptionalOutputPort").Latest()
}

// Watch iterates over what there is, from the first value on: again whenever the
// location has made another value or taken it away. For the rest it is like
// [SingletonOutputPort.Watch].
func (p *OptionalOutputPort[T]) Watch(ctx context.Context) iter.Seq[Maybe[T]] {
	out := made(p.out(), "dataflow.OptionalOutputPort")
	if ctx == nil {
		engine.NilContext("dataflow.OptionalOutputPort.Watch")
	}
	return func(yield func(Maybe[T]) bool) {
		for seen := uint64(0); ; {
			v, ok, version, err := out.Next(ctx, seen)
			if err != nil || !yield(Maybe[T]{v, ok}) {
				return
			}
			seen = version
		}
	}
}
