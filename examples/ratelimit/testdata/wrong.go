// Package wrong reads the clock without a reason.
package wrong

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

type (
	Gate     struct{ dataflow.Process }
	requests = dataflow.KeyedStream[string, string, Gate, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	turn     = keyedstream.Turn[string, time.Duration, struct{}]
)

func ask(last *time.Duration, _ string, do *turn) {
	do.Emit(do.Now() - *last)
}

func pauses(asked requests) {
	keyedstream.Machine(asked, func() time.Duration { return 0 }, ask)
}
