package window_test

import (
	"context"
	"fmt"
	"strings"
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

type splitPorts struct {
	in     *dataflow.KeyedInputPort[string, tick]
	told   *dataflow.SharedKeyedInputPort[string, window.SplitNotice]
	late   *dataflow.EntryOutputPort[int, string] // by number
	counts *dataflow.EntryOutputPort[window.Key[string], int]
}

// tells sends moves one by one. Each is in the history before the next one is sent, and may be sent again.
func (p splitPorts) tells(ctx context.Context, moves []splitMove) error {
	for i, m := range moves {
		at := dataflow.Position{Major: uint64(i + 1)}
		if m.ticks == nil {
			if _, err := p.told.SendBatchAt(ctx, "notices of "+m.split, []dataflow.Position{at}, []string{m.split}, []window.SplitNotice{m.notice}); err != nil {
				return err
			}
			continue
		}
		var positions []dataflow.Position
		var keys []string
		for j := range m.ticks {
			positions, keys = append(positions, dataflow.Position{Major: at.Major, Minor: uint64(j + 1)}), append(keys, m.split)
		}
		if _, err := p.in.SendBatchAt(ctx, m.split, positions, keys, m.ticks); err != nil {
			return err
		}
	}
	return nil
}

func (p splitPorts) has(ctx context.Context, counts map[window.Key[string]]int, late map[int]string) error {
	soon, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for k, want := range counts {
		if n, err := p.counts.Await(soon, k); n != want || err != nil {
			return fmt.Errorf("%s has %d, want %d: %w", spanned(k), n, want, err)
		}
	}
	for n, split := range late {
		if got, err := p.late.Await(soon, n); got != split || err != nil {
			return fmt.Errorf("late is %q, want %d of %s: %w", got, n, split, err)
		}
	}
	return nil
}

func lateByNumber[L dataflow.Location, O dataflow.Order](late dataflow.Stream[window.Event[tick], L, unbounded, O, dataflow.ExactlyOnce]) *dataflow.EntryOutputPort[int, string] {
	byNumber := keyedstream.AssumeOrder(dataflow.KeyBy(late, func(e window.Event[tick]) int { return e.Value.N }), "each comes once")
	return keyedsingleton.Output(keyedstream.First(keyedstream.Map(byNumber, key)), "late")
}

func (p splitPorts) check(counts map[window.Key[string]]int, late map[int]string) func(context.Context, splitPorts) error {
	return func(ctx context.Context, p splitPorts) error { return p.has(ctx, counts, late) }
}

func spanOf(key string, from int) window.Key[string] {
	return window.Key[string]{Key: key, Span: window.Span{From: seconds(from), To: seconds(from + 10)}}
}

// durableSplits has a silent split that becomes active again, a split that ends, and one that passes
// to another reader.
var durableSplits = []splitMove{
	found("a"), found("b"), found("c"), reads("a", 1), reads("b", 1), reads("c", 1),
	gives("a", 1, 12, 33), gives("c", 4), gives("b", 2, 11),
	says("c", window.SplitEnded, 1), says("b", window.SplitIdle, 1), gives("a", 34),
	gives("b", 32), reads("b", 2), gives("b", 40, 50), gives("a", 60),
}

// TestSplitsDurable kills a flow at every step, and expects the same late events and counts as without crashes.
func TestSplitsDurable(t *testing.T) {
	runs := durabletest.Crash(t, durabletest.Program[splitPorts]{
		Build: func(flow *dataflow.Flow) splitPorts {
			here := dataflow.At[server](flow)
			in, ticks := keyedstream.Input[string, tick](here, "ticks")
			told, notices := keyedstream.SharedInput[string, window.SplitNotice](here, "notices")
			events, late := window.StampSplits(ticks, notices, at, slack(0), asRead)
			closed, _ := window.Count(keyedstream.Rekey(events, func(string, window.Event[tick]) string { return "all" }), window.Every(10*time.Second))
			return splitPorts{in, told, lateByNumber(keyedstream.Values(late)), keyedsingleton.Output(closed, "counts")}
		},
		Drive: func(ctx context.Context, p splitPorts) error { return p.tells(ctx, durableSplits) },
		Check: splitPorts{}.check(map[window.Key[string]]int{spanOf("all", 0): 3, spanOf("all", 10): 2, spanOf("all", 30): 2, spanOf("all", 40): 1}, map[int]string{32: "b"}),
	}, durabletest.Options{Durable: durable.Options{Partitions: 1}})
	if runs < 20 {
		t.Errorf("there were only %d runs", runs)
	}
}

type splitSpans struct {
	splitPorts
	spans *dataflow.EntryOutputPort[string, string]
}

// TestSplitsCluster runs splits in the partitions of a cluster, each with a mark of its own, and kills
// the cluster at every step.
func TestSplitsCluster(t *testing.T) {
	runs := durabletest.Crash(t, durabletest.Program[splitSpans]{
		Build: func(flow *dataflow.Flow) splitSpans {
			here := dataflow.At[cluster](flow)
			in, ticks := keyedstream.Input[string, tick](here, "ticks")
			told, notices := keyedstream.SharedInput[string, window.SplitNotice](here, "notices")
			events, _ := window.StampSplits(ticks, notices, at, slack(0), asRead)
			closed, _ := window.Count(events, window.Every(10*time.Second))
			two := keyedstream.FoldEarlyStop(window.Closed(closed), func() string { return "" }, func(all *string, e window.Event[int]) bool {
				*all += fmt.Sprintf("%s:%d ", inSeconds(e.At), e.Value)
				return strings.Count(*all, ":") == 2
			})
			return splitSpans{splitPorts{in: in, told: told}, keyedsingleton.Output(two, "spans")}
		},
		Drive: func(ctx context.Context, p splitSpans) error { return p.tells(ctx, durableSplits) },
		Check: func(ctx context.Context, p splitSpans) error {
			soon, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for split, want := range map[string]string{"a": "9:1 19:1 ", "b": "9:1 19:1 "} {
				if got, err := p.spans.Await(soon, split); got != want || err != nil {
					return fmt.Errorf("%s has %q, want %q: %w", split, got, want, err)
				}
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 3}})
	if runs < 20 {
		t.Errorf("there were only %d runs", runs)
	}
}

// TestSplitsSent sends the events of splits on from the partitions of a cluster. One partition has no
// split, and one has only a silent split. Idle before Send moves the mark of the silent one, and Idle
// behind Send does not wait for the one without a split.
func TestSplitsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, err := durable.Start(t.Context(), func(flow *dataflow.Flow) splitPorts {
			here, there := dataflow.At[cluster](flow), dataflow.At[server](flow)
			in, ticks := keyedstream.Input[string, tick](here, "ticks")
			told, notices := keyedstream.SharedInput[string, window.SplitNotice](here, "notices")
			events, late := window.StampSplits(ticks, notices, at, slack(0), asRead)
			still, left := window.Idle(keyedstream.Values(events), patience, "a partition may have silent splits only")
			sent, behind := window.Idle(dataflow.Send(still, there), patience, "a partition may have no split")
			counts, _ := window.Count(dataflow.KeyBy(sent, func(window.Event[tick]) string { return "all" }), window.Every(10*time.Second))
			all := dataflow.Merge(dataflow.Send(dataflow.Merge(keyedstream.Values(late), left), there), behind)
			return splitPorts{in, told, lateByNumber(all), keyedsingleton.Output(counts, "counts")}
		}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 4})}, Partitions: 3, EndOnFailure: true})
		if err != nil {
			t.Fatal(err)
		}
		moves := []splitMove{reads("a", 1), reads("b", 1), gives("a", 1, 12, 33), gives("b", 2, 11), says("b", window.SplitIdle, 1), gives("a", 34)}
		if err := app.Ports.tells(t.Context(), moves); err != nil {
			t.Fatal(err)
		}
		if err := app.Ports.has(t.Context(), map[window.Key[string]]int{spanOf("all", 0): 2, spanOf("all", 10): 2}, nil); err != nil {
			t.Error(err)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
