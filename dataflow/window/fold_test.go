package window_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// counting counts the events of one source in each span and reports the late ones.
func counting(d window.Disorder, shape window.Shape) program {
	return func(xs []ticks) []text {
		es, late := window.Stamp(xs[0], at, d)
		closed, _ := window.Count(dataflow.KeyBy(es, key), shape)
		return []text{counted(closed), said("late", late)}
	}
}

// TestSpans checks which events are counted in which span, and which are late. A number in a name is
// that of the case in the design.
func TestSpans(t *testing.T) {
	every := window.Every(10 * time.Second)
	for _, x := range []struct {
		name   string
		source []tick
		d      window.Disorder
		shape  window.Shape
		want   string
	}{
		{"34 late", of("a", 1, 5, 3, 2, 11), slack(2), every, "a[0,10)=3 a[10,20)=1 | late a4@2"},
		{"35 equal is in time", of("a", 10, 8), slack(2), every, "a[0,10)=1 a[10,20)=1 | "},
		{"40 rounding down", of("a", -1, 0), slack(0), every, "a[-10,0)=1 a[0,10)=1 | "},
		{"41 sliding", of("a", 7), slack(0), window.Sliding(10*time.Second, 5*time.Second), "a[0,10)=1 a[5,15)=1 | "},
		{"42 offset", of("a", 6, 7), slack(0), every.Offset(-3 * time.Second), "a[-3,7)=1 a[7,17)=1 | "},
		{"49 confirmed", of("a", 1, 2, 1e9, 3, 4), window.Disorder{Confirm: 3}, every, "a[0,10)=4 a[1000000000,1000000010)=1 | "},
		{"not confirmed", of("a", 1, 2, 1e9, 3, 4), slack(0), every, "a[0,10)=2 a[1000000000,1000000010)=1 | late a4@3 late a5@4"},
		{"nothing", nil, slack(0), every, " | "},
		{"keys", []tick{{"a", 1, 1}, {"b", 2, 1}, {"a", 12, 2}, {"b", 3, 2}}, slack(0), every, "a[0,10)=1 a[10,20)=1 b[0,10)=1 | late b2@3"},
	} {
		t.Run(x.name, func(t *testing.T) {
			check(t, [][]tick{x.source}, want{report: x.want}, counting(x.d, x.shape))
		})
	}
}

// TestMerged is case 43: when two sources are merged, the one that is behind holds back the mark
// until it is closed.
func TestMerged(t *testing.T) {
	merged := func(xs []ticks) []text {
		left, _ := window.Stamp(xs[0], at, slack(0))
		right, _ := window.Stamp(xs[1], at, slack(0))
		closed, _ := window.Count(dataflow.KeyBy(dataflow.Merge(left, right), key), window.Every(10*time.Second))
		return []text{counted(closed)}
	}
	check(t, [][]tick{of("a", 3, 12), of("b", 7)}, want{report: "a[0,10)=1 a[10,20)=1 b[0,10)=1"}, merged)
	sim.Exhaustive(t, func(s *sim.Sim) {
		b := build(s.Flow(), 2, merged)
		s.Start()
		step := func(want string) {
			if got := report([][]string{sim.Collect(s, b.outs[0])}, false); got != want {
				s.Errorf("got %s, want %s", got, want)
			}
		}
		for _, x := range of("a", 3, 12) {
			s.Check(b.ins[0].Send(s.Context(), x))
		}
		s.Check(b.ins[1].Send(s.Context(), tick{"b", 7, 1}))
		step("")
		b.ins[1].Close()
		step("a[0,10)=1 b[0,10)=1")
		b.ins[0].Close()
		step("a[10,20)=1")
	})
}

// TestClosed is case 54: counts per minute are summed per hour.
func TestClosed(t *testing.T) {
	check(t, [][]tick{{{"a", 3599, 1}, {"a", 3601, 2}, {"b", 3500, 1}, {"a", 7300, 3}}}, want{
		report: "a[0,3600)=1 a[3600,7200)=1 a[7200,10800)=1 b[0,3600)=1",
	}, func(xs []ticks) []text {
		es, _ := window.Stamp(xs[0], at, slack(200))
		minutes, _ := window.Count(dataflow.KeyBy(es, key), window.Every(time.Minute))
		hours, _ := window.Fold(window.Closed(minutes), window.Every(time.Hour), func() int { return 0 }, func(n *int, m int) { *n += m })
		return []text{counted(hours)}
	})
}

// TestNoTime is case 57: an event without a time is late and does not move the mark.
func TestNoTime(t *testing.T) {
	times := []window.Time{window.TimeOf(time.Time{}), window.TimeOf(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)), seconds(1), window.Future - 1}
	if times[0] != window.Past || times[1] != window.Future {
		t.Errorf("the times are %v", times)
	}
	check(t, [][]tick{of("a", 0, 1, 2, 3)}, want{report: "a=1 a=1 | late a1@-9223372036 late a2@9223372036"}, func(xs []ticks) []text {
		es, late := window.Stamp(xs[0], func(x tick) window.Time { return times[x.At] }, slack(0))
		closed, _ := window.Count(dataflow.KeyBy(es, key), window.Sliding(time.Second, time.Second))
		return []text{dataflow.WeakenOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
			return fmt.Sprintf("%s=%d", e.Key.Key, e.Value)
		})), said("late", late)}
	})
}

// TestManySpans opens more spans than have tables of their own, and expects the same counts as with
// one open span.
func TestManySpans(t *testing.T) {
	var source []tick
	for i := range 60 {
		source = append(source, tick{"a", i * 10, i}, tick{"b", i*10 + 1, i})
	}
	for _, sl := range []int{1000, 250, 20} {
		got := report(produce(t, [][]tick{source}, 7, counting(slack(sl), window.Every(10*time.Second)), nil), false)
		want := report(produce(t, [][]tick{source}, 1, counting(slack(0), window.Every(10*time.Second)), nil), false)
		if got != want {
			t.Errorf("slack %d:\n got %s\nwant %s", sl, got, want)
		}
	}
}

