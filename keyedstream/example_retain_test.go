package keyedstream_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// An order is a key that its client numbers.
type order struct {
	Client string
	Seq    uint64
}

func ExampleFoldEarlyStop_sequenced() {
	dataflow.Local(func(at dataflow.Here) {
		in, confirmations := keyedstream.Input[order, string](at, "confirmations")
		counted := dataflow.Sequenced(func(o order) (string, uint64) { return o.Client, o.Seq })
		confirmed := keyedstream.FoldEarlyStop(confirmations,
			func() int { return 0 },
			func(n *int, by string) (done bool) { *n++; return *n == 2 },
			counted)
		dataflow.Print(keyedsingleton.Keys(confirmed))

		// The third confirmation of an order is ignored, however long ago the second was.
		for _, by := range []string{"stock", "bank", "fraud"} {
			in.Send(context.Background(), order{"ann", 1}, by)
			in.Send(context.Background(), order{"ann", 2}, by)
		}
	})
	// Unordered output:
	// {ann 1}
	// {ann 2}
}

func ExampleFirstWithin() {
	dataflow.Local(func(at dataflow.Here) {
		in, alarms := keyedstream.Input[string, int](at, "alarms")
		first := keyedstream.FirstWithin(alarms, keyedstream.Retain{Keys: 1}, "an old alarm may ring again")
		keyedsingleton.InspectWithKey(first, func(sensor string, n int) { fmt.Println(sensor, n) })

		// At least one sensor is remembered, and at most two: the gate makes it forget the door.
		for i, sensor := range []string{"door", "door", "roof", "door", "gate", "door"} {
			in.Send(context.Background(), sensor, i)
		}
	})
	// Output:
	// door 0
	// roof 2
	// gate 4
	// door 5
}

func ExampleFoldEarlyStopWithin() {
	dataflow.Local(func(at dataflow.Here) {
		in, votes := keyedstream.Input[string, string](at, "votes")
		pairs := keyedstream.FoldEarlyStopWithin(votes,
			func() []string { return nil },
			func(by *[]string, voter string) (done bool) {
				*by = append(*by, voter)
				return len(*by) == 2
			},
			keyedstream.Retain{Keys: 100_000}, "nobody votes on a motion that 100,000 others have passed since")
		dataflow.Print(keyedsingleton.Entries(pairs))

		for _, voter := range []string{"ann", "bob", "cid"} {
			in.Send(context.Background(), "m1", voter)
		}
	})
	// Output:
	// m1:[ann bob]
}
