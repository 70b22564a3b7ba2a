package window_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

func clockSpan(k window.Key[string]) string {
	return fmt.Sprintf("%s[%s,%s)", k.Key, k.Span.From.Time().Format("15:04:05"), k.Span.To.Time().Format("15:04:05"))
}

func countedByClock(closed counts) text {
	return dataflow.WeakenOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
		return fmt.Sprintf("%s=%d", clockSpan(e.Key), e.Value)
	}))
}

func stampedAt[O dataflow.Order](es dataflow.Stream[window.Event[tick], server, unbounded, O, dataflow.ExactlyOnce]) text {
	return dataflow.WeakenOrder(dataflow.Map(es, func(e window.Event[tick]) string {
		return fmt.Sprintf("%s%d@%s", e.Value.Key, e.Value.N, e.At.Time().Format("15:04:05.000"))
	}))
}

// A clocked is a flow that counts by minutes of the clock.
type clocked struct {
	in     *dataflow.InputPort[tick]
	closed *dataflow.OutputPort[string]
	times  *dataflow.OutputPort[string]
	mark   *dataflow.SingletonOutputPort[window.Time]
}

// minutes builds the flow for each kind of input of StampNow: a stream, one without order, and one
// with keys.
var minutes = map[string]func(flow *dataflow.Flow, every time.Duration) clocked{
	"stream": func(flow *dataflow.Flow, every time.Duration) (x clocked) {
		in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
		es := window.StampNow(xs, every, "tested")
		return x.of(in, es, dataflow.KeyBy(es, key))
	},
	"no order": func(flow *dataflow.Flow, every time.Duration) (x clocked) {
		in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
		es := dataflow.AssumeOrder(window.StampNow(dataflow.WeakenOrder(xs), every, "tested"), "counted")
		return x.of(in, es, dataflow.KeyBy(es, key))
	},
	"keyed": func(flow *dataflow.Flow, every time.Duration) (x clocked) {
		in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
		ks := window.StampNowKeyed(dataflow.KeyBy(xs, func(x tick) string { return x.Key }), every, "tested")
		return x.of(in, dataflow.AssumeOrder(keyedstream.Values(ks), "counted"), ks)
	},
}

