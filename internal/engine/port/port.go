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

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
)

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

// The compiler inlines a function of another package only if it has the function's body,
// and export data has the body of a function only if the package declares it or has
// inlined it. Inputs and operators are generic, so their code is made in the package of
// the program, which sees neither this package nor internal/keyed. Without what follows,
// and inline.go, each operation on a run token and each atomic load is a call
// there.
//
// So one of each that is on the way of a record is instantiated in these two files, and in
// package dataflow once more. Nothing calls these functions; no program contains them.

var _ = inlined

func inlined(ctx context.Context, op *engine.Op, n *engine.KeyedNode[int, int], in *Input[int], kin *KeyedInput[int, int]) {
	in.Send(ctx, 0)
	kin.Send(ctx, 0, 0)
	NewEntryOutput(n, op)
}
