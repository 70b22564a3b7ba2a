package window_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestRetain is case 66: an entry exists until the mark passes the end of its span plus the
// retention time. A later Await blocks. The end of time removes no entry.
func TestRetain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
		es, _ := window.Stamp(xs, at, slack(0))
		closed, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
		out := keyedsingleton.Output(window.Retain(closed, 60*time.Second), "kept")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		first := window.Key[string]{Key: "a", Span: window.Span{From: 0, To: window.Time(10 * time.Second)}}
		for _, x := range []struct {
			second int
			there  bool
			len    int
		}{{1, false, 0}, {10, true, 1}, {70, true, 2}, {71, false, 1}, {500, false, 0}} {
			if err := in.Send(t.Context(), of("a", x.second)[0]); err != nil {
				t.Fatal(err)
			}
			if _, there := out.Get(first); there != x.there || out.Len() != x.len {
				t.Errorf("at %d s the first span is there: %t, of %d", x.second, there, out.Len())
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := out.Await(ctx, first); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await of a span that was forgotten: %v", err)
		}
		in.Close()
		if err := app.Wait(); err != nil || out.Len() != 1 {
			t.Errorf("%d are left, %v", out.Len(), err)
		}
	})
}

// TestRetainMisuse checks that Retain panics on a negative time.
func TestRetainMisuse(t *testing.T) {
	defer func() {
		if v, _ := recover().(string); !strings.HasPrefix(v, "window: Retain: after is -1ns") {
			t.Errorf("panic %q", v)
		}
	}()
	_, xs := dataflow.Input[tick](dataflow.At[server](dataflow.New()), "ticks")
	es, _ := window.Stamp(xs, at, slack(0))
	closed, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
	window.Retain(closed, -1)
}
