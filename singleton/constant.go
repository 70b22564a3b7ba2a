package singleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Of returns a value that never changes. It is present when the flow starts, and inside
// a slice in each of its runs.
func Of[T any, L dataflow.Location](at L, value T) dataflow.Singleton[T, L, bounds.Bounded] {
	p := placeOf(at, "singleton.Of")
	engine.NewOp(p.Location, "singleton.Of", "")
	return newSingleton[T, L, bounds.Bounded](operators.ConstantValue(p.Location, p.Region, value))
}
