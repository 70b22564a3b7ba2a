package connect_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A source is attached to a running flow, and stopped before the flow.
func ExampleAttach() {
	ctx := context.Background()
	flow := dataflow.New()
	in, records := connect.Input[string, int](dataflow.At[store](flow), "records")
	out := keyedstream.Output(records, "out")
	app, _ := dataflow.Start(ctx, flow)

	pumps, err := connect.Attach(ctx, app, connect.ByKey(topic(), "see ExampleByKey"), in, connect.Options{
		OnError: func(s connect.Split, err error) { fmt.Println(s, err) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		out.Next(ctx)
	}
	pumps.Stop(ctx) // before the flow, which then saves how far each split was read
	app.Stop(ctx)
	for _, s := range pumps.Status() {
		fmt.Println(s.Split, s.Position, s.Records)
	}
	// Output:
	// 0 {2 0} 2
	// 1 {1 0} 1
}

// give sends a record to a port, as a source does.
func give[K comparable, V any, O dataflow.Order, R dataflow.Retries](p *connect.Port[K, V, O, R], k K, v V, at uint64) {
	var b connect.Batch[K, V]
	b.Add(k, v, dataflow.Position{Major: at})
	if err := p.Send(context.Background(), "split 0", &b); err != nil {
		fmt.Println(err)
	}
}

// The values of a key are ordered, so a fold that needs their order compiles.
func ExampleInput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, words := connect.Input[string, string](dataflow.At[store](flow), "words")
	text := keyedstream.Scan(words, func() string { return "" }, func(all *string, word string, emit func(string)) { *all += word; emit(*all) })
	out := keyedstream.Output(text, "text")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	give(in, "ann", "mill", 1)
	give(in, "ann", "race", 2)
	fmt.Println(out.Next(ctx))
	fmt.Println(out.Next(ctx))
	// Output:
	// ann:mill <nil>
	// ann:millrace <nil>
}

// A source of one split is a stream without keys.
func ExampleWholeInput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, lines := connect.WholeInput[string](dataflow.At[store](flow), "lines")
	out := dataflow.Output(dataflow.Map(lines, strings.ToUpper), "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	give(in, struct{}{}, "hello", 6)
	fmt.Println(out.Next(ctx))
	// Output: HELLO <nil>
}

// Counting needs no order.
func ExampleUnorderedInput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, clicks := connect.UnorderedInput[string, int](dataflow.At[store](flow), "clicks")
	out := keyedstream.Output(keyedstream.Map(clicks, func(n int) int { return -n }), "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	give(in, "ann", 3, 1)
	give(in, "ann", 3, 1) // the same position again
	give(in, "ann", 4, 2)
	fmt.Println(out.Next(ctx))
	fmt.Println(out.Next(ctx))
	// Output:
	// ann:-3 <nil>
	// ann:-4 <nil>
}

// A source without positions may deliver a record again, and the flow must allow it.
func ExampleDeliveredInput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, jobs := connect.DeliveredInput[string, string](dataflow.At[store](flow), "jobs")
	out := keyedstream.Output(jobs, "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	give(in, "sweep", "the floor", 1)
	give(in, "sweep", "the floor", 1)
	fmt.Println(out.Next(ctx))
	fmt.Println(out.Next(ctx))
	// Output:
	// sweep:the floor <nil>
	// sweep:the floor <nil>
}

// An order that a queue delivers again is taken once, because its number is the key.
func ExampleEntryPort() {
	ctx := context.Background()
	flow := dataflow.New()
	entries, orders := keyedsingleton.Input[int, string](dataflow.At[store](flow), "orders")
	in := connect.EntryPort(entries, "orders")
	out := keyedsingleton.Output(orders, "taken")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	give(in, 17, "bread", 1)
	give(in, 17, "bread", 2)
	fmt.Println(out.Await(ctx, 17))
	// Output: bread <nil>
}

// A line that is not a number becomes a dead letter, and the lines after it are read.
func ExampleDeadLetters() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "connect")
	defer os.RemoveAll(dir)
	os.WriteFile(filepath.Join(dir, "numbers.jsonl"), []byte("1\ntwo\n3\n"), 0o600)
	flow := dataflow.New()
	in, numbers := connect.WholeInput[int](dataflow.At[store](flow), "numbers")
	letters, poison := connect.DeadLetters(dataflow.At[store](flow), "letters")
	out, bad := dataflow.Output(numbers, "out"), keyedstream.Output(poison, "bad")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	src := connect.Whole(file.JSON[int](filepath.Join(dir, "numbers.jsonl"), file.Options{}))
	pumps, _ := connect.Attach(ctx, app, src, in, connect.Options{DeadLetters: letters})
	defer pumps.Stop(ctx)
	fmt.Println(out.Next(ctx))
	fmt.Println(out.Next(ctx))
	letter, _ := bad.Next(ctx)
	fmt.Printf("%s: %q up to byte %d\n", letter.Key, letter.Value.Raw, letter.Value.At.Major)
	// Output:
	// 1 <nil>
	// 3 <nil>
	// numbers: "two" up to byte 6
}

// garbage is a queue that contains only garbage.
type garbage struct{ waiting chan string }

func (q garbage) Receive(ctx context.Context, b *connect.Batch[string, string]) (ack func(context.Context) error, err error) {
	select {
	case x := <-q.waiting:
		b.Bad = append(b.Bad, connect.Poison{Raw: []byte(x), Cause: "not a job"})
		return func(context.Context) error { return nil }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q garbage) Close() error { return nil }

// Dead letters of a source that repeats may repeat.
func ExampleRepeatedDeadLetters() {
	ctx := context.Background()
	q := garbage{make(chan string, 1)}
	flow := dataflow.New()
	in, _ := connect.DeliveredInput[string, string](dataflow.At[store](flow), "jobs")
	letters, poison := connect.RepeatedDeadLetters(dataflow.At[store](flow), "letters")
	bad := keyedstream.Output(poison, "bad")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	pumps, _ := connect.Attach(ctx, app, connect.Delivered(q), in, connect.Options{DeadLetters: letters})
	defer pumps.Stop(ctx)
	q.waiting <- "?"
	letter, _ := bad.Next(ctx)
	fmt.Printf("%s: %s: %s\n", letter.Key, letter.Value.Raw, letter.Value.Cause)
	// Output: jobs: ?: not a job
}

// Orders are written to files that appear complete, each order once.
func ExampleDrain() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "connect")
	defer os.RemoveAll(dir)
	flow := dataflow.New()
	in, orders := dataflow.Input[string](dataflow.At[store](flow), "orders")
	out := dataflow.Output(orders, "orders")
	app, _ := dataflow.Start(ctx, flow)
	drains := connect.Drain(ctx, app, out, file.Segments[string]{Dir: dir}, connect.DrainOptions{Flow: "shop", Output: "orders"})

	in.Send(ctx, "bread")
	in.Send(ctx, "milk")
	app.Stop(ctx)
	<-drains.Done() // everything is written
	fmt.Println(drains.Err())

	names, _ := filepath.Glob(filepath.Join(dir, "shop/orders/0/*"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fmt.Print(string(text))
	}
	// Output:
	// <nil>
	// "bread"
	// "milk"
}
