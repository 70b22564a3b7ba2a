package singleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
)

// Of returns a value that never changes and is there when the flow starts. Inside a
// slice, it is there in each run of it.
func Of[T any, L dataflow.Location](at L, value T) dataflow.Singleton[T, L, bounds.Bounded] {
	return dataflow.NewConstant(key, at, "singleton.Of", value)
}
