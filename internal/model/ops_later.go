package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// The runtime chooses when, or in which order, the operators in this file emit. So the model
// takes what arrived as given, as it does for inputs, and checks that it was possible.

// there is another location, and worker is one with members.
type (
	there  struct{ dataflow.Process }
	worker struct{ dataflow.Process }
)

// A judgment says what is wrong with what has arrived at node i, or returns "". If all is true,
// nothing more will arrive.
type judgment func(e *evaluator, i int, all bool) string

func (o operator) judged(v judgment) operator { o.judgment = v; return o }

// concurrently marks an operator that works concurrently with others: in a live flow on other
// goroutines. It is only used where one goroutine does everything.
func (o operator) concurrently() operator { o.concurrent = true; return o }

func hours(n int) time.Duration { return time.Duration(n+1) * time.Hour }

// taken records what a stream emits.
func taken[O dataflow.Order](c call, s streamOf[here, bounds.Unbounded, O]) streamOf[here, bounds.Unbounded, O] {
	took := c.took
	return dataflow.Inspect(s, func(x int) { took(0, x) })
}

// takenKeyed records what a keyed stream emits.
func takenKeyed[O dataflow.Order](c call, s keyedOf[here, bounds.Unbounded, O]) keyedOf[here, bounds.Unbounded, O] {
	return keyedstream.InspectWithKey(s, c.took)
}

