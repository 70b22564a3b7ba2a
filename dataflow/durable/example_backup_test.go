package durable_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedsingleton"
)

// A flow is backed up while it runs. The backup is restored to another folder, where the flow
// continues.
func ExampleApp_Backup() {
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
	backup, restored := disklog.Dir(filepath.Join(dir, "backup")), disklog.Dir(filepath.Join(dir, "restored"))

	app, err := durable.Start(ctx, build, durable.Options{Log: disklog.Dir(filepath.Join(dir, "state"))})
	if err != nil {
		log.Fatal(err)
	}
	if err := app.Ports.opened.Put(ctx, "ada", 100); err != nil {
		log.Fatal(err)
	}
	if _, err := app.Backup(ctx, backup); err != nil {
		log.Fatal(err)
	}
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}

	if _, err := durable.Copy(ctx, durable.Options{Log: backup}, restored); err != nil {
		log.Fatal(err)
	}
	checked, err := durable.Check(ctx, durable.Options{Log: restored})
	fmt.Println(len(checked), err)
	if app, err = durable.Start(ctx, build, durable.Options{Log: restored}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(app.Ports.balance.Await(ctx, "ada"))
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 <nil>
	// 100 <nil>
}
