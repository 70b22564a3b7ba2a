package connect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
	"github.com/millrace/millrace/keyedstream"
)

// folder creates a folder with two files.
func folder() string {
	dir, _ := os.MkdirTemp("", "connect")
	os.WriteFile(filepath.Join(dir, "ann.txt"), []byte("hello\nhow are you\n"), 0o600)
	os.WriteFile(filepath.Join(dir, "bob.txt"), []byte("well\n"), 0o600)
	return dir
}

// topic returns a source in memory with two splits. All records of a key are in one split.
func topic() *shelf {
	s := newShelf()
	s.put("0", record{at: dataflow.Position{Major: 1}, key: "ann", value: 1}, record{at: dataflow.Position{Major: 2}, key: "ann", value: 2})
	s.put("1", record{at: dataflow.Position{Major: 1}, key: "bob", value: 5})
	return s
}

// Each file of a folder is a split, and its name the key of its lines.
func ExampleBySplit() {
	ctx, dir := context.Background(), folder()
	defer os.RemoveAll(dir)
	flow := dataflow.New()
	in, lines := connect.Input[string, string](dataflow.At[store](flow), "lines")
	out := keyedstream.Output(lines, "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	pumps, _ := connect.Attach(ctx, app, connect.BySplit(file.Lines(filepath.Join(dir, "*.txt"), file.Options{})), in, connect.Options{})
	defer pumps.Stop(ctx)
	for range 3 {
		e, _ := out.Next(ctx)
		name, _, _ := strings.Cut(filepath.Base(e.Key), "#") // the part after # is how the file begins
		fmt.Println(name, e.Value)
	}
	// Unordered output:
	// ann.txt hello
	// ann.txt how are you
	// bob.txt well
}

// One file is a stream of its lines, in order.
func ExampleWhole() {
	ctx, dir := context.Background(), folder()
	defer os.RemoveAll(dir)
	flow := dataflow.New()
	in, lines := connect.WholeInput[string](dataflow.At[store](flow), "lines")
	out := dataflow.Output(lines, "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	pumps, _ := connect.Attach(ctx, app, connect.Whole(file.Lines(filepath.Join(dir, "ann.txt"), file.Options{})), in, connect.Options{})
	defer pumps.Stop(ctx)
	for range 2 {
		fmt.Println(out.Next(ctx))
	}
	// Output:
	// hello <nil>
	// how are you <nil>
}

// The records of a key are in order, because something outside the program keeps them in one split.
func ExampleByKey() {
	ctx := context.Background()
	flow := dataflow.New()
	in, records := connect.Input[string, int](dataflow.At[store](flow), "records")
	sums := keyedstream.Scan(records, func() int { return 0 }, func(sum *int, n int, emit func(int)) { *sum += n; emit(*sum) })
	out := keyedstream.Output(sums, "sums")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	src := connect.ByKey(topic(), "producers divide keys by their hash, and the topic keeps its two partitions")
	pumps, _ := connect.Attach(ctx, app, src, in, connect.Options{})
	defer pumps.Stop(ctx)
	for range 3 {
		fmt.Println(out.Next(ctx))
	}
	// Unordered output:
	// ann:1 <nil>
	// ann:3 <nil>
	// bob:5 <nil>
}

// A program that needs no order makes no promise about it.
func ExampleUnordered() {
	ctx := context.Background()
	flow := dataflow.New()
	in, records := connect.UnorderedInput[string, int](dataflow.At[store](flow), "records")
	out := keyedstream.Output(records, "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	pumps, _ := connect.Attach(ctx, app, connect.Unordered(topic()), in, connect.Options{})
	defer pumps.Stop(ctx)
	for range 3 {
		fmt.Println(out.Next(ctx))
	}
	// Unordered output:
	// ann:1 <nil>
	// ann:2 <nil>
	// bob:5 <nil>
}

// A source with an order is read by a port without one.
func ExampleWeaken() {
	ctx, dir := context.Background(), folder()
	defer os.RemoveAll(dir)
	flow := dataflow.New()
	in, lines := connect.UnorderedInput[string, string](dataflow.At[store](flow), "lines")
	out := keyedstream.Output(lines, "out")
	app, _ := dataflow.Start(ctx, flow)
	defer app.Stop(ctx)

	ordered := connect.BySplit(file.Lines(filepath.Join(dir, "bob.txt"), file.Options{}))
	pumps, _ := connect.Attach(ctx, app, connect.Weaken(ordered), in, connect.Options{})
	defer pumps.Stop(ctx)
	e, _ := out.Next(ctx)
	fmt.Println(e.Value)
	// Output: well
}

// jobs is a queue of another system, which delivers a job again until it is acknowledged.
type jobs struct{ waiting chan string }

func (q jobs) Receive(ctx context.Context, b *connect.Batch[string, string]) (ack func(context.Context) error, err error) {
	select {
	case job := <-q.waiting:
		b.Keys, b.Values = append(b.Keys, job), append(b.Values, "do "+job)
		return func(context.Context) error { fmt.Println("acknowledged", job); return nil }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q jobs) Close() error { return nil }

// A job that the queue delivers again is in the stream twice, as its type says.
func ExampleDelivered() {
	ctx := context.Background()
	q := jobs{make(chan string, 1)}
	flow := dataflow.New()
	in, received := connect.DeliveredInput[string, string](dataflow.At[store](flow), "jobs")
	out := keyedstream.Output(received, "out")
	app, _ := dataflow.Start(ctx, flow)

	pumps, _ := connect.Attach(ctx, app, connect.Delivered(q), in, connect.Options{})
	q.waiting <- "sweep"
	fmt.Println(out.Next(ctx))
	pumps.Stop(ctx)
	app.Stop(ctx)
	// Unordered output:
	// acknowledged sweep
	// sweep:do sweep <nil>
}

// A record on which the program's function panics is one that cannot be decoded.
func ExampleDecode() {
	columns := func(line string) (key, value string, err error) {
		all := strings.Split(line, ",")
		return all[0], all[1], nil
	}
	key, value, err := connect.Decode(columns, "ann,3")
	fmt.Println(key, value, err)
	_, _, err = connect.Decode(columns, "ann")
	cause, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Println(cause)
	// Output:
	// ann 3 <nil>
	// decoding it panicked: runtime error: index out of range [1] with length 1
}

// An error of a cursor or a writer that passes is marked with Retry.
func ExampleRetry() {
	err := errors.New("the server starts again")
	marked := connect.Retry(err)
	fmt.Println(marked, errors.Is(marked, err), connect.Retry(nil))
	// Output: the server starts again true <nil>
}

// A server may say how long it wants to be left alone.
func ExampleRetryAfter() {
	err := connect.RetryAfter(errors.New("too many requests"), time.Minute)
	fmt.Println(err, connect.Passes(err))
	// Output: too many requests true
}

// A connector that wraps an error of the program's function keeps the mark.
func ExamplePasses() {
	err := fmt.Errorf("decoding: %w", connect.Retry(errors.New("the registry of schemas does not answer")))
	fmt.Println(connect.Passes(err), connect.Passes(errors.New("not a number")))
	// Output: true false
}
