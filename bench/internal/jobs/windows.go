package jobs

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/bench/internal/ratio"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// A visit is an event: a visitor and a time, in nanoseconds.
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

// visits returns n visits of some visitors, out of order by at most the disorder.
func visits(n int) []visit {
	r := rand.New(rand.NewPCG(5, 6))
	all := make([]visit, n)
	for i := range all {
		at := time.Hour + time.Duration(i)*betweenVisit - time.Duration(r.Int64N(int64(disorder)))
		all[i] = visit{r.Uint64N(visitors), int64(at)}
	}
	return all
}

// A tally sums up what an implementation has closed: the number of counts, the number of visits,
// and a sum over visitors and times that does not depend on the order.
type tally struct {
	closed, visits int
	sum            uint64
}

func (t *tally) add(who uint64, from, to int64, n int) {
	t.closed++
	t.visits += n
	h := (who*golden + uint64(from)) * golden
	h = (h ^ h>>32 + uint64(to)) * golden
	t.sum += (h ^ h>>29 + uint64(n)) * golden
}

// Windows counts visits in minutes of event time, and in sessions.
func Windows() []Job {
	const n = 3_000_000
	all := lazily(func() []visit { return visits(n) })
	spans := lazily(func() tally { return spansOf(all()) })
	sessions := lazily(func() tally { return staysOf(all()) })
	var jobs []Job
	for _, batch := range []int{256, 1} {
		job := Job{
			Name: "Tumbling", Params: fmt.Sprintf("window=1m/batch=%d", batch), CPU: true, Slow: batch == 1,
			Targets: []Target{{AtMost: 1}},
			Impls: []ratio.Impl{
				{Name: "hand", New: func() ratio.Run { return handTumbling(all(), nil, spans()) }},
				{Name: "millrace", New: func() ratio.Run { return flowTumbling(all(), batch, spans()) }},
			},
		}
		if batch == 1 { // needed if visits come from several goroutines
			job.Impls = append(job.Impls, ratio.Impl{Name: "mutex", New: func() ratio.Run { return handTumbling(all(), new(sync.Mutex), spans()) }})
			job.Targets = append(job.Targets, Target{To: "mutex", AtMost: 1})
		}
		jobs = append(jobs, job)
	}
	return append(jobs, Job{
		Name: "Sessions", Params: "gap=10s/batch=256", CPU: true, Slow: true,
		Targets: []Target{{AtMost: 1.3}, {To: "ordered", AtMost: 1}},
		Impls: []ratio.Impl{
			{Name: "hand", New: func() ratio.Run { return handSessions(all(), staysOf, sessions()) }},
			{Name: "ordered", New: func() ratio.Run { return handSessions(all(), staysInOrder, sessions()) }},
			{Name: "millrace", New: func() ratio.Run { return flowSessions(all(), sessions()) }},
		},
	})
}

// A spanOfKey is a minute of a visitor.
type spanOfKey struct {
	who  uint64
	from int64
}

// spansOf first counts all visits, and then adds up the counts.
func spansOf(all []visit) (t tally) {
	counts := make(map[spanOfKey]int)
	for _, v := range all {
		counts[spanOfKey{v.Who, v.At - v.At%int64(visitWindow)}]++
	}
	for k, n := range counts {
		t.add(k.who, k.from, k.from+int64(visitWindow), n)
	}
	return t
}

// handTumbling has one map of keys and windows, which is swept when a window is over. It takes a
// visit under mu, if mu is not nil.
func handTumbling(all []visit, mu *sync.Mutex, want tally) ratio.Run {
	return ratio.Run{Do: func() int {
		counts := make(map[spanOfKey]int)
		var closed tally
		newest, swept := int64(0), int64(0)
		sweep := func(mark int64) {
			for k, n := range counts {
				if k.from+int64(visitWindow) <= mark {
					delete(counts, k)
					closed.add(k.who, k.from, k.from+int64(visitWindow), n)
				}
			}
		}
		take := func(v visit) {
			if v.At < newest-int64(visitSlack) {
				return
			}
			counts[spanOfKey{v.Who, v.At - v.At%int64(visitWindow)}]++
			newest = max(newest, v.At)
			if mark := newest - int64(visitSlack); mark >= swept+int64(visitWindow) {
				swept = mark - mark%int64(visitWindow)
				sweep(mark)
			}
		}
		for _, v := range all {
			if mu == nil {
				take(v)
				continue
			}
			mu.Lock()
			take(v)
			mu.Unlock()
		}
		sweep(1 << 62)
		check("windows", closed, want)
		return len(all)
	}}
}

