package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// TestStampNowSchedules checks that two elements fall in every possible pair of minutes, in the
// order in which they are taken: up to three minutes pass before the first, and up to three more
// before the second.
func TestStampNowSchedules(t *testing.T) {
	for name, build := range minutes {
		results := map[string]int{}
		n := sim.Exhaustive(t, func(s *sim.Sim) {
			x := build(s.Flow(), time.Minute)
			s.Start()
			for _, p := range of("a", 0, 0) {
				s.Check(x.in.Send(s.Context(), p))
			}
			x.in.Close()
			results[strings.Join(sim.Collect(s, x.closed), " ")]++
		})
		span := func(from, n int) string { return fmt.Sprintf("a[00:%02d:00,00:%02d:00)=%d", from, from+1, n) }
		for first := range 4 {
			for second := first; second < first+4; second++ {
				want := span(first, 2)
				if first != second {
					want = span(first, 1) + " " + span(second, 1)
				}
				if results[want] == 0 {
					t.Errorf("%s: in no schedule is the result %s", name, want)
				}
				delete(results, want)
			}
		}
		if len(results) > 0 || n != 16 {
			t.Errorf("%s: in some of %d schedules: %v", name, n, results)
		}
	}
}

// TestStampNowNeverBack takes elements from overdue timers after elements that were taken later than
// the timers' deadlines. The time of an event must not decrease.
func TestStampNowNeverBack(t *testing.T) {
	back, together := 0, 0
	sim.Exhaustive(t, func(s *sim.Sim) {
		here := dataflow.At[server](s.Flow())
		in, xs := dataflow.Input[tick](here, "ticks")
		late, entries := keyedsingleton.Input[string, tick](here, "entries")
		after := keyedsingleton.Values(keyedsingleton.After(entries, 2, "tested"))
		events := dataflow.AssumeOrder(window.StampNow(dataflow.Merge(dataflow.WeakenOrder(xs), dataflow.WeakenOrder(after)), time.Second, "tested"), "tested")
		last, lastN := window.Past, 0
		dataflow.Inspect(window.Sort(events), func(e window.Event[tick]) { // Sort would panic
			if e.At < last {
				s.Errorf("%d is before %d", e.At, last)
			}
			if e.Value.N == 9 && lastN > 1 {
				back++
				if e.At == last {
					together++
				}
			}
			last, lastN = e.At, e.Value.N
		})
		s.Start()
		s.Check(late.Put(s.Context(), "late", tick{"late", 0, 9}))
		for _, p := range of("a", 0, 0, 0) {
			s.Check(in.Send(s.Context(), p))
		}
		in.Close()
		late.Close()
		s.Quiesce()
	})
	if back == 0 || together == 0 {
		t.Errorf("%d came of a timer behind others, %d at their time", back, together)
	}
}

// TestStampNowTires checks that every schedule ends although inputs are open and other timers let
// time pass, and that the mark follows that time.
func TestStampNowTires(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		here := dataflow.At[server](s.Flow())
		_, xs := dataflow.Input[tick](here, "ticks")
		many := dataflow.Interval(here, 7*time.Second, "tested")
		dataflow.Inspect(many, func(time.Duration) {})
		mark := singleton.Output(window.Mark(window.StampNow(xs, time.Second, "tested")), "mark")
		entry, entries := keyedsingleton.Input[string, int](here, "entries")
		late := keyedsingleton.Output(keyedsingleton.After(entries, time.Minute, "tested"), "late")
		s.Start()
		s.Check(entry.Put(s.Context(), "entry", 1))
		s.Quiesce()
		late.Await(s.Context(), "entry")
		if m, _ := mark.Latest(); m < seconds(60) {
			s.Errorf("a minute has passed, and the mark is %s", inSeconds(m))
		}
	})
	if n != 1 {
		t.Errorf("%d schedules", n)
	}
}

type nowPorts struct {
	in    *dataflow.InputPort[tick]
	times *dataflow.EntryOutputPort[int, string] // by the number of the tick
	spans *dataflow.EntryOutputPort[int, string]
	mark  *dataflow.SingletonOutputPort[window.Time]
}

// buildNow returns for each tick its time and its span.
func buildNow(flow *dataflow.Flow) nowPorts {
	in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
	es := window.StampNow(xs, 10*time.Second, "tested")
	number := func(e window.Event[tick]) int { return e.Value.N }
	times := keyedstream.First(keyedstream.Map(dataflow.KeyBy(es, number), func(e window.Event[tick]) string { return e.At.String() }))
	closed, _ := window.Fold(dataflow.KeyBy(es, key), window.Every(time.Minute), func() []int { return nil }, func(all *[]int, x tick) { *all = append(*all, x.N) })
	each := dataflow.FlatMap(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], []int], emit func(dataflow.Pair[int, string])) {
		for _, n := range e.Value {
			emit(dataflow.Pair[int, string]{First: n, Second: clockSpan(e.Key)})
		}
	})
	byNumber := keyedstream.AssumeOrder(dataflow.KeyBy(each, func(p dataflow.Pair[int, string]) int { return p.First }), "each comes once")
	spans := keyedstream.First(keyedstream.Map(byNumber, func(p dataflow.Pair[int, string]) string { return p.Second }))
	return nowPorts{in, keyedsingleton.Output(times, "times"), keyedsingleton.Output(spans, "spans"), singleton.Output(window.Mark(es), "mark")}
}

