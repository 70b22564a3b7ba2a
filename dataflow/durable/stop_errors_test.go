package durable

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

type endPorts struct {
	in     *dataflow.EntryInputPort[string, int]
	closed *dataflow.EntryOutputPort[window.Key[int], int]
	out    *dataflow.OutputPort[int]
	called *dataflow.EntryOutputPort[string, int]
}

// TestReadsWhenFlowEnds checks what waiting and later reads return at the end of a flow, as the ports document it: io.EOF
// after Stop, the cause after the context, and the failure of a function. The refusal of sends, which is decided at the same
// time, must not take its place.
func TestReadsWhenFlowEnds(t *testing.T) {
	build := func(f *dataflow.Flow) (p endPorts) {
		in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
		values := dataflow.Map(keyedsingleton.Values(entries), func(x int) int { return 10 / x })
		events := window.StampNow(values, time.Second, "the test has no time")
		closed, _ := window.Count(dataflow.KeyBy(events, func(e window.Event[int]) int { return e.Value }), window.Every(time.Hour))
		called := keyedsingleton.MapAsync(entries, func(_ context.Context, x int) int { return x }, keyedsingleton.AsyncOptions{})
		return endPorts{in, keyedsingleton.Output(closed, "closed"), dataflow.Output(values, "out"), keyedsingleton.Output(called, "called")}
	}
	cause := errors.New("the test is over")
	ends := map[string]struct {
		end  func(app *App[endPorts], cancel context.CancelCauseFunc)
		says func(error) bool
	}{
		"stop":    {func(app *App[endPorts], _ context.CancelCauseFunc) { stop(t, app) }, func(err error) bool { return err == io.EOF }},
		"context": {func(_ *App[endPorts], cancel context.CancelCauseFunc) { cancel(cause) }, func(err error) bool { return err == cause }},
		"failure": {func(app *App[endPorts], _ context.CancelCauseFunc) { app.Ports.in.Put(context.Background(), "zero", 0) }, func(err error) bool {
			var step *dataflow.StepError
			return errors.As(err, &step)
		}},
	}
	for name, test := range ends {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				app, err := Start(ctx, build, Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, EndOnFailure: true, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				if err := app.Ports.in.Put(t.Context(), "one", 1); err != nil {
					t.Fatal(err)
				}
				reads := map[string]func() error{
					"Next":  func() error { _, err := app.Ports.out.Next(t.Context()); return err },
					"Await": func() error { _, err := app.Ports.called.Await(t.Context(), "two"); return err },
					"Take":  func() error { _, err := app.Ports.called.Take(t.Context(), "three"); return err },
					"Await of a window": func() error {
						_, err := app.Ports.closed.Await(t.Context(), window.Key[int]{})
						return err
					},
				}
				if x, err := app.Ports.out.Next(t.Context()); x != 10 || err != nil {
					t.Fatal(x, err)
				}
				waiting := make(chan func())
				for name, read := range reads {
					go func() {
						err := read()
						waiting <- func() {
							if !test.says(err) {
								t.Errorf("a waiting %s: %v", name, err)
							}
						}
					}()
				}
				test.end(app, cancel)
				<-app.Done()
				for range reads {
					(<-waiting)()
				}
				for name, read := range reads {
					if err := read(); !test.says(err) {
						t.Errorf("a later %s: %v", name, err)
					}
				}
			}
		})
	}
}