func flowTumbling(all []visit, batch int, want tally) ratio.Run {
	return flowWindows(all, batch, want, func(byVisitor visitStream) visitCounts {
		closed, _ := window.Count(byVisitor, window.Every(visitWindow))
		return closed
	})
}

func flowSessions(all []visit, want tally) ratio.Run {
	return flowWindows(all, 256, want, func(byVisitor visitStream) visitCounts {
		closed, _ := window.Sessions(byVisitor, visitGap, func() int { return 0 }, func(n *int, _ visit) { *n++ }, func(n *int, m int) { *n += m }, "a sum")
		return closed
	})
}

// flowWindows counts what is closed of the windows that count makes. They close in the order of
// their ends.
func flowWindows(all []visit, batch int, want tally, count func(visitStream) visitCounts) ratio.Run {
	f := dataflow.New()
	in, vs := dataflow.Input[visit](dataflow.At[bench](f), "visits")
	events, _ := window.Stamp(vs, func(v visit) window.Time { return window.Time(v.At) }, window.Disorder{Slack: visitSlack})
	var closed tally
	last := window.Past
	keyedsingleton.InspectWithKey(count(dataflow.KeyBy(events, func(e window.Event[visit]) uint64 { return e.Value.Who })), func(k window.Key[uint64], n int) {
		if k.Span.To < last {
			panic("jobs: a window is closed after one that ends later")
		}
		last = k.Span.To
		closed.add(k.Key, int64(k.Span.From), int64(k.Span.To), n)
	})
	app := start(f)
	return ratio.Run{Do: func() int {
		send(in, all, batch)
		in.Close()
		must(app.Wait())
		check("windows", closed, want)
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

func handSessions(all []visit, count func([]visit) tally, want tally) ratio.Run {
	return ratio.Run{Do: func() int {
		check("sessions", count(all), want)
		return len(all)
	}}
}

// staysOf keeps the sessions of each visitor in a map, which it sweeps once per gap: sessions
// close up to a gap late, in any order.
func staysOf(all []visit) (closed tally) {
	stays := make(map[uint64][]stay)
	newest, swept := int64(0), int64(0)
	sweep := func(mark int64) {
		for who, s := range stays {
			i := 0
			for i < len(s) && s[i].to <= mark {
				closed.add(who, s[i].from, s[i].to, s[i].n)
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
	return closed
}

// An ending says when to look at the sessions of a visitor.
type ending struct {
	at  int64
	who uint64
}

type endings []ending

func (e endings) Len() int           { return len(e) }
func (e endings) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *endings) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

// staysInOrder closes sessions as the flow does: as soon as no later visit can belong to one, in
// the order of their ends. It has a heap of the times at which to look at a visitor; the session
// may have been extended by then.
func staysInOrder(all []visit) (closed tally) {
	stays := make(map[uint64][]stay)
	var due endings
	newest := int64(0)
	look := func(mark int64) {
		for len(due) > 0 && due[0].at <= mark {
			x := due[0]
			s := stays[x.who]
			if len(s) > 0 && s[0].to == x.at {
				closed.add(x.who, s[0].from, s[0].to, s[0].n)
				s = slices.Delete(s, 0, 1)
				stays[x.who] = s
			}
			if len(s) == 0 {
				delete(stays, x.who)
				heap.Pop(&due)
				continue
			}
			due[0].at = s[0].to
			heap.Fix(&due, 0)
		}
	}
	for _, v := range all {
		if v.At < newest-int64(visitSlack) {
			continue
		}
		before := stays[v.Who]
		first := int64(1 << 62)
		if len(before) > 0 {
			first = before[0].to
		}
		s := enter(before, v.At)
		stays[v.Who] = s
		if s[0].to < first {
			heap.Push(&due, ending{s[0].to, v.Who})
		}
		newest = max(newest, v.At)
		look(newest - int64(visitSlack))
	}
	look(1 << 62)
	return closed
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