func (clocked) of(in *dataflow.InputPort[tick], es eventStream, ks dataflow.KeyedStream[string, window.Event[tick], server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) clocked {
	closed, _ := window.Count(ks, window.Every(time.Minute))
	return clocked{in,
		dataflow.Output(dataflow.AssumeOrder(countedByClock(closed), "tested"), "closed"),
		dataflow.Output(dataflow.AssumeOrder(stampedAt(es), "tested"), "times"),
		singleton.Output(window.Mark(es), "mark")}
}

// start starts the flow and returns a function that lets time pass and then checks the number of
// closed spans and the mark.
func (x clocked) start(t *testing.T, flow *dataflow.Flow) (app *dataflow.App, pass func(d time.Duration, closed int, mark string)) {
	t.Helper()
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, func(d time.Duration, closed int, mark string) {
		t.Helper()
		time.Sleep(d)
		synctest.Wait()
		if n := app.Status()[0].Outputs[0].Unread; n != closed {
			t.Errorf("at %s %d are closed, want %d", window.TimeOf(time.Now()), n, closed)
		}
		if m, _ := x.mark.Latest(); mark != "" && m.Time().Format("15:04:05.000") != mark {
			t.Errorf("at %s the mark is %s, want %s", window.TimeOf(time.Now()), m, mark)
		}
	}
}

func linesOf(t *testing.T, out *dataflow.OutputPort[string]) (all []string) {
	for line, err := out.Next(t.Context()); err == nil; line, err = out.Next(t.Context()) {
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

// TestStampNow checks that the clock closes minutes of UTC without another element: at once if
// every divides a minute, and otherwise at most every late. No element is late, and a run from the
// recording has the same times.
func TestStampNow(t *testing.T) {
	for name, build := range minutes {
		for _, every := range []time.Duration{time.Second, 7 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(name, " ", every), func(t *testing.T) {
				var record dataflow.Recording
				var all [2][]string
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(20500 * time.Millisecond) // so that the location begins within a minute
					flow := dataflow.NewWithOptions(dataflow.Options{Record: &record})
					x := build(flow, every)
					app, pass := x.start(t, flow)
					send(t, x.in, of("a", 0, 0)...)
					pass(0, 0, "00:00:20.500")
					pass(30*time.Second, 0, map[time.Duration]string{time.Second: "00:00:50.000", 7 * time.Second: "00:00:44.000", time.Minute: "00:00:20.500"}[every])
					send(t, x.in, tick{"b", 0, 3})
					pass(9499*time.Millisecond, 0, "")
					if every != 7*time.Second {
						pass(time.Millisecond, 2, "00:01:00.000")
					} else { // the next multiple since 1970 is at 00:01:05
						pass(every, 2, "")
					}
					pass(20*time.Minute, 2, "") // nothing is left to close
					send(t, x.in, tick{"a", 0, 4})
					x.in.Close()
					all = [2][]string{linesOf(t, x.closed), linesOf(t, x.times)}
					if err := app.Wait(); err != nil {
						t.Error(err)
					}
					if m, _ := x.mark.Latest(); m != window.Future {
						t.Errorf("in the end the mark is %s", m)
					}
				})
				if n := len(all[0]); n != 3 || all[0][0] != "a[00:00:00,00:01:00)=2" || all[0][2] != "b[00:00:00,00:01:00)=1" {
					t.Errorf("closed are %s", all[0])
				}
				if got := strings.Join(all[1][:3], " "); got != "a1@00:00:20.500 a2@00:00:20.500 a4@"+all[1][2][3:] || all[1][3] != "b3@00:00:50.500" {
					t.Errorf("the times are %s", all[1])
				}
				sim.Rerun(t, &record, func(s *sim.Sim) {
					x := build(s.Flow(), every)
					s.Start()
					for i, out := range []*dataflow.OutputPort[string]{x.closed, x.times} {
						got := sim.Collect(s, out)
						slices.Sort(got)
						if !slices.Equal(got, all[i]) {
							s.Errorf("recorded: %s, and it was %s", got, all[i])
						}
					}
				})
			})
		}
	}
}

// TestStampNowEnds checks that a flow ends at once when its inputs are closed, and that stopping
// it closes no span.
func TestStampNowEnds(t *testing.T) {
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			x := minutes["stream"](flow, time.Hour)
			app, pass := x.start(t, flow)
			send(t, x.in, of("a", 0)...)
			pass(0, 0, "00:00:00.000")
			began := time.Now()
			if stop {
				app.Stop(t.Context())
			} else {
				x.in.Close()
			}
			n := len(linesOf(t, x.closed))
			linesOf(t, x.times)
			if err := app.Wait(); err != nil || n != map[bool]int{false: 1}[stop] || time.Since(began) > 0 {
				t.Errorf("stopped %t: %d are closed after %v, %v", stop, n, time.Since(began), err)
			}
		})
	}
}

