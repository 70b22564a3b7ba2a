package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// outcomesTests returns the programs of [TestOutcomes]. Most were found as differences between
// production and the simulator, or as guarantees that production once broke.
func outcomesTests() []outcomesTest {
	return []outcomesTest{
		{name: "AwaitThenLatest", p: awaitThenLatest, simulated: []string{"[1 2]", "[2 2]"}},
		{name: "OwnWrites", p: ownWrites, simulated: []string{"0: true true, 1: true true, 2: true true"}},
		{name: "NextThenLatest", p: nextThenLatest, simulated: []string{"10:1 20:2", "10:2 20:2"}},
		{name: "StalledTimers", p: stalledTimers, simulated: []string{"[10ms 20ms]"}},
		{name: "CloseTimers", p: closeTimers, simulated: []string{"[early late]"}},
		{name: "StaleCount", p: staleCount, simulated: []string{"0 [[1 2]]", "0 [[1] [2]]", "1 [[1 2]]", "1 [[1] [2]]"}},
		{name: "LongBeforeShort", p: longBeforeShort, simulated: []string{
			"[long long! short short!]", "[long short long! short!]", "[long short short! long!]", "[short long short! long!]", "[short short! long long!]",
		}},
		{name: "OrderOfCalls", p: orderOfCalls, simulated: []string{"withdrawn: false", "withdrawn: true"}},
		{name: "OneAtATime", p: oneAtATime, simulated: []string{ // H6: production shows the first only
			"[0 1 2]", "[0 2 1]", "[1 0 2]", "[1 2 0]", "[2 0 1]", "[2 1 0]",
		}},
		{name: "UnreadOutput", p: unreadOutput, simulated: []string{"all are read"}, beside: map[string]string{"it stops": "H7"}, always: true, hangs: true},
		{name: "SendThenGet", p: sendThenGet, simulated: []string{"false", "true"}},
		{name: "OrderWithinAStep", p: orderWithinAStep, simulated: []string{"[10 1 20 2]", "[10 20 1 2]"}},
	}
}

// awaitThenLatest waits for an entry and then counts the entries: at least that one.
func awaitThenLatest(w world) string {
	in, es := keyedsingleton.Input[int, int](dataflow.At[Server](w.flow), "in")
	answers := keyedsingleton.Output(es, "answers")
	for n := range 3 {
		keyedsingleton.Output(keyedsingleton.Map(es, func(x int) int { return x + n }), fmt.Sprint("other ", n))
	}
	count := singleton.Output(keyedsingleton.KeyCount(es), "count")
	w.start()
	got := make([]int, 2)
	w.clients(2, func(i int) { w.check(in.Put(w.ctx, i, i)) }, func(i int) {
		_, err := answers.Await(w.ctx, i)
		w.check(err)
		got[i], _ = count.Latest()
	})
	slices.Sort(got)
	return words(got)
}

// ownWrites puts an entry, sees it at one output and looks for it at two others.
func ownWrites(w world) string {
	in, es := keyedsingleton.Input[int, int](dataflow.At[Server](w.flow), "in")
	first, second := keyedsingleton.Output(es, "first"), keyedsingleton.Output(es, "second")
	view := singleton.Output(keyedsingleton.IntoSingleton(es), "view")
	w.start()
	got := make([]string, 3)
	w.clients(3, func(i int) { w.check(in.Put(w.ctx, i, i)) }, func(i int) {
		_, err := first.Await(w.ctx, i)
		w.check(err)
		_, ok := second.Get(i)
		all, _ := view.Latest()
		_, seen := all.Get(i)
		got[i] = fmt.Sprintf("%d: %v %v", i, ok, seen)
	})
	return strings.Join(got, ", ")
}

// nextThenLatest reads elements and looks at their count after each: at least the number read.
func nextThenLatest(w world) string {
	in, s := dataflow.Input[int](dataflow.At[Server](w.flow), "in")
	out, count := dataflow.Output(s, "out"), singleton.Output(dataflow.Count(s), "count")
	w.start()
	var got []string
	w.clients(1, func(int) { w.check(in.Send(w.ctx, 10)); w.check(in.Send(w.ctx, 20)) }, func(int) {
		for range 2 {
			x, err := out.Next(w.ctx)
			w.check(err)
			n, _ := count.Latest()
			got = append(got, fmt.Sprintf("%d:%d", x, n))
		}
	})
	return strings.Join(got, " ")
}

// after returns the given text for each entry of s, d later.
func after(s entries[int, int], d time.Duration, text string) dataflow.Stream[string, Server, unbounded, dataflow.NoOrder, once] {
	return dataflow.Map(keyedsingleton.Keys(keyedsingleton.After(s, d, tried)), func(int) string { return text })
}

// stalledTimers lets two timers come due while their location is busy. The timer due later was
// built first.
func stalledTimers(w world) string {
	at := dataflow.At[Server](w.flow)
	in, es := keyedsingleton.Input[int, int](at, "in")
	stall, stalls := dataflow.Input[int](at, "stall")
	late := after(es, 20*time.Millisecond, "20ms")
	early := after(es, 10*time.Millisecond, "10ms")
	dataflow.ForEach(stalls, func(int) { w.sleep(40 * time.Millisecond) })
	out := dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(late, early), tried), "out")
	w.start()
	w.check(in.Put(w.ctx, 0, 0))
	w.check(stall.Send(w.ctx, 0))
	return words(next(w, out, 2))
}

