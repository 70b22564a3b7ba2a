// Package wrong lets requests of two streams at a lock without saying which comes first.
package wrong

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

type Keeper struct{ dataflow.Process }

type told = dataflow.KeyedStream[string, string, Keeper, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

func notices(requests, others told, handle func(*int, string, func(string))) {
	keyedstream.Scan(keyedstream.Merge(requests, others), func() int { return 0 }, handle)
}
