package simprop_test

import (
	"fmt"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type Desk struct{ dataflow.Process }

// Payments are the ports of a flow that pays amounts in batches.
type Payments struct {
	Amounts *dataflow.SharedInputPort[int]
	Paid    *dataflow.OutputPort[int] // the sum of each batch
}

func BuildPayments(flow *dataflow.Flow) Payments {
	port, amounts := dataflow.SharedInput[int](dataflow.At[Desk](flow), "amounts")
	tick := slice.At(dataflow.At[Desk](flow))
	batch := slice.Batch(tick, amounts, "amounts that come together are paid together")
	sums := slice.Emit(singleton.IntoStream(dataflow.Sum(batch)))
	return Payments{port, dataflow.Output(sums, "paid")}
}

// No batch of payments may be over 100, and the property finds two payments that are. The seed is
// fixed so that the example always draws the same cases; a test uses simprop.Run.
func Example() {
	spec := func(c simprop.Case[Payments]) sim.Spec[Payments] {
		return sim.Spec[Payments]{Build: BuildPayments, Clients: c.Clients(), Eventually: map[string]func(*sim.View, Payments) error{
			"no batch is over 100": func(v *sim.View, p Payments) error {
				for _, sum := range sim.Elements(v, p.Paid) {
					if sum > 100 {
						return fmt.Errorf("a batch has the sum %d", sum)
					}
				}
				return nil
			},
		}}
	}
	amounts := simprop.Values("pay", func(p Payments) *dataflow.SharedInputPort[int] { return p.Amounts }, gen.IntRange(0, 60))

	result := simprop.Holds(spec, simprop.Traffic(amounts)).Check(gopter.DefaultTestParametersWithSeed(7))
	smallest := result.Args[0].Arg.(simprop.Case[Payments])
	fmt.Println("holds:", result.Passed())
	fmt.Println("payments:", smallest.Len())
	fmt.Println(result.Labels[0])
	// Output:
	// holds: false
	// payments: 2
	// sim: no batch is over 100: a batch has the sum 101
	// schedule: 0.0.1
}
