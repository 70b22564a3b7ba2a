package durable

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

type triedPorts struct {
	in    *dataflow.EntryInputPort[string, int]
	good  *dataflow.EntryOutputPort[string, int]
	bad   *dataflow.EntryOutputPort[string, keyedsingleton.CallError]
	calls *dataflow.EntryOutputPort[string, string]
}

// TestTryAsyncKept checks that the history contains the outcomes of calls: a restarted flow
// has them without another call.
func TestTryAsyncKept(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	again := false
	build := func(f *dataflow.Flow) (p triedPorts) {
		in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
		try := func(_ context.Context, k string, v int) (int, error) {
			switch {
			case again:
				t.Errorf("%s is called again", k)
			case v < 0:
				return 0, errors.New(k + " is negative")
			}
			return v + 1, nil
		}
		values, failures := keyedsingleton.TryAsync(entries, try, keyedsingleton.AsyncOptions{Timeout: time.Minute}, keyedsingleton.Backoff{First: time.Microsecond})
		name := func(_ context.Context, k string, _ int) string { return "call of " + k }
		named := keyedsingleton.MapAsyncWithKey(entries, name, keyedsingleton.AsyncOptions{})
		return triedPorts{in, keyedsingleton.Output(values, "good"), keyedsingleton.Output(failures, "bad"), keyedsingleton.Output(named, "calls")}
	}
	check := func(app *App[triedPorts]) {
		t.Helper()
		await(t, app.Ports.good, "a", 2)
		await(t, app.Ports.bad, "b", keyedsingleton.CallError{Text: "b is negative", Attempts: 3})
		await(t, app.Ports.calls, "b", "call of b")
		if n := app.Ports.good.Len() + app.Ports.bad.Len(); n != 2 {
			t.Errorf("%d outcomes of 2 calls", n)
		}
	}
	app := start(t, log, build, Options{})
	for k, v := range map[string]int{"a": 1, "b": -1} {
		if err := app.Ports.in.Put(t.Context(), k, v); err != nil {
			t.Fatal(err)
		}
	}
	check(app)
	stop(t, app)
	again = true
	app = start(t, log.Reopen(), build, Options{})
	check(app)
	stop(t, app)
}