// TestStampNowDurable kills the process at every step. An element sent before a minute ends is in
// that minute, and the clock closes the minute, whenever the process restarts.
func TestStampNowDurable(t *testing.T) {
	ticks := of("a", 0, 50, 70, 130)
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of each run, in its own synctest bubble
	runs := durabletest.Crash(t, durabletest.Program[nowPorts]{
		Build: buildNow,
		Drive: func(ctx context.Context, p nowPorts) error {
			for i, x := range ticks {
				select {
				case <-time.After(time.Until(began.Add(time.Duration(x.At) * time.Second))):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				if err := p.in.SendNumbered(ctx, uint64(i), x); err != nil {
					return err
				}
				if _, err := p.times.Await(ctx, i+1); err != nil { // a process that crashed restarts at once
					return err
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p nowPorts) error {
			soon, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			for i, x := range ticks {
				at := x.At / 60
				want := fmt.Sprintf("a[00:%02d:00,00:%02d:00)", at, at+1)
				if got, err := p.spans.Await(soon, i+1); err != nil || got != want {
					return fmt.Errorf("%d is in %s, want %s: %w", i+1, got, want, err)
				}
				if got, err := p.times.Await(soon, i+1); err != nil || !strings.HasPrefix(got, fmt.Sprintf("2000-01-01T00:%02d:%d", at, x.At%60/10)) {
					return fmt.Errorf("%d is of %s: %w", i+1, got, err)
				}
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 1}})
	if runs < 20 {
		t.Errorf("there were only %d runs", runs)
	}
}

// TestStampNowRestart stops a durable flow for an hour, with a snapshot or without. Closing an input
// closes no span, elements keep their times, and the mark moves to the clock at once.
func TestStampNowRestart(t *testing.T) {
	for _, snapshot := range []int{1, 1 << 30} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(20 * time.Second)
			log := journal.NewMemory(journal.MemoryOptions{})
			start := func(log journal.Log) *durable.App[nowPorts] {
				app, err := durable.Start(t.Context(), buildNow, durable.Options{
					Log: journal.Opened{Log: log}, Partitions: 1, SnapshotBytes: snapshot, Logger: slog.New(slog.DiscardHandler),
				})
				if err != nil {
					t.Fatal(err)
				}
				return app
			}
			has := func(p *dataflow.EntryOutputPort[int, string], n int, want string) {
				t.Helper()
				if got, err := p.Await(t.Context(), n); err != nil || got != want {
					t.Errorf("at %s %d has %s, want %s: %v", window.TimeOf(time.Now()), n, got, want, err)
				}
			}
			app := start(log)
			time.Sleep(5 * time.Second)
			send(t, app.Ports.in, of("a", 0)...)
			has(app.Ports.times, 1, "2000-01-01T00:00:25Z")
			app.Ports.in.Close()
			synctest.Wait()
			if m, _ := app.Ports.mark.Latest(); m == window.Future {
				t.Error("time has ended")
			}
			if err := app.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			app = start(log.Reopen())
			synctest.Wait()
			if m, _ := app.Ports.mark.Latest(); m.String() != "2000-01-01T01:00:20Z" {
				t.Errorf("after an hour the mark is %s", m)
			}
			send(t, app.Ports.in, tick{"a", 0, 2})
			began := time.Now()
			for n, want := range []string{"a[00:00:00,00:01:00)", "a[01:00:00,01:01:00)"} {
				has(app.Ports.spans, n+1, want)
			}
			has(app.Ports.times, 1, "2000-01-01T00:00:25Z")
			has(app.Ports.times, 2, "2000-01-01T01:00:25Z")
			if d := time.Since(began); d != 35*time.Second {
				t.Errorf("the second minute is closed after %v", d)
			}
			if err := app.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestStampNowCluster runs a clock in each partition and is killed at every step. Each key is
// counted in the minute in which its elements arrived.
func TestStampNowCluster(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	durabletest.Crash(t, durabletest.Program[clusterPorts]{
		Build: func(flow *dataflow.Flow) clusterPorts {
			in, xs := keyedstream.Input[string, tick](dataflow.At[cluster](flow), "ticks")
			closed, _ := window.Count(window.StampNowKeyed(xs, 30*time.Second, "tested"), window.Every(time.Minute))
			first := keyedstream.First(window.Closed(closed))
			return clusterPorts{in, keyedsingleton.Output(keyedsingleton.Map(first, func(e window.Event[int]) int {
				return 100*e.At.Time().Add(1).Minute() + e.Value
			}), "first minute")}
		},
		Drive: func(ctx context.Context, p clusterPorts) error {
			for i := range 2 {
				for _, k := range keys {
					if err := p.in.SendNumbered(ctx, k, uint64(i), tick{k, 0, i}); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p clusterPorts) error {
			soon, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			for _, k := range keys {
				if n, err := p.closed.Await(soon, k); err != nil || n != 102 {
					return fmt.Errorf("%s has %d, %w", k, n, err)
				}
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 4}})
}