// TestDaysOfZones is cases 55 and 56: a day begins when the calendar date changes, even where
// midnight does not exist or occurs twice.
func TestDaysOfZones(t *testing.T) {
	const (
		before = 1541300399 // 2018-11-04T02:59:59Z, the last second of November 3 in São Paulo
		fall   = 1793505600 // 2026-11-01T04:00:00Z, the first midnight of November 1 in Havana
	)
	for zone, c := range map[string]struct {
		at   []int
		want string
	}{
		"America/Sao_Paulo": {[]int{before, before + 1, before + 23*3600, before + 1 + 23*3600}, fmt.Sprintf("a[%d,%d)=1 a[%d,%d)=2 a[%d,%d)=1",
			before+1-24*3600, before+1, before+1, before+1+23*3600, before+1+23*3600, before+1+47*3600)},
		"America/Havana": {[]int{fall - 1, fall, fall + 3600, fall + 25*3600 - 1, fall + 25*3600}, fmt.Sprintf("a[%d,%d)=1 a[%d,%d)=3 a[%d,%d)=1",
			fall-24*3600, fall, fall, fall+25*3600, fall+25*3600, fall+49*3600)},
	} {
		place, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		check(t, [][]tick{of("a", c.at...)}, want{report: c.want}, func(xs []ticks) []text {
			es, _ := window.Stamp(xs[0], at, slack(0))
			closed, _ := window.Count(dataflow.KeyBy(es, key), window.Days(place))
			return []text{counted(closed)}
		})
	}
}

// TestClosedOrder has spans of one key that are entries of several keys, so nothing determines which of them comes first. It
// catches an order of the closed aggregates that is the order of their arrival.
func TestClosedOrder(t *testing.T) {
	values := []window.Span{{From: 0, To: 20}, {From: 10, To: 20}, {From: 0, To: 10}}
	want := []window.Span{values[2], values[0], values[1]}
	early := func(window.Key[string]) window.Time { return 1 }
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		sent := []window.Span{values[order[0]], values[order[1]], values[order[2]]}
		if got := closedSpans(t, []string{"a", "b", "c"}, early, sent); !slices.Equal(got, want) {
			t.Errorf("sent %v: got %v, want %v", sent, got, want)
		}
	}
	// At the mark of its time a span waits, since one that began before it may still come.
	last := func(k window.Key[string]) window.Time { return k.Span.To - 1 }
	sent := []window.Span{values[1], values[0]}
	if got := closedSpans(t, []string{"a"}, last, sent); !slices.Equal(got, want[1:]) {
		t.Errorf("sent %v with their own times: got %v, want %v", sent, got, want[1:])
	}
}

// closedSpans sends spans of one key in turn to inputs with these names, and returns them in the order in which Closed gives them.
func closedSpans(t *testing.T, inputs []string, at func(window.Key[string]) window.Time, sent []window.Span) (got []window.Span) {
	type span = window.Key[string]
	flow := dataflow.New()
	var ports []*dataflow.InputPort[span]
	var spans dataflow.Stream[window.Event[span], server, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	for i, name := range inputs {
		in, s := dataflow.Input[span](dataflow.At[server](flow), name)
		events, _ := window.Stamp(s, at, window.Disorder{})
		if ports = append(ports, in); i == 0 {
			spans = dataflow.WeakenOrder(events)
		} else {
			spans = dataflow.Merge(spans, events)
		}
	}
	seen := keyedstream.Count(dataflow.KeyBy(spans, func(e window.Event[span]) span { return e.Value }))
	closed := keyedsingleton.MapWithKey(keyedsingleton.ThresholdUniform(seen, 1), func(k span, _ int) window.Span { return k.Span })
	texts := keyedstream.Fold(window.Closed(closed), func() []window.Span { return nil }, func(acc *[]window.Span, e window.Event[window.Span]) {
		got = append(got, e.Value)
	})
	keyedsingleton.Inspect(texts, func([]window.Span) {})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sent {
		if err := ports[i%len(ports)].Send(t.Context(), span{Key: "k", Span: s}); err != nil {
			t.Fatal(err)
		}
	}
	for _, in := range ports {
		in.Close()
	}
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestClosedHasNoState has a window close spans, in the order of their times. Such entries need no queue in Closed, and with one, a
// durable history that an earlier program made would be refused.
func TestClosedHasNoState(t *testing.T) {
	flow := dataflow.New()
	in, ticks := dataflow.Input[tick](dataflow.At[server](flow), "in")
	es, _ := window.Stamp(ticks, at, slack(0))
	closed, _ := window.Count(dataflow.KeyBy(es, key), window.Every(10*time.Second))
	hours, _ := window.Fold(window.Closed(closed), window.Every(time.Minute), func() int { return 0 }, func(acc *int, n int) { *acc += n })
	port := keyedsingleton.Output(hours, "hours")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range of("a", 1, 2, 11, 21, 75) {
		if err := in.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := port.Await(t.Context(), window.Key[string]{Key: "a", Span: window.Span{From: 0, To: seconds(60)}}); err != nil || n != 4 {
		t.Fatalf("%d events in the first minute, want 4 (%v)", n, err)
	}
	for _, op := range app.Status()[0].Operators {
		if op.Name == "window.Closed" && (op.Kept > 0 || op.Bytes > 0) {
			t.Errorf("it keeps %d events in %d bytes", op.Kept, op.Bytes)
		}
	}
	in.Close()
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
}