// TestStampNowMerged merges a source stamped by the clock with one of event time. The mark is the
// lesser of both, so each may delay the other.
func TestStampNowMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		here := dataflow.At[server](flow)
		a, as := dataflow.Input[tick](here, "a")
		b, bs := dataflow.Input[tick](here, "b")
		byClock := window.StampNow(as, time.Second, "tested")
		began := window.TimeOf(time.Now())
		said, _ := window.Stamp(bs, func(x tick) window.Time { return began.Add(time.Duration(x.At) * time.Second) }, slack(0))
		x := clocked{}.of(a, dataflow.AssumeOrder(dataflow.Merge(byClock, said), "counted"), dataflow.KeyBy(dataflow.AssumeOrder(dataflow.Merge(byClock, said), "counted"), key))
		app, pass := x.start(t, flow)
		send(t, a, of("a", 0)...)
		pass(90*time.Second, 0, "")
		send(t, b, tick{"b", 59, 1})
		pass(0, 0, "00:00:59.000")
		send(t, b, tick{"b", 1000, 2}) // ahead of the clock
		pass(0, 2, "00:01:30.000")
		pass(time.Minute, 2, "00:02:30.000")
		a.Close()
		b.Close()
		if got, want := strings.Join(linesOf(t, x.closed), " "), "a[00:00:00,00:01:00)=1 b[00:00:00,00:01:00)=1 b[00:16:00,00:17:00)=1"; got != want {
			t.Errorf("closed are %s, want %s", got, want)
		}
		linesOf(t, x.times)
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestStampNowSent sends the mark to another location. There a window is closed by the clock of
// the first location, or the elements are stamped again. A run from the recording has the same times.
func TestStampNowSent(t *testing.T) {
	ways := maps.Clone(sendEvents)
	ways["again"] = func(to away, es eventStream) awayCounts {
		ticks := dataflow.Send(dataflow.Map(es, func(e window.Event[tick]) tick { return e.Value }), to)
		return countedAway(dataflow.KeyBy(window.StampNow(ticks, time.Second, "tested"), key))
	}
	for name, through := range ways {
		t.Run(name, func(t *testing.T) {
			var record dataflow.Recording
			build := func(flow *dataflow.Flow) (*dataflow.InputPort[tick], *dataflow.OutputPort[string]) {
				in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
				closed := through(dataflow.At[away](flow), window.StampNow(xs, time.Second, "tested"))
				return in, dataflow.Output(dataflow.AssumeOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
					return fmt.Sprintf("%s=%d", clockSpan(e.Key), e.Value)
				}), "tested"), "closed")
			}
			const want = "a[00:00:20,00:00:30)=3"
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(20 * time.Second)
				flow := dataflow.NewWithOptions(dataflow.Options{Record: &record})
				in, out := build(flow)
				app, err := dataflow.Start(t.Context(), flow)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				send(t, in, of("a", 0, 0, 0)...)
				began := time.Now()
				line, err := out.Next(t.Context())
				if d := time.Since(began); line != want || err != nil || d != 7*time.Second {
					t.Errorf("closed is %s after %v, want %s: %v", line, d, want, err)
				}
				in.Close()
				if err := app.Wait(); err != nil {
					t.Error(err)
				}
			})
			sim.Rerun(t, &record, func(s *sim.Sim) {
				_, out := build(s.Flow())
				s.Start()
				if got := strings.Join(sim.Collect(s, out), " "); got != want {
					s.Errorf("recorded: %s", got)
				}
			})
		})
	}
}

// TestStampNowMisuse checks that invalid arguments panic.
func TestStampNowMisuse(t *testing.T) {
	refuse := func(want string, build func(xs ticks)) {
		t.Helper()
		defer func() {
			if v := fmt.Sprint(recover()); !strings.HasPrefix(v, want) {
				t.Errorf("got %q, want %q", v, want)
			}
		}()
		_, xs := dataflow.Input[tick](dataflow.At[server](dataflow.New()), "ticks")
		build(xs)
	}
	name := func(x tick) string { return x.Key }
	refuse("window: StampNow: the period is 0s", func(xs ticks) { window.StampNow(xs, 0, "tested") })
	refuse("window: StampNowKeyed: the period is -1ns", func(xs ticks) { window.StampNowKeyed(dataflow.KeyBy(xs, name), -1, "tested") })
	refuse("window: StampNow: what depends on timing", func(xs ticks) { window.StampNow(xs, 1, "") })
	refuse("window: StampNowKeyed: what depends on timing", func(xs ticks) { window.StampNowKeyed(dataflow.KeyBy(xs, name), 1, "") })
}
