package durable_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// Archive is another location, to which the flow sends entries.
type Archive struct{ dataflow.Process }

// TestRetainedOverRestarts puts a key, which is answered, forgotten and put again. The
// process ends between any two of these, with and without a final snapshot.
func TestRetainedOverRestarts(t *testing.T) {
	for name, log := range map[string]func(dir string) journal.Opener{"disklog": disklog.Dir, "natslog": natslog.Embedded} {
		for _, kill := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " stopped", true: " killed"}[kill], func(t *testing.T) {
				retainedOverRestarts(t, log(t.TempDir()), kill)
			})
		}
	}
}

func retainedOverRestarts(t *testing.T, log journal.Opener, kill bool) {
	type ports struct {
		in      *dataflow.EntryInputPort[string, int]
		answers *dataflow.EntryOutputPort[string, int]
		late    *dataflow.EntryOutputPort[string, int]
		emitted *dataflow.EntryOutputPort[string, int]
		sent    *dataflow.EntryOutputPort[string, int]
	}
	build := func(flow *dataflow.Flow) (p ports) {
		at := dataflow.At[Server](flow)
		in, jobs := keyedsingleton.InputWithin[string, int](at, "in", dataflow.Retain{For: time.Hour}, "tested")
		p.in = in
		p.answers = keyedsingleton.Output(keyedsingleton.MapAsync(jobs, func(_ context.Context, v int) int { return 10 * v }, keyedsingleton.AsyncOptions{}), "answers")
		p.late = keyedsingleton.Output(keyedsingleton.After(jobs, 30*time.Minute, "tested"), "late")
		p.sent = keyedsingleton.Output(keyedsingleton.Send(jobs, dataflow.At[Archive](flow)), "sent")
		p.emitted = keyedsingleton.Output(slice.EmitRetained(slice.BatchEntries(slice.At(at), jobs, "tested")), "emitted")
		return p
	}
	began := time.Now()
	var passed atomic.Int64
	opts := durable.Options{Log: log, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return began.Add(time.Duration(passed.Load())) }}
	var app *durable.App[ports]
	again := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		if kill {
			cancel()
		}
		defer cancel()
		if app != nil {
			if err := app.Stop(ctx); err != nil && !kill {
				t.Fatal(err)
			}
		}
		var err error
		if app, err = durable.Start(t.Context(), build, opts); err != nil {
			t.Fatal(err)
		}
	}
	put := func(v int, want error) {
		t.Helper()
		if err := app.Ports.in.Put(t.Context(), "a", v); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("put %d: %v, want %v", v, err, want)
		}
	}
	has := func(what string, out *dataflow.EntryOutputPort[string, int], want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		v, err := out.Await(ctx, "a")
		for err == nil && v != want && ctx.Err() == nil { // a value of the previous life
			v, err = out.Await(ctx, "a")
		}
		if v != want || err != nil {
			t.Errorf("%s has %d, %v, want %d", what, v, err, want)
		}
	}
	again()
	put(1, nil)
	put(2, dataflow.ErrDuplicateKey)
	again()
	put(3, dataflow.ErrDuplicateKey)
	has("answers", app.Ports.answers, 10)
	has("emitted", app.Ports.emitted, 1)
	has("sent", app.Ports.sent, 1)
	passed.Store(int64(40 * time.Minute))
	again()
	has("late", app.Ports.late, 1)
	put(4, dataflow.ErrDuplicateKey)
	passed.Store(int64(150 * time.Minute))
	again()
	put(5, nil) // the previous life is over: the key was remembered for two hours at most
	has("answers", app.Ports.answers, 50)
	has("emitted", app.Ports.emitted, 5)
	has("sent", app.Ports.sent, 5)
	again()
	put(6, dataflow.ErrDuplicateKey)
	has("answers", app.Ports.answers, 50)
	has("emitted", app.Ports.emitted, 5)
	passed.Store(int64(200 * time.Minute))
	again()
	has("late", app.Ports.late, 5)
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
