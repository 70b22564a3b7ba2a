package durable_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestTimersThatCameDueMeanwhile stops a flow while timers are pending and restarts it
// when all of them are due. They fire in the order of their deadlines, including a timer
// that another timer sets. Then the process ends without a snapshot, so that the step is
// replayed.
func TestTimersThatCameDueMeanwhile(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.OutputPort[string]
	}
	build := func(flow *dataflow.Flow) (p ports) {
		in, keys := keyedsingleton.Input[string, int](dataflow.At[Server](flow), "in")
		p.in = in
		later := keyedsingleton.Map(keyedsingleton.After(keys, 20*time.Minute, "tested"), func(int) string { return "20" })
		earlier := keyedsingleton.Map(keyedsingleton.After(keys, 10*time.Minute, "tested"), func(int) string { return "10" })
		chained := keyedsingleton.Map(keyedsingleton.After(keyedsingleton.After(keys, 10*time.Minute, "tested"), 5*time.Minute, "tested"), func(int) string { return "15" })
		all := dataflow.Merge(dataflow.Merge(keyedsingleton.Values(later), keyedsingleton.Values(chained)), keyedsingleton.Values(earlier))
		p.out = dataflow.Output(dataflow.AssumeOrder(all, "tested"), "fired")
		return p
	}
	opts := durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	start := func() *durable.App[ports] {
		app, err := durable.Start(t.Context(), build, opts)
		if err != nil {
			t.Fatal(err)
		}
		return app
	}
	app := start()
	if err := app.Ports.in.Put(t.Context(), "k", 0); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	opts.Now = func() time.Time { return time.Now().Add(time.Hour) }
	want := []string{"10", "15", "20"}
	for _, what := range []string{"after the stall", "made again"} {
		app := start()
		var got []string
		for range want {
			x, err := app.Ports.out.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, x)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s, timers came in the order %q, want %q", what, got, want)
		}
		if what == "made again" {
			if err := app.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = app.Stop(ctx) // ends at once, without a snapshot
	}
}
