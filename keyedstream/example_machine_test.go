package keyedstream_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

func ExampleMachine() {
	dataflow.Local(func(at dataflow.Here) {
		in, words := keyedstream.Input[string, string](at, "words")
		// A full stop ends a line. The machine then forgets it.
		type turn = keyedstream.Turn[string, string, struct{}]
		lines, _ := keyedstream.Machine(words, func() string { return "" }, func(line *string, word string, do *turn) {
			if word == "." {
				do.Emit(*line + word)
				do.Forget()
				return
			}
			*line += word + " "
		})
		dataflow.Print(keyedstream.Entries(lines))

		for _, word := range []string{"come", "here", ".", "now", "."} {
			in.Send(context.Background(), "ann", word)
		}
	})
	// Output:
	// ann:come here .
	// ann:now .
}

func ExampleTimedMachine() {
	const reminder keyedstream.Timer = 0
	type turn = keyedstream.TimedTurn[string, string, bool]
	dataflow.Local(func(at dataflow.Here) {
		in, orders := keyedstream.Input[string, string](at, "orders")
		// An order that is not paid in time gets one reminder. Later it is cancelled.
		notes, _ := keyedstream.TimedMachine(orders, func() int { return 0 },
			func(_ *int, event string, do *turn) {
				switch event {
				case "ordered":
					do.After(reminder, time.Millisecond)
				case "paid":
					do.Emit("thank you")
					do.Stop(reminder)
				}
			},
			func(reminded *int, _ keyedstream.Timer, do *turn) {
				if *reminded++; *reminded == 1 {
					do.Emit("please pay")
					do.After(reminder, time.Millisecond)
					return
				}
				do.Emit("cancelled")
				do.Forget()
			},
			"whoever pays when the timer rings may be reminded, and is thanked")
		dataflow.Print(keyedstream.Entries(notes))

		in.SendBatch(context.Background(), []string{"ann", "bob", "ann"}, []string{"ordered", "ordered", "paid"})
	})
	// Unordered output:
	// ann:thank you
	// bob:please pay
	// bob:cancelled
}

func ExampleCallingMachine() {
	type turn = keyedstream.CallingTurn[string, string, string, string]
	dataflow.Local(func(at dataflow.Here) {
		in, names := keyedstream.Input[string, string](at, "names")
		// An unknown name is looked up once more, with a capital letter.
		found, _ := keyedstream.CallingMachine(names, func() int { return 0 },
			func(_ *int, name string, do *turn) { do.Call(name) },
			func(*int, keyedstream.Timer, *turn) {},
			keyedstream.Calling(func(_ context.Context, c keyedstream.Call[string, string]) string {
				return map[string]string{"Ann": "room 4"}[c.Request]
			}, func(asked *int, name, room string, do *turn) {
				switch *asked++; {
				case room != "":
					do.Emit(name + " is in " + room)
				case *asked == 1:
					do.Call(strings.ToUpper(name[:1]) + name[1:])
					return
				}
				do.Forget()
			}, keyedstream.CallOptions{Timeout: time.Second}),
			"the answers for one name come in the order in which they were asked for")
		dataflow.Print(keyedstream.Entries(found))

		in.Send(context.Background(), "first", "ann")
	})
	// Output:
	// first:Ann is in room 4
}

func ExampleCalling() {
	// The function receives the key, life and number that identify the call.
	keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[string, int]) error {
		fmt.Println(c.Key, c.Life, c.Number, c.Request)
		return ctx.Err()
	}, func(paid *bool, _ int, err error, do *keyedstream.CallingTurn[string, string, bool, int]) {
		*paid = err == nil
		do.Decide(*paid)
	}, keyedstream.CallOptions{Concurrency: 8, Timeout: 10 * time.Second})
	// Output:
}

func ExampleTurn() {
	// A test calls the step of a machine as a function.
	limit := func(seen *int, amount int, do *keyedstream.Turn[string, string, struct{}]) {
		if *seen += amount; *seen > 100 {
			do.Emit("too much")
			do.Forget()
		}
	}
	seen := 90
	var do keyedstream.Turn[string, string, struct{}]
	limit(&seen, 20, &do)
	fmt.Println(do.Emitted(), do.Forgets())
	// Output:
	// [too much] true
}
