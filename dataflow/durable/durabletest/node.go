package durabletest

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/seal"
)

// withLog returns options for a flow that keeps its history in an open log.
func withLog(o durable.Options, log journal.Log) durable.Options {
	o.Log = journal.Opened{Log: log}
	return o
}

// newLogDriven returns a flow that is driven by a log but makes no steps.
func newLogDriven(o durable.Options, codec durable.Codec) (*dataflow.Flow, *engine.Graph) {
	f := dataflow.NewWithOptions(o.Flow)
	graph := *seal.Pointer(f)
	logdriven.Drive(graph, codec, nil)
	return f, graph
}
