package simprop_test

import (
	"fmt"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type server struct{ dataflow.Process }

// sums adds up batches of numbers.
type sums struct {
	xs      *dataflow.InputPort[int]
	largest *dataflow.OptionalOutputPort[int] // sum of a batch
}

func buildSums(flow *dataflow.Flow) sums {
	at := dataflow.At[server](flow)
	port, xs := dataflow.Input[int](at, "xs")
	tick := slice.At(at)
	batch := slice.Batch(tick, xs, "each batch is added up")
	sum := dataflow.Fold(batch, func() int { return 0 }, func(sum *int, x int) { *sum += x })
	all := slice.Emit(singleton.IntoStream(sum))
	return sums{port, optional.Output(dataflow.Max(all), "largest")}
}

func under100(c simprop.Case[sums]) sim.Spec[sums] {
	return sim.Spec[sums]{Build: buildSums, Clients: c.Clients(), Eventually: map[string]func(*sim.View, sums) error{
		"no batch is over 100": func(_ *sim.View, p sums) error {
			if n, ok := p.largest.Latest(); ok && n > 100 {
				return fmt.Errorf("a batch has the sum %d", n)
			}
			return nil
		},
	}}
}

func xs(p sums) *dataflow.InputPort[int] { return p.xs }

// batches is the property that no batch of some numbers has a sum over 100.
func batches(numbers gopter.Gen) gopter.Prop {
	return simprop.Holds(under100, simprop.Traffic(simprop.Values("xs", xs, numbers), simprop.Close("xs", xs)))
}

// TestShrinksJointly shrinks the inputs to two with the sum 101, whatever was drawn: those of
// which one batch is too large need another schedule than those of which another one is. It
// would miss nothing if only the schedule that failed were tried with smaller inputs.
func TestShrinksJointly(t *testing.T) {
	failed := 0
	for seed := range int64(40) {
		result := batches(gen.IntRange(0, 60))(gopter.DefaultGenParameters().WithSize(100).CloneWithSeed(seed))
		if result.Success() {
			continue
		}
		failed++
		c := result.Args[0].Arg.(simprop.Case[sums])
		if sent := simprop.Sent[int](c, "xs"); len(sent) != 2 || sent[0]+sent[1] != 101 || c.Len() != 2 {
			t.Errorf("seed %d: shrunk to\n%v\nfrom\n%v", seed, c, result.Args[0].OrigArg)
		}
	}
	if failed < 10 {
		t.Errorf("only %d of 40 cases fail", failed)
	}
}