// lates returns the operators that emit in a later step.
func lates() []operator {
	return []operator{
		op1("keyedsingleton.After", func(c call, s fixed) fixed {
			return keyedsingleton.InspectWithKey(keyedsingleton.After(s, hours(c.n), why), c.took)
		}, none).at(timed),
		op1("keyedsingleton.AfterEach", func(c call, s fixed) fixed {
			each := func(v int) time.Duration { return hours(v % (c.n + 1)) }
			return keyedsingleton.InspectWithKey(keyedsingleton.AfterEach(s, each, why), c.took)
		}, none).at(timed),
		op0("dataflow.Interval", func(c call) stream {
			every := hours(c.n)
			return taken(c, dataflow.Map(dataflow.Interval(c.at, every, why), func(d time.Duration) int { return int(d / every) }))
		}, nil).at(timed).judged(func(e *evaluator, i int, _ bool) string {
			list := e.at(i, len(e.events)).List
			for j := range list {
				if list[j] < 1 || j > 0 && list[j] <= list[j-1] {
					return "multiples of the period, each larger than the one before"
				}
			}
			return ""
		}),
		op1("keyedsingleton.ForgetAfter", forget[bounds.MonotonicValue], none).at(timed).judged(forgotten).wholly(),
		op1("keyedsingleton.ForgetAfter", forget[bounds.MonotonicKeys], none).at(timed).judged(forgotten).wholly(),
		op1("keyedsingleton.ForgetAfter", forget[bounds.BoundedValue], none).at(timed).judged(forgotten).wholly(),
		op1("keyedsingleton.Changes", changes[bounds.RetainedValue], none).at(timed).judged(followed).wholly(),
		op1("keyedsingleton.Changes", changes[bounds.MonotonicValue], none).at(timed).judged(followed).wholly(),
		op1("keyedsingleton.Changes", changes[bounds.Unbounded], none).at(timed).judged(followed).wholly(),
		op1("slice.EmitRetained", func(c call, s entriesOf[here, bounds.RetainedValue]) entriesOf[here, bounds.RetainedValue] {
			out, showed := slice.EmitRetained(slice.BatchEntries(slice.At(c.at), s, why)), c.showed
			singleton.Map(keyedsingleton.IntoSingleton(out), func(v dataflow.View[int, int]) int {
				showed(maps.Collect(v.All()))
				return 0
			})
			return out
		}, none).at(timed).judged(func(e *evaluator, i int, all bool) string {
			now := len(e.events)
			got, source := e.at(i, now).Entries, e.at(e.p.nodes[i].args[0], now).Entries
			for k, v := range got {
				if w, there := source[k]; !there || v != w {
					return fmt.Sprint(k, ":", v, " or nothing")
				}
			}
			if all && len(got) != len(source) {
				return "all of it"
			}
			return ""
		}).wholly(),
		op1("dataflow.Cycle", func(c call, s stream) stream {
			loop, again := dataflow.Cycle[int, ordered](c.at, c.name)
			c.keeps = func(next any) { loop.Complete(dataflow.Limit(next.(stream), fedBack)) }
			return taken(c, again)
		}, none).at(looped).concurrently().judged(func(e *evaluator, i int, all bool) string {
			from := e.p.nodes[i].keep
			if from < 0 {
				from = e.p.nodes[i].args[0]
			}
			source := e.at(from, len(e.events)).List
			return prefixOf(e.at(i, len(e.events)).List, source[:min(fedBack, len(source))], all)
		}),

		op1("keyedsingleton.MapAsync", func(c call, s fixed) fixed {
			node, ask := c.node, c.ask
			asked := keyedsingleton.InspectWithKey(s, func(k, v int) {
				if ask != nil {
					ask(node, k, change(c.n, v))
				}
			})
			f := func(_ context.Context, v int) int { return change(c.n, v) }
			return keyedsingleton.InspectWithKey(keyedsingleton.MapAsync(asked, f, keyedsingleton.AsyncOptions{}), c.took)
		}, none).at(timed).concurrently().judged(func(e *evaluator, i int, all bool) string {
			x := &e.p.nodes[i]
			return entriesOfSource(e, i, eachEntry(func(n, _, v int) (int, bool) { return change(n, v), true })(x.n, e.at(x.args[0], len(e.events))), all)
		}),
		op1("keyedsingleton.MapAsyncWithKey", func(c call, s fixed) fixed {
			f := func(_ context.Context, k, v int) int { return change(k, v) }
			return keyedsingleton.InspectWithKey(keyedsingleton.MapAsyncWithKey(s, f, keyedsingleton.AsyncOptions{}), c.took)
		}, none).at(timed).concurrently().judged(func(e *evaluator, i int, all bool) string {
			x := &e.p.nodes[i]
			return entriesOfSource(e, i, eachEntry(func(_, k, v int) (int, bool) { return change(k, v), true })(x.n, e.at(x.args[0], len(e.events))), all)
		}),
		op1("keyedsingleton.TryAsync, values", func(c call, s fixed) fixed {
			values, _ := keyedsingleton.TryAsync(s, triedLater(c.n), keyedsingleton.AsyncOptions{}, atOnce)
			return keyedsingleton.InspectWithKey(values, c.took)
		}, none).at(timed).concurrently().judged(func(e *evaluator, i int, all bool) string {
			x := &e.p.nodes[i]
			return entriesOfSource(e, i, eachEntry(func(n, k, v int) (int, bool) { return change(k, v), keep(n, v) })(x.n, e.at(x.args[0], len(e.events))), all)
		}),
		op1("keyedsingleton.TryAsync, failures", func(c call, s fixed) fixed {
			_, failures := keyedsingleton.TryAsync(s, triedLater(c.n), keyedsingleton.AsyncOptions{}, atOnce)
			attempts := keyedsingleton.Map(failures, func(e keyedsingleton.CallError) int { return e.Attempts + len(e.Text) })
			return keyedsingleton.InspectWithKey(attempts, c.took)
		}, none).at(timed).concurrently().judged(func(e *evaluator, i int, all bool) string {
			x := &e.p.nodes[i]
			return entriesOfSource(e, i, eachEntry(func(n, _, v int) (int, bool) { return 2 + len(errRefused.Error()), !keep(n, v) })(x.n, e.at(x.args[0], len(e.events))), all)
		}),
		op1("dataflow.Send", func(c call, s stream) stream {
			return taken(c, dataflow.Send(dataflow.Send(s, c.other()), c.at))
		}, none).at(timed).concurrently().judged(sent),
		op1("dataflow.Send", func(c call, s streamOf[here, bounds.Unbounded, loose]) streamOf[here, bounds.Unbounded, loose] {
			return taken(c, dataflow.Send(dataflow.Send(s, c.other()), c.at))
		}, none).at(timed).concurrently().judged(sent),
		op1("keyedstream.Send", func(c call, s streams) streams {
			return takenKeyed(c, keyedstream.Send(keyedstream.Send(s, c.other()), c.at))
		}, none).at(timed).concurrently().judged(sentKeyed),
		op1("keyedsingleton.Send", func(c call, s fixed) fixed {
			return keyedsingleton.InspectWithKey(keyedsingleton.Send(keyedsingleton.Send(s, c.other()), c.at), c.took)
		}, none).at(timed).concurrently().judged(func(e *evaluator, i int, all bool) string {
			return entriesOfSource(e, i, e.at(e.p.nodes[i].args[0], len(e.events)), all)
		}),
		op1("keyedstream.Divide", func(c call, s streams) keyedOf[here, bounds.Unbounded, loose] {
			parts := keyedstream.Divide(s, dataflow.Members[worker](c.flow, 2))
			return takenKeyed(c, keyedstream.Merge(keyedstream.Send(parts[0], c.at), keyedstream.Send(parts[1], c.at)))
		}, none).at(timed).concurrently().judged(sentKeyed),
	}
}