// closeTimers lets two timers come due one right after the other, with no other work.
func closeTimers(w world) string {
	in, es := keyedsingleton.Input[int, int](dataflow.At[Server](w.flow), "in")
	late := after(es, 2*time.Millisecond+time.Nanosecond, "late")
	early := after(es, 2*time.Millisecond, "early")
	out := dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(late, early), tried), "out")
	w.start()
	w.check(in.Put(w.ctx, 0, 0))
	return words(next(w, out, 2))
}

// next reads n elements.
func next[T any](w world, out *dataflow.OutputPort[T], n int) (got []T) {
	for range n {
		x, err := out.Next(w.ctx)
		w.check(err)
		got = append(got, x)
	}
	return got
}

// staleCount reads the count of one location after another location has answered, while the first is busy.
func staleCount(w world) string {
	at, other := dataflow.At[Server](w.flow), dataflow.At[Client](w.flow)
	busy, writes := dataflow.Input[int](at, "busy")
	dataflow.Inspect(writes, func(int) { w.sleep(50 * time.Millisecond) })
	in, s := dataflow.Input[int](at, "in")
	ping, pings := dataflow.Input[int](other, "ping")
	count := singleton.Output(dataflow.Count(s), "count")
	lists := emit(list(slice.Batch(slice.At(at), s, tried)))
	pong := dataflow.Output(pings, "pong")
	w.start()
	var got string
	w.clients(2, func(i int) {
		if i == 0 {
			w.check(busy.Send(w.ctx, 0))
		}
	}, func(i int) {
		if i == 1 {
			w.sleep(time.Millisecond)
			w.check(in.Send(w.ctx, 1))
			w.check(ping.Send(w.ctx, 1))
			next(w, pong, 1)
			n, _ := count.Latest()
			w.check(in.Send(w.ctx, 2))
			var all [][]int
			for seen := 0; seen < 2; seen += len(all[len(all)-1]) {
				all = append(all, next(w, lists, 1)[0])
			}
			got = words(n, all)
		}
	})
	return got
}

// longBeforeShort sets a long timer and then a short one, so late that it comes due after the long one.
func longBeforeShort(w world) string {
	in, es := keyedsingleton.Input[string, time.Duration](dataflow.At[Server](w.flow), "in")
	due := keyedsingleton.AfterEach(es, func(d time.Duration) time.Duration { return d }, tried)
	rung := dataflow.Map(keyedsingleton.Keys(due), func(k string) string { return k + "!" })
	out := dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(keyedsingleton.Keys(es), rung), tried), "out")
	w.start()
	w.check(in.Put(w.ctx, "long", 2*time.Second))
	w.sleep(1500 * time.Millisecond)
	w.check(in.Put(w.ctx, "short", time.Second))
	return words(next(w, out, 4))
}

// orderOfCalls deposits and withdraws with concurrent calls.
func orderOfCalls(w world) string {
	in, s := dataflow.Input[int](dataflow.At[Server](w.flow), "in")
	var balance atomic.Int64
	asked := keyedstream.First(dataflow.KeyBy(s, func(x int) bool { return x > 0 }))
	done := keyedsingleton.Output(keyedsingleton.MapAsync(asked, func(_ context.Context, x int) bool {
		if x > 0 {
			w.sleep(time.Second)
		}
		if balance.Load()+int64(x) < 0 {
			return false
		}
		balance.Add(int64(x))
		return true
	}, keyedsingleton.AsyncOptions{Concurrency: 2}), "done")
	w.start()
	w.check(in.Send(w.ctx, 10))
	w.check(in.Send(w.ctx, -10))
	ok, err := done.Await(w.ctx, false)
	w.check(err)
	return fmt.Sprint("withdrawn: ", ok)
}

// oneAtATime makes three calls, one at a time.
func oneAtATime(w world) string {
	in, s := dataflow.Input[int](dataflow.At[Server](w.flow), "in")
	asked := keyedstream.First(dataflow.KeyBy(s, func(x int) int { return x }))
	done := keyedsingleton.MapAsync(asked, func(_ context.Context, x int) int { return x }, keyedsingleton.AsyncOptions{Concurrency: 1})
	out := dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(done), tried), "out")
	w.start()
	for x := range 3 {
		w.check(in.Send(w.ctx, x))
	}
	return words(next(w, out, 3))
}

// unreadOutput has an output that nobody reads, beside one that is read.
func unreadOutput(w world) string {
	in, s := dataflow.Input[int](dataflow.At[Server](w.flow), "in")
	out := dataflow.Output(s, "out")
	dataflow.Output(s, "unread")
	w.start()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	for range 100 {
		if _, err := in.SendBatch(ctx, make([]int, 100)); err != nil {
			return "it stops"
		}
		for range 100 {
			if _, err := out.Next(ctx); err != nil {
				return "it stops"
			}
		}
	}
	return "all are read"
}

// sendThenGet puts an entry and looks for it without waiting.
func sendThenGet(w world) string {
	in, es := keyedsingleton.Input[int, int](dataflow.At[Server](w.flow), "in")
	out := keyedsingleton.Output(es, "out")
	w.start()
	w.check(in.Put(w.ctx, 1, 1))
	_, ok := out.Get(1)
	return fmt.Sprint(ok)
}

// orderWithinAStep merges a stream with a stream derived from it.
func orderWithinAStep(w world) string {
	in, s := dataflow.Input[int](dataflow.At[Server](w.flow), "in")
	tens := dataflow.Map(s, func(x int) int { return 10 * x })
	out := dataflow.Output(dataflow.MergeOrdered(s, tens, tried), "out")
	w.start()
	_, err := in.SendBatch(w.ctx, []int{1, 2})
	w.check(err)
	return words(next(w, out, 4))
}
