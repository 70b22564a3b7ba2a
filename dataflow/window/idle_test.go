package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

const patience = 5 * time.Second

// An idling is a flow of two sources. The second one may be idle.
type idling struct {
	flow  *dataflow.Flow
	app   *dataflow.App
	a, b  *dataflow.InputPort[tick]
	lines *dataflow.OutputPort[string] // closed spans and late events
	mark  *dataflow.SingletonOutputPort[window.Time]
}

// newIdling builds the flow. If through is not nil, the second source passes through it before the
// two are merged.
func newIdling(flow *dataflow.Flow, idle bool, through func(eventStream) eventStream) (x idling) {
	here := dataflow.At[server](flow)
	a, as := dataflow.Input[tick](here, "a")
	b, bs := dataflow.Input[tick](here, "b")
	first, late := window.Stamp(as, at, slack(0))
	second, lateToo := window.Stamp(bs, at, slack(2))
	all := dataflow.Merge(said("late", late), said("late", lateToo))
	if idle {
		still, left := window.Idle(second, patience, "tested")
		second, all = still, dataflow.Merge(all, said("idled", left))
	}
	if through != nil {
		second = through(second)
	}
	events := dataflow.AssumeOrder(dataflow.Merge(first, second), "counted")
	closed, _ := window.Count(dataflow.KeyBy(events, key), window.Every(10*time.Second))
	mark := window.Mark(second)
	return idling{flow, nil, a, b, dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(all, counted(closed)), "tested"), "lines"), singleton.Output(mark, "mark")}
}

// start starts the flow.
func (x *idling) start(t *testing.T) {
	t.Helper()
	app, err := dataflow.Start(t.Context(), x.flow)
	if err != nil {
		t.Fatal(err)
	}
	x.app = app
}

func send(t *testing.T, in *dataflow.InputPort[tick], xs ...tick) {
	t.Helper()
	if _, err := in.SendBatch(t.Context(), xs); err != nil {
		t.Fatal(err)
	}
}

// end closes the sources and returns all lines, sorted.
func (x *idling) end(t *testing.T) string {
	t.Helper()
	x.a.Close()
	x.b.Close()
	var all []string
	for line, err := x.lines.Next(t.Context()); err == nil; line, err = x.lines.Next(t.Context()) {
		all = append(all, line)
	}
	if err := x.app.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// waiting returns the number of unread lines.
func (x *idling) waiting() int { return x.app.Status()[0].Outputs[0].Unread }

// TestIdle is cases 45 and 46: without Idle, a silent source delays the source that it is merged
// with, also through an operator that has a mark of its own. With Idle, a source that has been
// silent for long enough delays nothing until its next event.
func TestIdle(t *testing.T) {
	sorted := func(es eventStream) eventStream { return window.Sort(es) }
	for name, through := range map[string]func(eventStream) eventStream{"merged": nil, "sorted": sorted} {
		for _, idle := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", idle), func(t *testing.T) {
				var record dataflow.Recording
				synctest.Test(t, func(t *testing.T) {
					x := newIdling(dataflow.NewWithOptions(dataflow.Options{Record: &record}), idle, through)
					x.start(t)
					wait := func(d time.Duration, want, without int) {
						t.Helper()
						time.Sleep(d)
						synctest.Wait()
						if !idle {
							want = without
						}
						if n := x.waiting(); n != want {
							t.Errorf("at %v there are %d lines, want %d", d, n, want)
						}
					}
					send(t, x.a, of("a", 1, 2, 12)...)
					wait(4900*time.Millisecond, 0, 0)
					wait(200*time.Millisecond, 1, 0) // the first span
					send(t, x.a, of("a", 25)...)
					wait(0, 2, 0)                    // at once
					send(t, x.b, of("b", 24, 27)...) // the mark is 25
					send(t, x.a, of("a", 40)...)
					wait(0, 3, 2) // the late one; b is waited for again
					wait(4900*time.Millisecond, 3, 2)
					wait(200*time.Millisecond, 5, 2) // b's mark moved from 25 to 30
					send(t, x.b, of("b", 29, 30)...)
					got, want := x.end(t), "a[0,10)=2 a[10,20)=1 a[20,30)=1 a[40,50)=1 b[20,30)=1 b[30,40)=1 idled b1@24 idled b1@29"
					if !idle {
						want = "a[0,10)=2 a[10,20)=1 a[20,30)=1 a[40,50)=1 b[20,30)=3 b[30,40)=1"
					}
					if got != want {
						t.Errorf("got  %s\nwant %s", got, want)
					}
				})
				sim.Rerun(t, &record, func(s *sim.Sim) {
					x := newIdling(s.Flow(), idle, through)
					s.Start()
					late := 0
					for _, line := range sim.Collect(s, x.lines) {
						if strings.HasPrefix(line, "idled") {
							late++
						}
					}
					if want := map[bool]int{true: 2}[idle]; late != want {
						s.Errorf("recorded: %d are late, want %d", late, want)
					}
				})
			})
		}
	}
}

