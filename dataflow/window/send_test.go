package window_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// away is a location to which the tests send events; its results come back to the server.
type away struct{ dataflow.Process }

type (
	awayKeyed  = dataflow.KeyedStream[string, window.Event[tick], away, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	awayCounts = dataflow.KeyedSingleton[window.Key[string], int, away, boundedValue]
)

// sendEvents lists the ways to send events with their mark to another location.
var sendEvents = map[string]func(to away, es eventStream) awayCounts{
	"stream": func(to away, es eventStream) awayCounts {
		return countedAway(dataflow.KeyBy(dataflow.Send(es, to), key))
	},
	"sorted": func(to away, es eventStream) awayCounts {
		return countedAway(dataflow.KeyBy(window.Sort(dataflow.Send(es, to)), key))
	},
	"keyed": func(to away, es eventStream) awayCounts {
		return countedAway(keyedstream.Send(dataflow.KeyBy(es, key), to))
	},
	"closed": func(to away, es eventStream) awayCounts {
		seconds, _ := window.Count(dataflow.KeyBy(es, key), window.Every(time.Second))
		sums, _ := window.Fold(window.Closed(keyedsingleton.Send(seconds, to)), window.Every(10*time.Second), func() int { return 0 }, func(n *int, m int) { *n += m })
		return sums
	},
}

func countedAway(es awayKeyed) awayCounts {
	closed, _ := window.Count(es, window.Every(10*time.Second))
	return closed
}

type sentPorts struct {
	in  *dataflow.InputPort[tick]
	out *dataflow.OutputPort[string]
}

func buildSent(flow *dataflow.Flow, send func(to away, es eventStream) awayCounts) sentPorts {
	in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
	es, _ := window.Stamp(xs, at, slack(2))
	lines := dataflow.Map(keyedsingleton.Entries(send(dataflow.At[away](flow), es)), func(e dataflow.Entry[window.Key[string], int]) string {
		return fmt.Sprintf("%s=%d", spanned(e.Key), e.Value)
	})
	return sentPorts{in, dataflow.Output(lines, "closed")}
}

// TestSend is case 64: the same spans close behind Send as without it: at a location whose queue
// holds one record, from a recording, and in every schedule.
func TestSend(t *testing.T) {
	source := []tick{{"a", 1, 1}, {"b", 5, 2}, {"a", 3, 3}, {"a", 2, 4}, {"b", 11, 5}, {"a", 10, 6}, {"a", 25, 7}}
	const closed = "a[0,10)=2 a[10,20)=1 a[20,30)=1 b[0,10)=1 b[10,20)=1"
	for name, send := range sendEvents {
		t.Run(name, func(t *testing.T) {
			for _, cut := range []int{1, 3, len(source)} {
				var record dataflow.Recording
				flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1, Record: &record})
				b := buildSent(flow, send)
				app, err := dataflow.Start(t.Context(), flow)
				if err != nil {
					t.Fatal(err)
				}
				for left := source; len(left) > 0; left = left[min(cut, len(left)):] {
					if _, err := b.in.SendBatch(t.Context(), left[:min(cut, len(left))]); err != nil {
						t.Fatal(err)
					}
				}
				b.in.Close()
				var got []string
				for line := range b.out.All(t.Context()) {
					got = append(got, line)
				}
				if err := app.Wait(); err != nil || report([][]string{got}, false) != closed {
					t.Errorf("in batches of %d closed are %v, %v", cut, got, err)
				}
				sim.Rerun(t, &record, func(s *sim.Sim) {
					b := buildSent(s.Flow(), send)
					s.Start()
					if got := report([][]string{sim.Collect(s, b.out)}, false); got != closed {
						s.Errorf("from the recording closed are %s", got)
					}
				})
			}
			n := sim.Exhaustive(t, func(s *sim.Sim) {
				b := buildSent(s.Flow(), send)
				s.Start()
				for _, x := range source {
					s.Check(b.in.Send(s.Context(), x))
				}
				b.in.Close()
				if got := report([][]string{sim.Collect(s, b.out)}, false); got != closed {
					s.Errorf("closed are %s", got)
				}
			})
			if n != 1 {
				t.Errorf("%d schedules", n)
			}
		})
	}
}

