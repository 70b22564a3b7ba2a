// Package port has the ends of a flow: inputs and outputs that a program reads and writes,
// and what goes on within the flow when a step is published, exchanges between locations,
// cycles and asynchronous calls.
//
// An input takes records for a later step and implements [engine.Input]: [Input] for
// elements, [KeyedInput] for entries. An output is given what a step gave and implements
// [engine.Output]: [Output] for elements, [EntryOutput] for entries, [ValueOutput] for a
// value that changes. The files *_log.go have what a history outside needs of the larger ones.
// Start reading at Input.
package port

import "github.com/millrace/millrace/internal/engine"

var (
	_ engine.Input = (*Input[int])(nil)
	_ engine.Input = (*KeyedInput[int, int])(nil)
	_ engine.Input = (*answers[int, int, int])(nil)

	_ engine.Port     = (*Output[int])(nil)
	_ engine.Port     = (*EntryOutput[int, int])(nil)
	_ engine.Port     = (*ValueOutput[int])(nil)
	_ engine.Unsent   = (*exchange[int])(nil)
	_ engine.Unsent   = (*keyedExchange[int, int])(nil)
	_ engine.Delivery = (*Cycle[int])(nil)
	_ engine.Calling  = (*async[int, int, int])(nil)
)
