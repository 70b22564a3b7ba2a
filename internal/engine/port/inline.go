package port

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
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