// atOnce makes two attempts with a negligible pause.
var atOnce = keyedsingleton.Backoff{Attempts: 2, First: 1}

func triedLater(n int) func(context.Context, int, int) (int, error) {
	return func(_ context.Context, k, v int) (int, error) {
		if !keep(n, v) {
			return 0, errRefused
		}
		return change(k, v), nil
	}
}

// fedBack is the maximum number of elements that a cycle feeds back, so that each cycle ends.
const fedBack = 5

func (o operator) wholly() operator { o.shows = true; return o }

// arrangers returns the operators that arrange their input at once.
func arrangers() []operator {
	type bag = streamOf[here, bounds.Unbounded, loose]
	type bags = keyedOf[here, bounds.Unbounded, loose]
	return []operator{
		op1("dataflow.AssumeOrder", func(c call, s bag) stream { return taken(c, dataflow.AssumeOrder(s, why)) }, none).
			at(arranged).judged(func(e *evaluator, i int, _ bool) string {
			return bagOf(e.at(i, len(e.events)).List, e.at(e.p.nodes[i].args[0], len(e.events)).List, true)
		}),
		op2("dataflow.MergeOrdered", func(c call, s, t stream) stream { return taken(c, dataflow.MergeOrdered(s, t, why)) }, noneOfTwo).
			at(arranged).judged(func(e *evaluator, i int, _ bool) string {
			x, now := &e.p.nodes[i], len(e.events)
			return interleaved(e.at(i, now).List, e.at(x.args[0], now).List, e.at(x.args[1], now).List)
		}),
		op1("keyedstream.AssumeOrder", func(c call, s bags) streams { return takenKeyed(c, keyedstream.AssumeOrder(s, why)) }, none).
			at(arranged).judged(func(e *evaluator, i int, _ bool) string {
			return eachKey(e.at(i, len(e.events)), e.at(e.p.nodes[i].args[0], len(e.events)), func(got, source []int) string { return bagOf(got, source, true) })
		}),
		op2("keyedstream.MergeOrdered", func(c call, s, t streams) streams {
			return takenKeyed(c, keyedstream.MergeOrdered(s, t, why))
		}, noneOfTwo).at(arranged).judged(func(e *evaluator, i int, _ bool) string {
			x, now := &e.p.nodes[i], len(e.events)
			a, b := e.at(x.args[0], now), e.at(x.args[1], now)
			for k := range together(a, b).Keyed {
				if wrong := interleaved(e.at(i, now).Keyed[k], a.Keyed[k], b.Keyed[k]); wrong != "" {
					return fmt.Sprint(k, ": ", wrong)
				}
			}
			return ""
		}),
	}
}

func noneOfTwo(int, Content, Content) Content { return Content{} }

// other returns another location.
func (b *builder) other() there { return dataflow.At[there](b.flow) }

// forget is ForgetAfter, whose content is recorded whenever it changes.
func forget[B interface {
	bounds.Forgotten[Out]
	bounds.KeyedSingleton
}, Out interface {
	bounds.KeyedSingleton
	bounds.Keyed[bounds.Unbounded]
}](c call, s entriesOf[here, B]) entriesOf[here, Out] {
	showed := c.showed
	left := keyedsingleton.ForgetAfter(s, hours(c.n), why)
	singleton.Map(keyedsingleton.IntoSingleton(left), func(v dataflow.View[int, int]) int {
		showed(maps.Collect(v.All()))
		return 0
	})
	return left
}

// changes applies Changes to an empty content, which is recorded whenever it changes. Each
// change must follow from the previous one.
func changes[B bounds.Changing](c call, s entriesOf[here, B]) entriesOf[here, bounds.Unbounded] {
	latest := keyedstream.Reduce(keyedsingleton.Changes(s, why), func(acc *dataflow.Change[int], x dataflow.Change[int]) {
		if x.Old != acc.New {
			panic(fmt.Sprintf("a change is %v, after %v", x, *acc))
		}
		*acc = x
	})
	out, showed := keyedsingleton.FilterMap(latest, func(x dataflow.Change[int]) (int, bool) { return x.New.Value, x.New.OK }), c.showed
	singleton.Map(keyedsingleton.IntoSingleton(out), func(v dataflow.View[int, int]) int {
		showed(maps.Collect(v.All()))
		return 0
	})
	return out
}

