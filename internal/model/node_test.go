package model

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// newLed returns a flow whose steps follow a log.
func newLed(opts dataflow.Options, codec engine.Codec, answer func([]byte) error) *dataflow.Flow {
	f := dataflow.NewWithOptions(opts)
	graphOf(f).LogDriven(codec, answer)
	graphOf(f).Check(nil)
	return f
}

// newRemote returns a flow that is only the ports of one that runs elsewhere.
func newRemote(opts dataflow.Options, codec engine.Codec, remote engine.Remote) *dataflow.Flow {
	f := dataflow.NewWithOptions(opts)
	graphOf(f).Facade(codec, remote)
	return f
}
