// Package wrong answers with a total that may still change.
package wrong

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type Counters struct{ dataflow.Process }

func values(increments dataflow.KeyedStream[string, int, Counters, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) {
	keyedsingleton.Output(keyedstream.Sum(increments), "values")
}