// TestNeverIdle is case 47: the clock never moves the mark of a source with an event each second
// (FLINK: apache/flink#24211).
func TestNeverIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newIdling(dataflow.New(), true, nil)
		x.start(t)
		for i := range 100 {
			send(t, x.b, tick{"b", i / 2, i}) // event time advances more slowly than the clock
			if m, _ := x.mark.Latest(); i > 4 && m != seconds(i/2-2) {
				t.Errorf("at %d s the mark is %s", i, inSeconds(m))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * patience)
		synctest.Wait()
		if m, _ := x.mark.Latest(); m != seconds(49-2+10) {
			t.Errorf("after two silences the mark is %s", inSeconds(m))
		}
		if got := x.end(t); strings.Contains(got, "idled") {
			t.Errorf("got %s", got)
		}
	})
}

// TestStalledIsNotIdle is case 48: a source is not idle while its events wait at the port of a
// location that is blocked for a minute by an output that nobody reads (apache/flink#25167).
func TestStalledIsNotIdle(t *testing.T) {
	for _, queue := range []int{1, 1000} { // with a queue of 1, the other events wait before the port
		var record dataflow.Recording
		synctest.Test(t, func(t *testing.T) {
			x := newIdling(dataflow.NewWithOptions(dataflow.Options{Buffer: 1, Queue: queue, Record: &record}), true, nil)
			x.start(t)
			send(t, x.b, of("b", 1, 20, 40)...) // two closed spans are more than the output buffers
			send(t, x.a, of("a", 60)...)
			sent := make(chan error)
			go func() {
				_, err := x.b.SendBatch(t.Context(), of("c", slices.Repeat([]int{41}, 60)...))
				sent <- err
			}()
			time.Sleep(time.Minute)
			synctest.Wait()
			if m, _ := x.mark.Latest(); m != seconds(38) {
				t.Errorf("stopped, the mark is %s", inSeconds(m))
			}
			done := make(chan string)
			go func() { done <- x.end(t) }()
			if err := <-sent; err != nil && err != dataflow.ErrClosed {
				t.Error(err)
			}
			if got := <-done; strings.Contains(got, "idled") || !strings.Contains(got, "b[0,10)=1") {
				t.Errorf("with a queue of %d: %s", queue, got)
			}
		})
		sim.Rerun(t, &record, func(s *sim.Sim) {
			x := newIdling(s.Flow(), true, nil)
			s.Start()
			if all := fmt.Sprint(sim.Collect(s, x.lines)); strings.Contains(all, "idled") {
				s.Errorf("recorded: %s", all)
			}
		})
	}
}

