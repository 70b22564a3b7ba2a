package optional

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// IntoSingleton returns the value or its absence as one value that is always there.
func IntoSingleton[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B],
) dataflow.Singleton[dataflow.Maybe[T], L, Out] {
	c := o.Unseal(key)
	op := engine.NewOp(c.Site(), "optional.IntoSingleton", "")
	maybe := func(v T, ok bool) dataflow.Maybe[T] { return dataflow.Maybe[T]{Value: v, OK: ok} }
	return dataflow.SealSingleton[dataflow.Maybe[T], L, Out](key, engine.CellTotal(c, op, maybe))
}

// IsSome returns whether there is a value. It changes only when that does, and not with
// the value.
func IsSome[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B],
) dataflow.Singleton[bool, L, Out] {
	c := o.Unseal(key)
	return dataflow.SealSingleton[bool, L, Out](key, engine.CellIs(c, engine.NewOp(c.Site(), "optional.IsSome", ""), true))
}

// IsNone returns whether there is no value; see [IsSome].
func IsNone[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B],
) dataflow.Singleton[bool, L, Out] {
	c := o.Unseal(key)
	return dataflow.SealSingleton[bool, L, Out](key, engine.CellIs(c, engine.NewOp(c.Site(), "optional.IsNone", ""), false))
}

// IntoStream returns the value as a stream of one element, or of none. It must be
// complete, that is, inside a slice: each run of the slice gives what it has.
func IntoStream[T any, L dataflow.Location, B bounds.Complete](
	o dataflow.Optional[T, L, B],
) dataflow.Stream[T, L, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	c := o.Unseal(key)
	op := engine.NewOp(c.Site(), "optional.IntoStream", "")
	return dataflow.SealStream[T, L, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce](key, engine.CellStream(c, op))
}

// Output returns a port from which the latest value is read, if there is one. Like
// that of a singleton it need not be read. The name appears in errors, traces and
// graphs.
func Output[T any, L dataflow.Location, B bounds.Singleton](
	o dataflow.Optional[T, L, B], name string,
) *dataflow.OptionalOutputPort[T] {
	c := o.Unseal(key)
	op := engine.NewOp(c.Site(), "optional.Output "+name, "")
	return dataflow.NewOptionalOutputPort(key, engine.NewCellOutlet(c, op))
}
