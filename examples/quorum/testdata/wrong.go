// Package wrong forgets that a replica may send its ballot again.
package wrong

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

type Coordinator struct{ dataflow.Process }

func passed(votes dataflow.KeyedStream[string, string, Coordinator, bounds.Unbounded, dataflow.TotalOrder, dataflow.AtLeastOnce]) {
	keyedstream.FoldEarlyStop(votes, func() int { return 0 }, func(n *int, _ string) bool { *n++; return *n == 2 })
}
