package historycmd_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/historycmd"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// A Till is the location of the example flow.
type Till struct{ dataflow.Process }

// Ports are the inputs and outputs of the example flow.
type Ports struct {
	Sales *dataflow.KeyedInputPort[string, int]
	Count *dataflow.SingletonOutputPort[int]
}

func buildTill(flow *dataflow.Flow) Ports {
	in, sales := keyedstream.Input[string, int](dataflow.At[Till](flow), "sales")
	dataflow.Named("sums", keyedstream.Sum(sales))
	return Ports{in, singleton.Output(dataflow.Count(keyedstream.Values(sales)), "count")}
}

// A program gets a command that shows the state of its flow, such as "till log replay".
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "till")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	options := durable.Options{Log: disklog.Dir(dir), KeepFor: durable.Forever, Logger: slog.New(slog.DiscardHandler)}
	app, err := durable.Start(ctx, buildTill, options)
	if err != nil {
		panic(err)
	}
	app.Ports.Sales.Send(ctx, "tea", 4)
	app.Ports.Sales.Send(ctx, "tea", 9)
	for n := range app.Ports.Count.Watch(ctx) {
		if n == 2 {
			break
		}
	}
	app.Stop(ctx)

	var out bytes.Buffer
	command := historycmd.Of("till log", buildTill, options)
	command.Stdout = &out // the default is os.Stdout
	err = command.Run(ctx, []string{"replay"})
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "tea") {
			fmt.Println(strings.TrimSpace(line))
		}
	}
	fmt.Println("exit status", historycmd.ExitCode(err))
	// Output:
	// tea: 13
	// exit status 0
}
