package durable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// A disk flips a bit of the input. The flow does not start until an operator accepts the loss with the token
// of the error. Then it continues with the copy.
func ExampleSalvage() {
	type bank struct{ dataflow.Process }
	type ports struct {
		opened  *dataflow.EntryInputPort[string, int]
		balance *dataflow.EntryOutputPort[string, int]
	}
	build := func(flow *dataflow.Flow) ports {
		opened, accounts := keyedsingleton.Input[string, int](dataflow.At[bank](flow), "opened")
		return ports{opened, keyedsingleton.Output(accounts, "balance")}
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	damaged := durable.Options{Log: natslog.Embedded(filepath.Join(dir, "state")), Logger: quiet}
	left := durable.Options{Log: disklog.Dir(filepath.Join(dir, "left")), Logger: quiet}

	app, err := durable.Start(ctx, build, damaged)
	if err != nil {
		log.Fatal(err)
	}
	if err := app.Ports.opened.Put(ctx, "ada", 100); err != nil {
		log.Fatal(err)
	}
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	flipBit(filepath.Join(dir, "state", "jetstream", "*", "streams", "IN_*", "msgs", "1.blk"))

	_, err = durable.Start(ctx, build, damaged)
	var found *durable.DamagedError
	if !errors.As(err, &found) {
		log.Fatal(err)
	}
	fmt.Println("damaged:", found.Partition)
	made, err := durable.Salvage(ctx, damaged, left.Log, found.Token)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lost:", made.Lost[0].Lost)
	if app, err = durable.Start(ctx, build, left); err != nil {
		log.Fatal(err)
	}
	fmt.Println(app.Ports.balance.Await(ctx, "ada"))
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// damaged: 0
	// lost: [message 1, of which the state that can be read has what came of it]
	// 100 <nil>
}

// flipBit flips a bit near the end of the file that matches a pattern.
func flipBit(pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		log.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		log.Fatal(err)
	}
	data[len(data)-20] ^= 4
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		log.Fatal(err)
	}
}
