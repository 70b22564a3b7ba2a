package sim_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

// Two payments draw from one account outside the flow. Nothing goes wrong as long as each payment reads
// and writes without interruption. An operation between the read and the write overdraws the account.
func ExamplePoint() {
	type bank struct {
		payments *dataflow.EntryInputPort[string, int]
		balance  *int
	}
	_, err := sim.Check(context.Background(), sim.Spec[bank]{
		Build: func(f *dataflow.Flow) bank {
			balance := 100
			port, payments := keyedsingleton.Input[string, int](dataflow.At[Server](f), "payments")
			keyedsingleton.Output(keyedsingleton.MapAsync(payments, func(ctx context.Context, amount int) bool {
				enough := balance >= amount
				sim.Point(ctx, "between read and write")
				if enough {
					balance -= amount
				}
				return enough
			}, keyedsingleton.AsyncOptions{Concurrency: 2}), "paid")
			return bank{port, &balance}
		},
		Clients: []sim.Client[bank]{{Do: func(c *sim.Ctx, b bank) error {
			return errors.Join(b.payments.Put(c, "rent", 70), b.payments.Put(c, "bread", 40))
		}}},
		Eventually: map[string]func(*sim.View, bank) error{"not overdrawn": func(_ *sim.View, b bank) error {
			if *b.balance < 0 {
				return fmt.Errorf("the balance is %d", *b.balance)
			}
			return nil
		}},
	})
	fmt.Println(err)
	// Output: sim: not overdrawn: the balance is -10
}