// followed requires that, when everything is over, applying the changes has led to the current
// content.
func followed(e *evaluator, i int, all bool) string {
	now := len(e.events)
	got, source := e.at(i, now).Entries, e.at(e.p.nodes[i].args[0], now).Entries
	if all && !maps.Equal(got, source) {
		return fmt.Sprint(source)
	}
	return ""
}

// forgotten requires that every entry is gone that has not changed for longer than all
// remaining ones, and in the end every entry.
func forgotten(e *evaluator, i int, all bool) string {
	x, now := &e.p.nodes[i], len(e.events)
	got, source := e.at(i, now).Entries, e.at(x.args[0], now).Entries
	oldest, newest := now, -1 // the oldest change of what is left, and the newest of what is gone
	for k, v := range source {
		w, left := got[k]
		if left && v != w {
			return fmt.Sprint(k, ":", v, " or nothing")
		}
		at := now
		for ; at > 0; at-- {
			if u, ok := e.at(x.args[0], at-1).Entries[k]; !ok || u != v {
				break
			}
		}
		if left {
			oldest = min(oldest, at)
		} else {
			newest = max(newest, at)
		}
	}
	for k := range got {
		if _, ok := source[k]; !ok {
			return fmt.Sprint("no ", k)
		}
	}
	switch {
	case newest > oldest:
		return "what changed before is gone first"
	case all && len(got) > 0:
		return "nothing"
	}
	return ""
}

func sent(e *evaluator, i int, all bool) string {
	x, now := &e.p.nodes[i], len(e.events)
	got, source := e.at(i, now).List, e.at(x.args[0], now).List
	if kinds[x.op.out].ordered {
		return prefixOf(got, source, all)
	}
	return bagOf(got, source, all)
}

func sentKeyed(e *evaluator, i int, all bool) string {
	x, now := &e.p.nodes[i], len(e.events)
	return eachKey(e.at(i, now), e.at(x.args[0], now), func(got, source []int) string { return prefixOf(got, source, all) })
}

// eachKey compares the values of each key with those of its source.
func eachKey(got, source Content, compare func(got, source []int) string) string {
	for k := range together(got, source).Keyed {
		if wrong := compare(got.Keyed[k], source.Keyed[k]); wrong != "" {
			return fmt.Sprint(k, ": ", wrong)
		}
	}
	return ""
}

func prefixOf(got, source []int, all bool) string {
	if len(got) > len(source) || !slices.Equal(got, source[:len(got)]) || all && len(got) < len(source) {
		return fmt.Sprint("a prefix of ", source, ", all of it: ", all)
	}
	return ""
}

func bagOf(got, source []int, all bool) string {
	left := slices.Clone(source)
	for _, x := range got {
		j := slices.Index(left, x)
		if j < 0 {
			return fmt.Sprint("some of ", source)
		}
		left = slices.Delete(left, j, j+1)
	}
	if all && len(left) > 0 {
		return fmt.Sprint("all of ", source)
	}
	return ""
}

// interleaved reports whether got is an interleaving of a and b that keeps the order of each.
func interleaved(got, a, b []int) string {
	if len(got) == len(a)+len(b) {
		can := map[int]bool{0: true} // possible numbers of elements of a so far
		for n, x := range got {
			next := make(map[int]bool)
			for i := range can {
				if i < len(a) && a[i] == x {
					next[i+1] = true
				}
				if j := n - i; j < len(b) && b[j] == x {
					next[i] = true
				}
			}
			can = next
		}
		if can[len(a)] {
			return ""
		}
	}
	return fmt.Sprint(a, " and ", b, ", each in its order")
}

func entriesOfSource(e *evaluator, i int, source Content, all bool) string {
	k := kinds[e.p.nodes[i].op.out]
	got := e.at(i, len(e.events))
	for key, v := range got.Entries {
		if w, ok := source.Entries[key]; !ok || v != w {
			return "some of " + k.text(source)
		}
	}
	if all && len(got.Entries) < len(source.Entries) {
		return "all of " + k.text(source)
	}
	return ""
}