// TestSendTwo checks that the mark of a location with two remote sources is the lesser of their marks.
func TestSendTwo(t *testing.T) {
	make := func(flow *dataflow.Flow) (in [2]*dataflow.InputPort[tick], out *dataflow.OutputPort[string]) {
		here := dataflow.At[server](flow)
		a, xs := dataflow.Input[tick](dataflow.At[away](flow), "a")
		b, ys := dataflow.Input[tick](dataflow.At[elsewhere](flow), "b")
		left, _ := window.Stamp(xs, at, slack(0))
		right, _ := window.Stamp(ys, at, slack(0))
		all := dataflow.Merge(dataflow.Send(left, here), dataflow.Send(right, here))
		closed, _ := window.Count(dataflow.KeyBy(all, key), window.Every(10*time.Second))
		return [2]*dataflow.InputPort[tick]{a, b}, dataflow.Output(counted(closed), "closed")
	}
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		in, out := make(s.Flow())
		s.Start()
		send := func(i int, times ...int) {
			for _, x := range of("a", times...) {
				s.Check(in[i].Send(s.Context(), x))
			}
		}
		send(0, 1, 12)
		send(1, 3, 7)
		if got := sim.Collect(s, out); len(got) > 0 {
			s.Errorf("closed are %s, and one source is at 7", got)
		}
		send(1, 11)
		if got := fmt.Sprint(sim.Collect(s, out)); got != "[a[0,10)=3]" {
			s.Errorf("closed are %s", got)
		}
	})
	if n != 1 {
		t.Errorf("%d schedules", n)
	}
}

// TestDivide divides a keyed stream among locations, one of which it came from, and checks that
// each of them has the mark of the stream.
func TestDivide(t *testing.T) {
	type worker struct{ dataflow.Process }
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var source []tick
	for _, second := range []int{1, 5, 11} {
		for i, k := range keys {
			source = append(source, tick{k, second, i})
		}
	}
	make := func(flow *dataflow.Flow) (*dataflow.InputPort[tick], []*dataflow.OutputPort[string]) {
		workers := dataflow.Members[worker](flow, 3)
		in, xs := dataflow.Input[tick](workers[0], "ticks")
		es, _ := window.Stamp(xs, at, slack(0))
		var outs []*dataflow.OutputPort[string]
		for i, mine := range keyedstream.Divide(dataflow.KeyBy(es, key), workers) {
			closed, _ := window.Count(mine, window.Every(10*time.Second))
			outs = append(outs, dataflow.Output(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string { return e.Key.Key }), fmt.Sprint("closed ", i)))
		}
		return in, outs
	}
	flow := dataflow.New()
	in, outs := make(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.SendBatch(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var all []string
	for _, out := range outs {
		for k := range out.All(t.Context()) {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	if err := app.Wait(); err != nil || strings.Join(all, "") != "aabbccddeeffgghh" {
		t.Errorf("closed are %v, %v", all, err)
	}
	sim.Random(t, 20, func(s *sim.Sim) {
		in, outs := make(s.Flow())
		s.Start()
		for _, x := range source {
			s.Check(in.Send(s.Context(), x))
		}
		var all []string
		for _, out := range outs {
			all = append(all, sim.Collect(s, out)...)
		}
		slices.Sort(all)
		if strings.Join(all, "") != "abcdefgh" {
			s.Errorf("closed are %v", all)
		}
	})
}

type sentDurably struct {
	in   *dataflow.InputPort[tick]
	outs map[string]*dataflow.EntryOutputPort[window.Key[string], int]
}

// TestSendDurably kills, at every step, a flow that sends its marks to another location.
func TestSendDurably(t *testing.T) {
	source := []tick{{"a", 1, 1}, {"b", 5, 2}, {"a", 3, 3}, {"a", 2, 4}, {"b", 11, 5}, {"a", 13, 6}}
	runs := durabletest.Crash(t, durabletest.Program[sentDurably]{
		Build: func(flow *dataflow.Flow) sentDurably {
			in, xs := dataflow.Input[tick](dataflow.At[server](flow), "ticks")
			es, _ := window.Stamp(xs, at, slack(2))
			b := sentDurably{in, map[string]*dataflow.EntryOutputPort[window.Key[string], int]{}}
			for _, name := range slices.Sorted(maps.Keys(sendEvents)) {
				b.outs[name] = keyedsingleton.Output(sendEvents[name](dataflow.At[away](flow), es), name)
			}
			return b
		},
		Drive: func(ctx context.Context, p sentDurably) error { return sendTicks(ctx, p.in, source, 0) },
		Check: func(ctx context.Context, p sentDurably) error {
			for name, out := range p.outs {
				for k, want := range map[string]int{"a": 2, "b": 1} {
					soon, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					if n, err := out.Await(soon, window.Key[string]{Key: k, Span: window.Span{From: 0, To: seconds(10)}}); n != want || err != nil {
						return fmt.Errorf("%s has %d of %s: %w", name, n, k, err)
					}
				}
			}
			return nil
		},
	}, durabletest.Options{})
	if runs < 40 {
		t.Errorf("there were only %d runs", runs)
	}
}
