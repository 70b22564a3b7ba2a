package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// A visit is an event: who and when, in nanoseconds.
type visit struct {
	Who uint64
	At  int64
}

const (
	visitors     = 100_000
	disorder     = 2 * time.Second
	visitSlack   = 5 * time.Second
	visitWindow  = time.Minute
	visitGap     = 10 * time.Second
	betweenVisit = 100 * time.Microsecond
)

// visits returns n visits of some visitors, up to the disorder out of order.
func visits(n int) []visit {
	r := rand.New(rand.NewPCG(5, 6))
	all := make([]visit, n)
	for i := range all {
		at := time.Hour + time.Duration(i)*betweenVisit - time.Duration(r.Int64N(int64(disorder)))
		all[i] = visit{r.Uint64N(visitors), int64(at)}
	}
	return all
}

// Windows counts visits in minutes of event time, and in sessions.
func Windows() []Job {
	const n = 3_000_000
	all := lazily(func() []visit { return visits(n) })
	spans := lazily(func() [2]int { return [2]int{countSpans(all()), countSessions(all())} })
	var jobs []Job
	for _, batch := range []int{256, 1} {
		jobs = append(jobs, Job{
			Name: "Tumbling", Params: fmt.Sprintf("window=1m/batch=%d", batch), CPU: true, Slow: batch == 1,
			Targets: []Target{{AtMost: 1}},
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handTumbling(all(), spans()[0]) }},
				{Name: "millrace", New: func() ratio.Run { return flowTumbling(all(), batch, spans()[0]) }},
			},
		})
	}
	return append(jobs, Job{
		Name: "Sessions", Params: "gap=10s/batch=256", CPU: true, Slow: true,
		Targets: []Target{{AtMost: 1.3}},
		Impls: []ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return handSessions(all(), spans()[1]) }},
			{Name: "millrace", New: func() ratio.Run { return flowSessions(all(), spans()[1]) }},
		},
	})
}

// countSpans returns how many keys in spans there are.
func countSpans(all []visit) int {
	type key struct {
		who  uint64
		from int64
	}
	seen := make(map[key]struct{})
	for _, v := range all {
		seen[key{v.Who, v.At / int64(visitWindow)}] = struct{}{}
	}
	return len(seen)
}

// handTumbling has one map of keys in windows, which is swept when a window is over.
func handTumbling(all []visit, want int) ratio.Run {
	type key struct {
		who  uint64
		from int64
	}
	return ratio.Run{Do: func() int {
		counts := make(map[key]int)
		closed, visits := 0, 0
		newest, swept := int64(0), int64(0)
		sweep := func(mark int64) {
			for k, n := range counts {
				if k.from+int64(visitWindow) <= mark {
					delete(counts, k)
					closed++
					visits += n
				}
			}
		}
		for _, v := range all {
			mark := newest - int64(visitSlack)
			if v.At < mark {
				continue
			}
			counts[key{v.Who, v.At - v.At%int64(visitWindow)}]++
			newest = max(newest, v.At)
			if mark := newest - int64(visitSlack); mark >= swept+int64(visitWindow) {
				swept = mark - mark%int64(visitWindow)
				sweep(mark)
			}
		}
		sweep(1 << 62)
		check("windows", closed, want)
		check("visits", visits, len(all))
		return len(all)
	}}
}

func flowTumbling(all []visit, batch, want int) ratio.Run {
	return flowWindows(all, batch, want, func(byVisitor visitStream) visitCounts {
		closed, _ := window.Count(byVisitor, window.Every(visitWindow))
		return closed
	})
}

func flowSessions(all []visit, want int) ratio.Run {
	return flowWindows(all, 256, want, func(byVisitor visitStream) visitCounts {
		closed, _ := window.Sessions(byVisitor, visitGap, func() int { return 0 }, func(n *int, _ visit) { *n++ }, func(n *int, m int) { *n += m }, "a sum")
		return closed
	})
}

// flowWindows counts what is closed of the windows that count makes.
func flowWindows(all []visit, batch, want int, count func(visitStream) visitCounts) ratio.Run {
	f := dataflow.New()
	in, vs := dataflow.Input[visit](dataflow.At[bench](f), "visits")
	events, _ := window.Stamp(vs, func(v visit) window.Time { return window.Time(v.At) }, window.Disorder{Slack: visitSlack})
	closed, visits := 0, 0
	keyedsingleton.Inspect(count(dataflow.KeyBy(events, func(e window.Event[visit]) uint64 { return e.Value.Who })), func(n int) {
		closed++
		visits += n
	})
	app := start(f)
	return ratio.Run{Do: func() int {
		send(in, all, batch)
		in.Close()
		must(app.Wait())
		check("windows", closed, want)
		check("visits", visits, len(all))
		return len(all)
	}}
}

type (
	visitStream = dataflow.KeyedStream[uint64, window.Event[visit], bench, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	visitCounts = dataflow.KeyedSingleton[window.Key[uint64], int, bench, bounds.BoundedValue]
)

// A stay is a session of a visitor.
type stay struct {
	from, to int64
	n        int
}

// handSessions has the sessions of each visitor in a map, which is swept each gap.
func handSessions(all []visit, want int) ratio.Run {
	return ratio.Run{Do: func() int {
		closed, visits := countStays(all)
		check("sessions", closed, want)
		check("visits", visits, len(all))
		return len(all)
	}}
}

func countSessions(all []visit) int {
	closed, _ := countStays(all)
	return closed
}

func countStays(all []visit) (closed, visits int) {
	stays := make(map[uint64][]stay)
	newest, swept := int64(0), int64(0)
	sweep := func(mark int64) {
		for who, s := range stays {
			i := 0
			for i < len(s) && s[i].to <= mark {
				closed++
				visits += s[i].n
				i++
			}
			if i == len(s) {
				delete(stays, who)
			} else if i > 0 {
				stays[who] = slices.Delete(s, 0, i)
			}
		}
	}
	for _, v := range all {
		if v.At < newest-int64(visitSlack) {
			continue
		}
		stays[v.Who] = enter(stays[v.Who], v.At)
		newest = max(newest, v.At)
		if mark := newest - int64(visitSlack); mark >= swept+int64(visitGap) {
			swept = mark
			sweep(mark)
		}
	}
	sweep(1 << 62)
	return closed, visits
}

// enter adds a visit to the sessions of its visitor.
func enter(s []stay, at int64) []stay {
	end := at + int64(visitGap)
	i := len(s)
	for i > 0 && s[i-1].from > at {
		i--
	}
	if i > 0 && s[i-1].to > at {
		i--
		s[i].to = max(s[i].to, end)
		s[i].n++
	} else if i < len(s) && s[i].from < end {
		s[i].from = at
		s[i].n++
	} else {
		return slices.Insert(s, i, stay{at, end, 1})
	}
	if i+1 < len(s) && s[i+1].from < s[i].to {
		s[i].to = max(s[i].to, s[i+1].to)
		s[i].n += s[i+1].n
		s = slices.Delete(s, i+1, i+2)
	}
	return s
}
