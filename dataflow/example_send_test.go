package dataflow_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Kitchen and Worker are locations of some examples.
type (
	Kitchen struct{ dataflow.Process }
	Worker  struct{ dataflow.Process }
)

func ExampleSend() {
	ctx := context.Background()
	flow := dataflow.New()
	kitchen := dataflow.At[Kitchen](flow)
	in, orders := dataflow.Input[string](dataflow.At[Station](flow), "orders")
	cooked := dataflow.Map(dataflow.Send(orders, kitchen), func(dish string) string { return "hot " + dish })
	served := dataflow.Output(dataflow.Send(cooked, dataflow.At[Station](flow)), "served")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "soup")
	in.Send(ctx, "pie")
	in.Close()
	for dish := range served.All(ctx) {
		fmt.Println(dish)
	}
	fmt.Println(app.Wait())
	// Output:
	// hot soup
	// hot pie
	// <nil>
}

func ExampleMembers() {
	ctx := context.Background()
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	itself := func(w string) string { return w }

	// Each worker receives some of the words and counts them on its own processor.
	var counts []*dataflow.EntryOutputPort[string, int]
	for _, mine := range keyedstream.Divide(dataflow.KeyBy(words, itself), dataflow.Members[Worker](flow, 2)) {
		twice := keyedstream.FoldEarlyStop(mine, func() int { return 0 }, func(n *int, _ string) bool { *n++; return *n == 2 })
		counts = append(counts, keyedsingleton.Output(twice, "twice"))
	}

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range []string{"tea", "milk", "tea", "sugar", "milk"} {
		in.Send(ctx, w)
	}
	in.Close()
	fmt.Println(app.Wait())
	fmt.Println(counts[0].Len() + counts[1].Len())
	// Output:
	// <nil>
	// 2
}
