package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/file"
	"github.com/millrace/millrace/keyedstream"
)

type shop struct{ dataflow.Process }

// put writes a file to a temporary folder.
func put(name, text string) (path string) {
	dir, _ := os.MkdirTemp("", "file")
	path = filepath.Join(dir, name)
	os.WriteFile(path, []byte(text), 0o600)
	return path
}

// read prints the first n elements that a flow reads from a source.
func read[V any](r connect.Reader[struct{}, V], n int) {
	ctx := context.Background()
	flow := dataflow.New()
	in, elements := connect.WholeInput[V](dataflow.At[shop](flow), "elements")
	out := dataflow.Output(elements, "out")
	app, _ := dataflow.Start(ctx, flow)
	pumps, _ := connect.Attach(ctx, app, connect.Whole(r), in, connect.Options{})
	for range n {
		x, _ := out.Next(ctx)
		fmt.Printf("%+v\n", x)
	}
	pumps.Stop(ctx)
	app.Stop(ctx)
}

type line struct {
	Item   string `json:"item"`
	Pieces int    `json:"pieces"`
}

// The orders in the files of a folder are read, and a line for each is written to files of another folder. With durable.Start in
// place of dataflow.Start, each order is taken once and each line is written once, even across crashes.
func Example() {
	path := put("monday.jsonl", `{"item": "bread", "pieces": 2}
{"item": "milk", "pieces": 1}
`)
	dir := filepath.Dir(path)
	defer os.RemoveAll(dir)
	ctx := context.Background()

	flow := dataflow.New()
	in, orders := connect.Input[string, line](dataflow.At[shop](flow), "orders") // by file
	tasks := keyedstream.Map(orders, func(l line) string { return fmt.Sprintf("pack %d of %s", l.Pieces, l.Item) })
	out := dataflow.Output(keyedstream.Values(tasks), "tasks")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	drains := connect.Drain(ctx, app, out, file.Segments[string]{Dir: dir}, connect.DrainOptions{Flow: "shop", Output: "tasks"})
	pumps, err := connect.Attach(ctx, app, connect.BySplit(file.JSON[line](filepath.Join(dir, "*.jsonl"), file.Options{})), in, connect.Options{})
	if err != nil {
		panic(err)
	}

	written := func() (lines string) {
		files, _ := filepath.Glob(filepath.Join(dir, "shop", "tasks", "0", "*.jsonl"))
		for _, name := range files {
			text, _ := os.ReadFile(name)
			lines += string(text)
		}
		return lines
	}
	for strings.Count(written(), "\n") < 2 { // a service waits for a signal instead
		runtime.Gosched()
	}
	pumps.Stop(ctx)
	app.Stop(ctx)
	<-drains.Done()
	fmt.Print(written())
	// Output:
	// "pack 2 of bread"
	// "pack 1 of milk"
}

// Each line of a log is an element.
func ExampleLines() {
	path := put("app.log", "started\nstopped\n")
	defer os.RemoveAll(filepath.Dir(path))
	read(file.Lines(path, file.Options{}), 2)
	// Output:
	// started
	// stopped
}

// Each line is an order.
func ExampleJSON() {
	path := put("orders.jsonl", `{"item": "bread", "pieces": 2}
{"item": "milk", "pieces": 1}
`)
	defer os.RemoveAll(filepath.Dir(path))
	read(file.JSON[line](path, file.Options{}), 2)
	// Output:
	// {Item:bread Pieces:2}
	// {Item:milk Pieces:1}
}

// The header names the columns, which may be in any order.
func ExampleCSV() {
	path := put("orders.csv", "pieces,item\n2,bread\n1,\"milk, fresh\"\n")
	defer os.RemoveAll(filepath.Dir(path))
	read(file.CSV(path, func(r file.Row) (line, error) {
		item, err := r.Field("item")
		if err != nil {
			return line{}, err
		}
		pieces, err := r.Field("pieces")
		if err != nil {
			return line{}, err
		}
		n, err := strconv.Atoi(pieces)
		return line{item, n}, err
	}, file.Options{}), 2)
	// Output:
	// {Item:bread Pieces:2}
	// {Item:milk, fresh Pieces:1}
}
