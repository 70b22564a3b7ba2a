package window_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type countsPort = dataflow.EntryOutputPort[window.Key[string], int]

// An emptyPart is a flow whose cluster may have a partition that sends no events.
type emptyPart struct {
	in              *dataflow.KeyedInputPort[string, tick]
	waiting, closed *countsPort // without Idle, and with it
	late            *dataflow.EntryOutputPort[int, string]
}

func buildEmptyPart(flow *dataflow.Flow) emptyPart {
	in, xs := keyedstream.Input[string, tick](dataflow.At[cluster](flow), "ticks")
	es, _ := window.StampKeyed(xs, at, slack(0), inTurn)
	there := dataflow.Send(keyedstream.Values(es), dataflow.At[server](flow))
	still, late := window.Idle(there, patience, "a partition may have no keys")
	waiting, _ := window.Count(dataflow.KeyBy(there, key), window.Every(1000*time.Second))
	closed, _ := window.Count(dataflow.KeyBy(still, key), window.Every(1000*time.Second))
	byTime := keyedstream.AssumeOrder(dataflow.KeyBy(late, func(e window.Event[tick]) int { return e.Value.At }), "each comes once")
	return emptyPart{
		in, keyedsingleton.Output(waiting, "waiting"), keyedsingleton.Output(closed, "closed"),
		keyedsingleton.Output(keyedstream.First(keyedstream.Map(byTime, key)), "late"),
	}
}

// send sends a tick of each key at each time.
func (p emptyPart) send(ctx context.Context, keys string, times ...int) error {
	for _, at := range times {
		for _, k := range keys {
			if err := p.in.SendNumbered(ctx, string(k), uint64(at), tick{string(k), at, at}); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaits returns an error unless each key has exactly one event in the span that begins at from thousand seconds.
func awaits(ctx context.Context, out *countsPort, keys string, from int) error {
	soon, cancel := context.WithTimeout(ctx, 3*patience)
	defer cancel()
	for _, k := range keys {
		key := window.Key[string]{Key: string(k), Span: window.Span{From: seconds(1000 * from), To: seconds(1000 * (from + 1))}}
		if n, err := out.Await(soon, key); n != 1 || err != nil {
			return fmt.Errorf("%s has %d: %w", spanned(key), n, err)
		}
	}
	return nil
}

// TestClusterEmptyPart has a partition without keys. It holds the mark of what its cluster sends
// until its first event arrives. Idle behind Send continues without the partition, even while the
// others stay active, and the partition's later events are late.
func TestClusterEmptyPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, err := durable.Start(t.Context(), buildEmptyPart, durable.Options{
			Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 5})}, Partitions: 4, EndOnFailure: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		p := app.Ports
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, at := range []int{1, 1001, 2001, 3001, 4001} {
			check(p.send(t.Context(), "abc", at)) // none of these keys is in the partition of d and h
			time.Sleep(patience / 3)
			synctest.Wait()
			if n := p.closed.Len(); (n > 0) != (i > 3) {
				t.Errorf("after %d rounds %d are closed", i+1, n)
			}
		}
		check(awaits(t.Context(), p.closed, "abc", 3))
		if n := p.waiting.Len(); n > 0 {
			t.Errorf("%d are closed, and one partition has no mark", n)
		}
		check(p.send(t.Context(), "d", 1501))
		check(awaits(t.Context(), p.waiting, "abc", 0))
		check(p.send(t.Context(), "abcd", 5501, 6001))
		check(awaits(t.Context(), p.closed, "abcd", 5))
		check(awaits(t.Context(), p.waiting, "abcd", 1))
		if k, err := p.late.Await(t.Context(), 1501); k != "d" || err != nil {
			t.Errorf("late is %q, %v", k, err)
		}
		check(app.Stop(t.Context()))
	})
}

// TestClusterEmptyPartCrash has all partitions fall silent, one of which has no keys, and kills the
// flow at every step. The mark advances by the clock without that partition.
func TestClusterEmptyPartCrash(t *testing.T) {
	runs := durabletest.Crash(t, durabletest.Program[emptyPart]{
		Build: buildEmptyPart,
		Drive: func(ctx context.Context, p emptyPart) error {
			if err := p.send(ctx, "abc", 998); err != nil {
				return err
			}
			if err := awaits(ctx, p.closed, "abc", 0); err != nil {
				return err
			}
			return p.send(ctx, "d", 900, 5001)
		},
		Check: func(ctx context.Context, p emptyPart) error {
			if err := awaits(ctx, p.waiting, "d", 0); err == nil {
				return fmt.Errorf("a span is closed, and the mark is 998")
			}
			if k, err := p.late.Await(ctx, 900); k != "d" || err != nil {
				return fmt.Errorf("late is %q: %w", k, err)
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 4}})
	if runs < 20 {
		t.Errorf("there were only %d runs", runs)
	}
}
