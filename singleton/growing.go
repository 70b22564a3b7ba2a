package singleton

import (
	"cmp"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/operators"
)

// MapGrowing is [Map] for a function that keeps a growing value growing. The proof
// says why f never turns a larger value into a smaller one.
func MapGrowing[T, U any, L dataflow.Location, B bounds.Growing[Out], Out bounds.Stream](
	s dataflow.Singleton[T, L, B], f func(T) U, why dataflow.Proof,
) dataflow.Singleton[U, L, B] {
	c, op := engine.ReadProved(engine.ValueNodeOf(s), "singleton.MapGrowing", why, f)
	return newSingleton[U, L, B](operators.ValueMap(c, op, claims.Monotone(op, f, c.Region == nil)))
}

// Threshold returns limit, once, when the value first reaches limit or more. The
// element is the limit and not the value, which may have jumped far beyond it before it
// was looked at. If the value never reaches the limit, the stream stays empty.
//
// The value must only grow, so that it does not matter when it is looked at.
func Threshold[T cmp.Ordered, L dataflow.Location, B bounds.Growing[Out], Out bounds.Stream](
	s dataflow.Singleton[T, L, B], limit T,
) dataflow.Stream[T, L, Out, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	c, op := engine.Read(engine.ValueNodeOf(s), "singleton.Threshold")
	reached := func(v T) bool { return v >= limit }
	return newStream[T, L, Out, dataflow.TotalOrder, dataflow.ExactlyOnce](operators.ValueThreshold(c, op, limit, reached))
}
