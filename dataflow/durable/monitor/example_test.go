package monitor_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/keyedsingleton"
)

// A flow on disk reports that it is ready and how many records it has accepted.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	app, err := durable.Start(ctx, func(flow *dataflow.Flow) *dataflow.EntryInputPort[string, int] {
		type shop struct{ dataflow.Process }
		orders, entries := keyedsingleton.Input[string, int](dataflow.At[shop](flow), "orders")
		keyedsingleton.Output(entries, "kept")
		return orders
	}, durable.Options{Log: disklog.Dir(dir)})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(monitor.Handler(app))
	defer server.Close()
	get := func(path string) (int, string) {
		r, err := http.Get(server.URL + path)
		if err != nil {
			log.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			log.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	fmt.Println(get("/readyz"))
	if err := app.Ports.Put(ctx, "a", 3); err != nil {
		log.Fatal(err)
	}
	_, text := get("/metrics")
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "millrace_durable_records_total") || strings.Contains(lines.Text(), `state="running"`) {
			fmt.Println(lines.Text())
		}
	}
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(get("/livez"))
	// Output:
	// 200 ok
	//
	// millrace_durable_partition_state{location="shop",partition="0",state="running"} 1
	// millrace_durable_records_total 1
	// 503 durable: stopped
}
