package sim_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// A shop has a log that nobody reads. The shop stops when the log is full.
func ExampleSim_Buffer() {
	type shop struct {
		orders *dataflow.InputPort[int]
		bills  *dataflow.OutputPort[int]
	}
	_, err := sim.Check(context.Background(), sim.Spec[shop]{
		Buffer: 2,
		Build: func(f *dataflow.Flow) shop {
			port, orders := dataflow.Input[int](dataflow.At[Server](f), "orders")
			dataflow.Output(orders, "log")
			return shop{port, dataflow.Output(dataflow.Map(orders, func(price int) int { return 2 * price }), "bills")}
		},
		Clients: []sim.Client[shop]{{Do: func(c *sim.Ctx, s shop) error {
			for price := range 5 {
				if err := s.orders.Send(c, price); err != nil {
					return err
				}
				if _, err := s.bills.Next(c); err != nil {
					return err
				}
			}
			return nil
		}}},
	})
	var full *dataflow.BlockedError
	if errors.As(err, &full) {
		fmt.Printf("%s stops: %d elements wait at %q, which holds %d\n", full.Location, full.Waiting, full.Port, full.Bound)
	}
	// Output: Server stops: 3 elements wait at "log", which holds 2
}
