package singleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// Output returns a port for reading the latest value. Unlike an output of a stream it
// need not be read: versions that were not read are skipped. The name appears in
// errors, traces and graphs.
func Output[T any, L dataflow.Location, B bounds.Singleton](
	s dataflow.Singleton[T, L, B], name string,
) *dataflow.SingletonOutputPort[T] {
	c, op := engine.Read(engine.ValueNodeOf(s), "singleton.Output "+name)
	return newSingletonOutputPort(port.NewValueOutput(c, op))
}
