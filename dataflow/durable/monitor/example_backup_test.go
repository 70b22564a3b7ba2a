package monitor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/keyedsingleton"
)

// A request backs up a running flow whose folder is locked, and the program checks the
// backup.
func ExampleBackup() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	backups := filepath.Join(dir, "backups")
	if err := os.Mkdir(backups, 0o700); err != nil {
		log.Fatal(err)
	}
	app, err := durable.Start(ctx, func(flow *dataflow.Flow) *dataflow.EntryInputPort[string, int] {
		type shop struct{ dataflow.Process }
		orders, entries := keyedsingleton.Input[string, int](dataflow.At[shop](flow), "orders")
		keyedsingleton.Output(entries, "kept")
		return orders
	}, durable.Options{Log: disklog.Dir(filepath.Join(dir, "state"))})
	if err != nil {
		log.Fatal(err)
	}
	if err := app.Ports.Put(ctx, "a", 3); err != nil {
		log.Fatal(err)
	}

	mux := http.NewServeMux()
	mux.Handle("/", monitor.Handler(app))
	mux.Handle("/backup", monitor.Backup(app, backups, disklog.Dir))
	server := httptest.NewServer(mux)
	defer server.Close()

	resp, err := http.Post(server.URL+"/backup", "", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var made monitor.Made
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		log.Fatal(err)
	}
	checked, err := durable.Check(ctx, durable.Options{Log: disklog.Dir(filepath.Join(backups, made.Name))})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.Status, checked[0].Partition, checked[0].Messages == made.Partitions[0].Messages)
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 201 Created 0 true
}
