package monitor_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/keyedsingleton"
)

type parcels struct {
	in  *dataflow.EntryInputPort[int, int]
	out *dataflow.EntryOutputPort[int, int]
}

// TestQuarantine lists, retries and drops records that a program could not handle, before and
// after the program was fixed.
func TestQuarantine(t *testing.T) {
	var mended atomic.Bool
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) parcels {
		in, entries := keyedsingleton.Input[int, int](dataflow.At[yard](f), "in")
		return parcels{in, keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int {
			if !mended.Load() {
				panic("not yet")
			}
			return x
		}), "out")}
	}, durable.Options{Log: disklog.Dir(t.TempDir()), Partitions: 2, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(monitor.Quarantine(app))
	defer server.Close()
	post := func(path string, want int) {
		t.Helper()
		r, err := http.Post(server.URL+path, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, r.StatusCode, want)
		}
	}
	list := func(want int) (all []monitor.Letter) {
		t.Helper()
		status, text := get(t, server.URL+"/quarantine")
		if err := json.Unmarshal([]byte(text), &all); err != nil || status != http.StatusOK || len(all) != want {
			t.Fatalf("%d, %v: %s, want %d letters", status, err, text, want)
		}
		return all
	}
	list(0)
	for k := range 2 {
		if app.Ports.in.Put(t.Context(), k, k) == nil {
			t.Error("the record was handled")
		}
	}
	letters := list(2)
	at := func(i int) string { return fmt.Sprintf("/quarantine/%d/%d", letters[i].Partition, letters[i].ID) }
	if l := letters[0]; l.Location != "yard" || l.Reason == "" || l.At.IsZero() || len(l.Record) == 0 {
		t.Errorf("%+v", l)
	}
	post(at(0)+"/retry", http.StatusConflict)
	list(2)
	mended.Store(true)
	post(at(0)+"/retry", http.StatusNoContent)
	post(at(0)+"/retry", http.StatusNotFound)
	post(at(1)+"/drop", http.StatusNoContent)
	post("/quarantine/7/1/drop", http.StatusNotFound)
	post("/quarantine/x/1/drop", http.StatusNotFound)
	post(at(1)+"/eat", http.StatusNotFound)
	list(0)
	if n := app.Ports.out.Len(); n != 1 {
		t.Errorf("%d entries came out, want that which was retried", n)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	post(at(0)+"/retry", http.StatusServiceUnavailable)
}
