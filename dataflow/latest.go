package dataflow

import (
	"context"
	"iter"

	"github.com/millrace/millrace/internal/engine"
)

// A SingletonOutputPort is a port for reading the value of a [Singleton]. It is safe for
// concurrent use, and each goroutine reads independently. It holds only the latest value,
// so the location never waits for a reader.
type SingletonOutputPort[T any] singletonOutputPort[T]

// Latest returns the latest value, and false only before the flow has started. After the
// end it returns the last one.
func (p *SingletonOutputPort[T]) Latest() (T, bool) {
	return made(p.out(), "dataflow.SingletonOutputPort").Latest()
}

// Watch iterates over the value, now and whenever the location has made another one,
// until the flow or ctx ends. A value that was replaced before the loop got to it is
// skipped; the last one never is. Two values in a row may be equal. [App.Err] says
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

// An OptionalOutputPort is a port for reading the value of an [Optional]; see
// [SingletonOutputPort].
type OptionalOutputPort[T any] optionalOutputPort[T]

// Latest returns the latest value, and false while there is none.
func (p *OptionalOutputPort[T]) Latest() (T, bool) {
	return made(p.out(), "dataflow.OptionalOutputPort").Latest()
}

// Watch iterates over the value and its absence, from the first value on, and continues
// whenever the location has made another value or removed it. Otherwise it is like
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
