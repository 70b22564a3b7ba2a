package sim

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/seal"
)

// graphOf returns what a flow is to the engine; see package seal.
func graphOf(f *dataflow.Flow) *engine.Graph { return *seal.Pointer(f) }

// outputOf returns what an output is to the engine.
func outputOf[T any](out *dataflow.OutputPort[T]) *port.Output[T] {
	return seal.Value(*out).(*port.Output[T])
}

// historyOf returns what a recording is to the engine, or nil if there is none.
func historyOf(r *dataflow.Recording) *engine.Recording {
	if r == nil {
		return nil
	}
	return seal.Pointer(r)
}
