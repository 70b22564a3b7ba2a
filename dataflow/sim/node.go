package sim

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/seal"
)

// graphOf returns the engine's graph of a flow; see package seal.
func graphOf(f *dataflow.Flow) *engine.Graph { return *seal.Pointer(f) }

// outputOf returns the engine's output of a port.
func outputOf[T any](out *dataflow.OutputPort[T]) *port.Output[T] {
	return seal.Value(*out).(*port.Output[T])
}

// historyOf returns the engine's form of a recording, or nil if r is nil.
func historyOf(r *dataflow.Recording) *engine.Recording {
	if r == nil {
		return nil
	}
	return seal.Pointer(r)
}
