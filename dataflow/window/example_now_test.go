package window_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

func more(sum *int, other int) { *sum += other }

func ExampleStampNow() {
	ctx, flow := context.Background(), dataflow.New()
	in, xs := dataflow.Input[Payment](dataflow.At[Bank](flow), "payments")
	events := window.StampNow(xs, 10*time.Millisecond, "a payment counts when the bank hears of it")
	closed, _ := window.Sessions(dataflow.KeyBy(events, card), 100*time.Millisecond, zero, cents, more, "a sum")
	out := dataflow.Output(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
		return fmt.Sprint(e.Key.Key, ": ", e.Value)
	}), "closed")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	in.SendBatch(ctx, []Payment{pay("gold", 500, 1), pay("gold", 20, 57)})
	fmt.Println(out.Next(ctx)) // nothing else arrives
	app.Stop(ctx)
	// Output:
	// gold: 520 <nil>
}

func ExampleStampNowKeyed() {
	show([]Payment{pay("gold", 500, 1), pay("blue", 7, 3), pay("gold", 20, 57)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		byCard := dataflow.KeyBy(xs, func(p Payment) string { return p.Card })
		events := window.StampNowKeyed(byCard, time.Second, "a payment counts when the bank hears of it")
		closed, _ := window.Sessions(events, time.Hour, zero, cents, more, "a sum")
		return dataflow.Output(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
			return fmt.Sprint(e.Key.Key, ": ", e.Value)
		}), "closed")
	})
	// Unordered output:
	// gold: 520
	// blue: 7
}
