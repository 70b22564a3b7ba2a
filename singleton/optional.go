package singleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Filter returns the value while it satisfies keep. If the value changes, the result
// may come and go.
func Filter[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	s dataflow.Singleton[T, L, B], keep func(T) bool,
) dataflow.Optional[T, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(s), "singleton.Filter", keep)
	return newOptional[T, L, Out](operators.ValueFilterMap(c, op, func(v T) (T, bool) { return v, keep(v) }))
}

// FilterMap returns the result of f while f returns true with it, and nothing while f
// returns false. See [Filter].
func FilterMap[T, U any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	s dataflow.Singleton[T, L, B], f func(T) (U, bool),
) dataflow.Optional[U, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(s), "singleton.FilterMap", f)
	return newOptional[U, L, Out](operators.ValueFilterMap(c, op, f))
}
