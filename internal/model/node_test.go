package model

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// newLed returns a flow whose steps led takes.
func newLed(opts dataflow.Options, codec engine.Codec, led *engine.Led) *dataflow.Flow {
	f := dataflow.NewWithOptions(opts)
	graphOf(f).Lend(codec, led, nil)
	return f
}

// newRemote returns a flow that is only the ports of one that runs elsewhere.
func newRemote(opts dataflow.Options, codec engine.Codec, remote engine.Remote) *dataflow.Flow {
	f := dataflow.NewWithOptions(opts)
	graphOf(f).Lend(codec, nil, remote)
	return f
}
