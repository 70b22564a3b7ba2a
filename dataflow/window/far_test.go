package window_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type farTimes = dataflow.KeyedStream[string, window.Event[window.Time], server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// far runs a program over events at the given times, all under one key, and returns its output, sorted.
func far(t *testing.T, times []window.Time, p func(es farTimes) text) string {
	t.Helper()
	flow := dataflow.New()
	in, xs := dataflow.Input[window.Time](dataflow.At[server](flow), "times")
	es, _ := window.Stamp(xs, func(t window.Time) window.Time { return t }, window.Disorder{Slack: math.MaxInt64})
	out := dataflow.Output(p(dataflow.KeyBy(es, func(window.Event[window.Time]) string { return "a" })), "out")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.SendBatch(t.Context(), times); err != nil {
		t.Fatal(err)
	}
	in.Close()
	var all []string
	for x := range out.All(t.Context()) {
		all = append(all, x)
	}
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// from writes a time near window.Past or window.Future relative to it, and any other time as a number.
func from(t window.Time) string {
	switch {
	case t < window.Past+1000:
		return strings.TrimSuffix(fmt.Sprintf("past+%d", t-window.Past), "+0")
	case t > window.Future-1000:
		return strings.TrimSuffix(fmt.Sprintf("future-%d", window.Future-t), "-0")
	}
	return fmt.Sprint(int64(t))
}

// TestFar checks windows over events near the ends of time, where adding to a time would
// overflow.
func TestFar(t *testing.T) {
	folded := func(shape window.Shape) func(es farTimes) text {
		return func(es farTimes) text {
			closed, _ := window.Count(es, shape)
			return dataflow.WeakenOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
				return fmt.Sprintf("[%s,%s)=%d", from(e.Key.Span.From), from(e.Key.Span.To), e.Value)
			}))
		}
	}
	pairs := func(es dataflow.KeyedStream[string, window.Event[dataflow.Pair[window.Time, dataflow.Maybe[window.Time]]], server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]) text {
		return dataflow.Map(keyedstream.Values(es), func(e window.Event[dataflow.Pair[window.Time, dataflow.Maybe[window.Time]]]) string {
			second := "-"
			if e.Value.Second.OK {
				second = from(e.Value.Second.Value)
			}
			return fmt.Sprintf("%s,%s@%s", from(e.Value.First), second, from(e.At))
		})
	}
	left := func(near window.Within) func(es farTimes) text {
		return func(es farTimes) text {
			a, b := keyedstream.Partition(es, func(e window.Event[window.Time]) bool { return e.Value%2 == 0 })
			return pairs(window.LeftJoin(a, b, near))
		}
	}
	for _, x := range []struct {
		name  string
		times []window.Time
		p     func(es farTimes) text
		want  string
	}{
		{"every, future", []window.Time{window.Future - 1, window.Future - 5}, folded(window.Every(10)), "[future-7,future)=2"},
		{"every, past", []window.Time{window.Past + 1, window.Past + 12}, folded(window.Every(10)), "[past+8,past+18)=1 [past,past+8)=1"},
		{"every, large", []window.Time{-1, 0}, folded(window.Every(math.MaxInt64)), "[0,future)=1 [past+1,0)=1"},
		{"sliding, future", []window.Time{window.Future - 1, window.Future - 5}, folded(window.Sliding(10, 5)), "[future-12,future-2)=1 [future-2,future)=1 [future-7,future)=2"},
		{"sliding, past", []window.Time{window.Past + 1, window.Past + 12}, folded(window.Sliding(10, 5)), "[past+3,past+13)=1 [past+8,past+18)=1 [past,past+8)=1"},
		{"offset", []window.Time{window.Past + 1, window.Future - 1}, folded(window.Every(10).Offset(math.MinInt64)), "[future-5,future)=1 [past,past+10)=1"},
		{"days", []window.Time{window.Past + 1, window.Future - 1}, folded(window.Days(time.UTC)), "[9223286400000000000,future)=1 [past,-9223286400000000000)=1"},
		{"months", []window.Time{window.Past + 1, window.Future - 1}, folded(window.Months(time.UTC)), "[9222422400000000000,future)=1 [past,-9222508800000000000)=1"},
		{"sessions", []window.Time{window.Past + 1, window.Past + 12, window.Future - 1, window.Future - 12}, func(es farTimes) text {
			closed, _ := window.Sessions(es, 10, func() int { return 0 }, func(n *int, _ window.Time) { *n++ }, func(n *int, m int) { *n += m }, "a sum")
			return folded(window.Every(1000))(keyedstream.Map(window.Closed(closed), func(e window.Event[int]) window.Event[window.Time] { return window.With(e, window.Time(0)) }))
		}, "[future-807,future)=2 [past,past+808)=2"},
		{"alone, future", []window.Time{window.Future - 3, window.Future - 5}, left(window.Within{After: 10}), "future-3,-@future-1 future-5,-@future-1"},
		{"alone, for ever", []window.Time{0, 2}, left(window.Within{After: math.MaxInt64}), "0,-@future-1 2,-@future-1"},
		{"paired, for ever", []window.Time{0, 1, 2, window.Future - 2}, left(window.Within{Before: math.MaxInt64, After: math.MaxInt64}), "0,1@1 0,future-2@future-2 2,1@2 2,future-2@future-2"},
		{"trailing", []window.Time{window.Past + 1, window.Past + 5, window.Future - 3, window.Future - 1}, func(es farTimes) text {
			ts := window.Trailing(es, math.MaxInt64, func() int { return 0 }, func(n *int, _ window.Time) { *n++ }, func(n *int, _ window.Time) { *n-- })
			return dataflow.WeakenOrder(keyedstream.Values(keyedstream.Map(ts, func(e window.Event[dataflow.Pair[window.Time, int]]) string {
				return fmt.Sprintf("%s=%d", from(e.Value.First), e.Value.Second)
			})))
		}, "future-1=2 future-3=1 past+1=1 past+5=2"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if got := far(t, x.times, x.p); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		})
	}
}

