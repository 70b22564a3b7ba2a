package durable

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/seal"
)

// graphOf returns the engine's graph of a flow.
func graphOf(f *dataflow.Flow) *engine.Graph { return *seal.Pointer(f) }

// newLogDriven returns a flow whose steps follow a log.
func newLogDriven(opts dataflow.Options, c Codec, answer func(codec.Record) error, keepFailures bool) (*dataflow.Flow, *engine.Graph) {
	f := dataflow.NewWithOptions(opts)
	logdriven.Drive(graphOf(f), c, answer)
	if keepFailures {
		logdriven.KeepFailures(graphOf(f))
	}
	return f, graphOf(f)
}

// newRemote returns a flow that consists only of the ports of a flow that runs elsewhere.
func newRemote(opts dataflow.Options, c Codec, remote engine.Remote) (*dataflow.Flow, *engine.Graph) {
	f := dataflow.NewWithOptions(opts)
	logdriven.Facade(graphOf(f), c, remote)
	return f, graphOf(f)
}
