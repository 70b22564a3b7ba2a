package optional

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// IntoSingleton returns the value or its absence as a [dataflow.Maybe], which is always
// present.
func IntoSingleton[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B],
) dataflow.Singleton[dataflow.Maybe[T], L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.IntoSingleton")
	maybe := func(v T, ok bool) dataflow.Maybe[T] { return dataflow.Maybe[T]{Value: v, OK: ok} }
	return newSingleton[dataflow.Maybe[T], L, Out](operators.ValueTotal(c, op, maybe))
}

// IsSome reports whether there is a value. The result changes when the value comes or
// goes, and not when it only changes.
func IsSome[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B],
) dataflow.Singleton[bool, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.IsSome")
	return newSingleton[bool, L, Out](operators.ValueIs(c, op, true))
}

// IsNone reports whether there is no value; see [IsSome].
func IsNone[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B],
) dataflow.Singleton[bool, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.IsNone")
	return newSingleton[bool, L, Out](operators.ValueIs(c, op, false))
}

// IntoStream returns the value as a stream of one element, or of none if there is no
// value. It must be complete, that is, inside a slice: each run of the slice gives its
// own element.
func IntoStream[T any, L dataflow.Location, B bounds.Complete](
	o dataflow.Optional[T, L, B],
) dataflow.Stream[T, L, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.IntoStream")
	return newStream[T, L, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce](operators.ValueStream(c, op))
}

// Output returns a port for reading the latest value, if there is one. Like the output
// of a singleton it need not be read. The name appears in errors, traces and graphs.
func Output[T any, L dataflow.Location, B bounds.Singleton](
	o dataflow.Optional[T, L, B], name string,
) *dataflow.OptionalOutputPort[T] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.Output "+name)
	return newOptionalOutputPort(port.NewValueOutput(c, op))
}