// TestFirstInstant has a stream whose mark is the first instant of time. A stream that it is merged with waits for it.
func TestFirstInstant(t *testing.T) {
	type times = dataflow.Stream[window.Time, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	type events = dataflow.Stream[window.Event[window.Time], server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	self := func(t window.Time) window.Time { return t }
	stamped := func(d window.Disorder) func(ts times) events {
		return func(ts times) events {
			es, _ := window.Stamp(ts, self, d)
			return es
		}
	}
	for _, x := range []struct {
		name  string
		stamp func(ts times) events
		first []window.Time
		want  string
	}{
		{"newest", stamped(window.Disorder{}), []window.Time{window.Past + 1}, "past+1 50 100 200 300"},
		{"slack", stamped(window.Disorder{Slack: 2}), []window.Time{window.Past + 3}, "past+3 50 100 200 300"},
		{"confirmed", stamped(window.Disorder{Confirm: 2}), []window.Time{window.Past + 1, window.Past + 2}, "past+1 past+2 50 100 200 300"},
		{"said", func(ts times) events {
			es, _ := window.StampBy(ts, self, func(t window.Time) (window.Time, bool) { return t, true })
			return es
		}, []window.Time{window.Past + 1}, "past+1 50 100 200 300"},
	} {
		t.Run(x.name, func(t *testing.T) {
			flow := dataflow.New()
			here := dataflow.At[server](flow)
			a, as := dataflow.Input[window.Time](here, "a")
			b, bs := dataflow.Input[window.Time](here, "b")
			all := window.SortBy(dataflow.Merge(x.stamp(as), stamped(window.Disorder{})(bs)), cmp.Compare[window.Time], "equal times are one time")
			out := dataflow.Output(dataflow.Map(all, func(e window.Event[window.Time]) string { return from(e.At) }), "out")
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			send := func(in *dataflow.InputPort[window.Time], ts ...window.Time) {
				for _, x := range ts {
					if err := in.Send(t.Context(), x); err != nil {
						t.Fatal(err)
					}
				}
			}
			send(a, x.first...)
			send(b, 100, 200)
			send(a, 50, 300)
			a.Close()
			b.Close()
			got := slices.Collect(out.All(t.Context()))
			if err := app.Wait(); err != nil || strings.Join(got, " ") != x.want {
				t.Errorf("got %s (%v), want %s", got, err, x.want)
			}
		})
	}
}
