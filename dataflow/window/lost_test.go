package window_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// panics returns the text of what f panics with, as fmt.Sprint writes it.
func panics(f func()) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	f()
	return "nothing"
}

// TestMarkIsLost is case 63: a window panics while the flow is built if its events passed through
// an operator that loses the mark. The panic names that operator.
func TestMarkIsLost(t *testing.T) {
	type byKey = dataflow.KeyedStream[string, window.Event[tick], server, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	latest := func(es eventStream) dataflow.KeyedSingleton[string, window.Event[tick], server, bounds.BoundedValue] {
		return keyedstream.First(dataflow.KeyBy(es, key))
	}
	for _, x := range []struct {
		name, says string
		lose       func(here server, xs ticks, es eventStream) byKey
	}{
		{"slice", "they come out of the slice made at lost_test.go:", func(here server, _ ticks, es eventStream) byKey {
			tick := slice.At(here)
			return keyedstream.WeakenOrder(dataflow.KeyBy(slice.Emit(slice.Batch(tick, es, "tried")), key))
		}},
		{"call", "they come from keyedsingleton.MapAsync (lost_test.go:", func(_ server, _ ticks, es eventStream) byKey {
			return keyedstream.WeakenOrder(keyedsingleton.IntoKeyedStream(keyedsingleton.MapAsync(latest(es), func(_ context.Context, e window.Event[tick]) window.Event[tick] { return e }, keyedsingleton.AsyncOptions{})))
		}},
		{"timer", "they come from keyedsingleton.After (lost_test.go:", func(_ server, _ ticks, es eventStream) byKey {
			return keyedstream.WeakenOrder(keyedsingleton.IntoKeyedStream(keyedsingleton.After(latest(es), time.Second, "tried")))
		}},
		{"merge", "dataflow.Merge (lost_test.go:", func(_ server, xs ticks, es eventStream) byKey {
			return keyedstream.WeakenOrder(dataflow.KeyBy(dataflow.Merge(es, dataflow.Map(xs, func(x tick) window.Event[tick] { return window.Event[tick]{At: at(x), Value: x} })), key))
		}},
		{"unstamped", "they come from dataflow.Input ticks (lost_test.go:", func(_ server, xs ticks, es eventStream) byKey {
			return keyedstream.WeakenOrder(dataflow.KeyBy(dataflow.Map(xs, func(x tick) window.Event[tick] { return window.Event[tick]{At: at(x), Value: x} }), key))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			here := dataflow.At[server](dataflow.New())
			_, xs := dataflow.Input[tick](here, "ticks")
			es, _ := window.Stamp(xs, at, slack(0))
			lost := x.lose(here, xs, es)
			said := panics(func() { window.Count(lost, window.Every(time.Second)) })
			if !strings.HasPrefix(said, "window: Count: nobody knows how far the events are: ") || !strings.Contains(said, x.says) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestWrong checks which mistakes are refused while a flow is built.
func TestWrong(t *testing.T) {
	here := dataflow.At[server](dataflow.New())
	_, xs := dataflow.Input[tick](here, "ticks")
	es, _ := window.Stamp(xs, at, slack(0))
	byKey := dataflow.KeyBy(es, key)
	for _, x := range []struct {
		says  string
		wrong func()
	}{
		{"window: Every: the size is 0s", func() { window.Every(0) }},
		{"window: Sliding: the step is -1ns", func() { window.Sliding(time.Second, -1) }},
		{"window: Sliding: the step 3s does not divide the size 10s", func() { window.Sliding(10*time.Second, 3*time.Second) }},
		{"use window.Trailing", func() { window.Sliding(65*time.Second, time.Second) }},
		{"window: Days: the zone is nil", func() { window.Days(nil) }},
		{"window: Count: the shape is a zero value", func() { window.Count(byKey, window.Shape{}) }},
		{"window: Stamp: the slack is -1s", func() { window.Stamp(xs, at, slack(-1)) }},
		{"window: Stamp: Confirm is -1", func() { window.Stamp(xs, at, window.Disorder{Confirm: -1}) }},
		{"may come more than once", func() { window.Stamp(dataflow.AssumeRepeats(xs), at, window.Disorder{Confirm: 2}) }},
		{"window: Trailing: the size is 0s", func() {
			window.Trailing(byKey, 0, func() int { return 0 }, func(*int, tick) {}, func(*int, tick) {})
		}},
		{"window: Join: the time After is -1s", func() { window.Join(byKey, byKey, near(0, -1)) }},
		{"window: Stamp: the function given at lost_test.go:", func() { window.Stamp(xs, nil, slack(0)) }},
	} {
		if said := panics(x.wrong); !strings.Contains(said, x.says) {
			t.Errorf("it says %q, want %q", said, x.says)
		}
	}
}

// TestOtherTime moves the time of an event to before the mark, which ends the app with an error.
func TestOtherTime(t *testing.T) {
	flow := dataflow.New()
	in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
	es, _ := window.Stamp(xs, at, slack(0))
	moved := dataflow.Map(es, func(e window.Event[tick]) window.Event[tick] {
		e.At = e.At.Add(-3 * time.Second)
		return e
	})
	window.Count(dataflow.KeyBy(moved, key), window.Every(time.Second))
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range of("a", 1, 2) {
		_ = in.Send(t.Context(), x)
	}
	var step *dataflow.StepError
	if err := app.Wait(); !errors.As(err, &step) || !strings.Contains(err.Error(), "an event keeps the time that window.Stamp gave it") {
		t.Errorf("it ended with %v", err)
	}
}

// TestStop is a part of case 61: stopping an app does not close its open spans.
func TestStop(t *testing.T) {
	flow := dataflow.New()
	b := build(flow, 1, counting(slack(0), window.Every(10*time.Second)))
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ins[0].SendBatch(t.Context(), of("a", 1, 11)); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all []string
	for x, err := b.outs[0].Next(t.Context()); err == nil; x, err = b.outs[0].Next(t.Context()) {
		all = append(all, x)
	}
	if got := fmt.Sprint(all); got != "[a[0,10)=1]" {
		t.Errorf("closed are %s", got)
	}
}
