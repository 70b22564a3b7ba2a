package model

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// newLed returns a log-driven flow.
func newLed(opts dataflow.Options, c codec.Codec, answer func([]byte) error) *dataflow.Flow {
	f := dataflow.NewWithOptions(opts)
	logdriven.Drive(graphOf(f), c, func(r codec.Record) error { return answer(r.Encode(nil)) })
	graphOf(f).Check(nil)
	return f
}

// newRemote returns a flow that consists only of the ports of a flow that runs elsewhere.
func newRemote(opts dataflow.Options, codec codec.Codec, remote engine.Remote) *dataflow.Flow {
	f := dataflow.NewWithOptions(opts)
	logdriven.Facade(graphOf(f), codec, remote)
	return f
}
