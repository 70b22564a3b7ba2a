package durabletest

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/seal"
)

// withLog returns options with which a flow keeps its history in a log that is there
// already.
func withLog(o durable.Options, log journal.Log) durable.Options {
	o.Log = journal.Opened{Log: log}
	return o
}

// newLed returns a flow whose steps nobody takes.
func newLed(o durable.Options, codec durable.Codec) (*dataflow.Flow, *engine.Graph) {
	f := dataflow.NewWithOptions(o.Flow)
	graph := *seal.Pointer(f)
	logdriven.Drive(graph, codec, nil)
	return f, graph
}
