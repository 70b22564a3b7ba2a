package durable

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestQuarantinedEvent quarantines an event that came from another location. The windows continue to
// close. When the mark has passed the event, Retry fails and says so, and Drop removes it.
func TestQuarantinedEvent(t *testing.T) {
	type gate struct{ dataflow.Process }
	type office struct{ dataflow.Process }
	type ports struct {
		in   *dataflow.InputPort[int]
		days *dataflow.EntryOutputPort[window.Key[bool], int]
	}
	var mended atomic.Bool
	build := func(f *dataflow.Flow) ports {
		in, seconds := dataflow.Input[int](dataflow.At[gate](f), "in")
		events, _ := window.Stamp(seconds, func(s int) window.Time { return window.Time(s) * window.Time(time.Second) }, window.Disorder{})
		moved := dataflow.Inspect(dataflow.Send(events, dataflow.At[office](f)), func(e window.Event[int]) {
			if e.Value == 3 && !mended.Load() {
				panic("three")
			}
		})
		closed, _ := window.Count(dataflow.KeyBy(moved, func(window.Event[int]) bool { return true }), window.Every(10*time.Second))
		return ports{in, keyedsingleton.Output(closed, "closed")}
	}
	synctest.Test(t, func(t *testing.T) {
		app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2}), build, Options{StepBytes: 1})
		for _, s := range []int{1, 2, 3, 4, 15} {
			if err := app.Ports.in.Send(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := window.Key[bool]{Key: true, Span: window.Span{From: 0, To: window.Time(10 * time.Second)}}
		if n, err := app.Ports.days.Await(ctx, first); n != 3 || err != nil {
			t.Fatalf("%d events (%v), want 3: the window is closed without the one in quarantine", n, err)
		}
		all, err := app.Quarantine(t.Context())
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Reason, "three") {
			t.Fatalf("in quarantine are %+v (%v)", all, err)
		}
		mended.Store(true)
		var still *QuarantinedError
		if err := app.Retry(t.Context(), all[0].Partition, all[0].ID); !errors.As(err, &still) {
			t.Errorf("Retry of an event that the mark has passed: %v", err)
		}
		if all, err = app.Quarantine(t.Context()); err != nil || len(all) != 1 || !strings.Contains(all[0].Reason, "mark") {
			t.Fatalf("in quarantine are %+v (%v)", all, err)
		}
		if err := app.Drop(t.Context(), all[0].Partition, all[0].ID); err != nil {
			t.Error(err)
		}
		if err := app.Ports.in.Send(t.Context(), 25); err != nil {
			t.Fatal(err)
		}
		second := window.Key[bool]{Key: true, Span: window.Span{From: first.Span.To, To: 2 * first.Span.To}}
		if n, err := app.Ports.days.Await(ctx, second); n != 1 || err != nil {
			t.Errorf("%d events (%v), want 1", n, err)
		}
		stop(t, app)
	})
}