// TestIdleJoin is case 52: the mark of one side of a join bounds what the join keeps of the other.
// While one side is silent and not idle, the join keeps every event of the other.
func TestIdleJoin(t *testing.T) {
	for _, idle := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			here := dataflow.At[server](flow)
			a, as := dataflow.Input[tick](here, "a")
			b, bs := dataflow.Input[tick](here, "b")
			left, _ := window.Stamp(as, at, slack(0))
			right, _ := window.Stamp(bs, at, slack(0))
			if idle {
				right, _ = window.Idle(right, patience, "tested")
			}
			pairs := window.LeftJoin(dataflow.KeyBy(left, key), dataflow.KeyBy(right, key), near(5, 3))
			out := dataflow.Output(dataflow.AssumeOrder(keyedLines(keyedstream.AssumeOrder(pairs, "tested"), maybe), "tested"), "pairs")
			joined := window.Join(dataflow.KeyBy(left, key), dataflow.KeyBy(right, key), near(5, 3))
			other := window.Join(dataflow.KeyBy(right, key), dataflow.KeyBy(left, key), near(5, 3))
			both := 0
			keyedstream.Inspect(keyedstream.Merge(joined, other), func(window.Event[dataflow.Pair[tick, tick]]) { both++ })
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			kept := func() (all []int) { // by each of the three joins
				for _, op := range app.Status()[0].Operators {
					if strings.HasSuffix(op.Name, "Join") {
						all = append(all, op.Kept)
					}
				}
				return all
			}
			send(t, a, of("a", 1)...)
			time.Sleep(patience + time.Second)
			go func() {
				for range out.All(t.Context()) {
				}
			}()
			for i := range 1000 {
				send(t, a, tick{fmt.Sprint(i), i, i})
			}
			synctest.Wait()
			if all := kept(); idle && slices.Max(all) > 30 || !idle && slices.Min(all) < 1000 {
				t.Errorf("idle %t: the joins keep %d", idle, all)
			}
			send(t, b, of("999", 998, 999, 1000)...) // the first one is late, if b was idle
			synctest.Wait()
			if all := kept(); idle && slices.Max(all) > 30 {
				t.Errorf("with another side the joins keep %d", all)
			}
			a.Close()
			b.Close()
			if err := app.Wait(); err != nil || both != map[bool]int{false: 6, true: 4}[idle] {
				t.Errorf("idle %t: %d pairs, %v", idle, both, err)
			}
		})
	}
}

// TestIdleSchedules checks that in every schedule each event is in time, late or idled, and never
// more than once. The source is idle in some schedules and not in others.
func TestIdleSchedules(t *testing.T) {
	results := map[string]int{}
	search := func(f func(s *sim.Sim)) int { return sim.Random(t, 400, f) }
	if long.Searches() {
		search = func(f func(s *sim.Sim)) int { return sim.Exhaustive(t, f) }
	}
	n := search(func(s *sim.Sim) {
		x := newIdling(s.Flow(), true, nil)
		s.Start()
		for _, p := range of("a", 1, 12) {
			s.Check(x.a.Send(s.Context(), p))
		}
		for _, p := range of("b", 3, 9) {
			s.Check(x.b.Send(s.Context(), p))
		}
		x.a.Close()
		x.b.Close()
		all := sim.Collect(s, x.lines)
		slices.Sort(all)
		results[strings.Join(all, " ")]++
	})
	for _, want := range []string{
		"a[0,10)=1 a[10,20)=1 b[0,10)=2",
		"a[0,10)=1 a[10,20)=1 b[0,10)=1 idled b2@9",
		"a[0,10)=1 a[10,20)=1 idled b1@3 idled b2@9",
	} {
		if results[want] == 0 && long.Searches() {
			t.Errorf("in no schedule is the result %s", want)
		}
		delete(results, want)
	}
	if len(results) > 0 {
		t.Errorf("in some of %d schedules: %v", n, results)
	}
}

// TestIdleMisuse checks that Idle panics on invalid arguments.
func TestIdleMisuse(t *testing.T) {
	refuse := func(want string, build func(es eventStream, xs ticks)) {
		t.Helper()
		defer func() {
			if v := fmt.Sprint(recover()); !strings.HasPrefix(v, want) {
				t.Errorf("got %q, want %q", v, want)
			}
		}()
		_, xs := dataflow.Input[tick](dataflow.At[server](dataflow.New()), "ticks")
		es, _ := window.Stamp(xs, at, slack(0))
		build(es, xs)
	}
	refuse("window: Idle: the quiet is 0s", func(es eventStream, _ ticks) { window.Idle(es, 0, "tested") })
	refuse("window: Idle: nobody knows how far", func(_ eventStream, xs ticks) {
		window.Idle(dataflow.Map(xs, func(x tick) window.Event[tick] { return window.Event[tick]{At: at(x), Value: x} }), 1, "tested")
	})
	refuse("window: Idle: what depends on timing", func(es eventStream, _ ticks) { window.Idle(es, 1, "") })
}
