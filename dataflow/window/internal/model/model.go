// Package model is a reference implementation of package window, over slices and without an
// engine. It is slow and simple. Tests compare the operators with it.
package model

import (
	"cmp"
	"slices"
)

// An Event is an element with its time.
type Event struct {
	Key string
	At  int64
	N   int // identifies the event
}

// Future is the mark of a source that has ended.
const Future = int64(1<<62 - 1)

// A Cut is a batch of one source: events that were not late, and the mark behind them.
type Cut struct {
	Events []Event
	Mark   int64
}

// Stamp cuts the elements of a source into batches whose sizes next returns. The mark is
// the confirm-th largest time so far, less slack. The events of all cuts together depend
// only on the order of the elements.
func Stamp(source []Event, slack int64, confirm int, next func(n int) int) (cuts []Cut, late []Event) {
	var newest []int64 // the confirm largest times, the smallest first
	mark := -Future
	for len(source) > 0 {
		var c Cut
		n := next(len(source))
		for _, e := range source[:n] {
			if e.At < mark {
				late = append(late, e)
				continue
			}
			newest = append(newest, e.At)
			slices.Sort(newest)
			if len(newest) > confirm {
				newest = newest[1:]
			}
			if len(newest) == confirm {
				mark = newest[0] - slack
			}
			c.Events = append(c.Events, e)
		}
		source = source[n:]
		c.Mark = mark
		cuts = append(cuts, c)
	}
	return append(cuts, Cut{Mark: Future}), late // the end of the source
}

// Merge interleaves the cuts of sources as choose says. The mark is the smallest of theirs.
func Merge(sources [][]Cut, choose func(n int) int) []Cut {
	marks := make([]int64, len(sources))
	for i := range marks {
		marks[i] = -Future
	}
	var out []Cut
	for {
		var open []int
		for i, s := range sources {
			if len(s) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return out
		}
		i := open[choose(len(open))]
		c := sources[i][0]
		sources[i] = sources[i][1:]
		marks[i] = c.Mark
		out = append(out, Cut{c.Events, slices.Min(marks)})
	}
}

// A Span is a key in a span of time.
type Span struct {
	Key      string
	From, To int64
}

func floor(t, size int64) int64 { return t - ((t%size)+size)%size }

// Fold collects the events of each key in each span. It panics if a span that was closed
// is opened again.
func Fold(cuts []Cut, size, step int64) map[Span][]Event {
	open, closed := map[Span][]Event{}, map[Span][]Event{}
	for _, c := range cuts {
		for _, e := range c.Events {
			for from := floor(e.At, step); from > e.At-size; from -= step {
				s := Span{e.Key, from, from + size}
				if _, was := closed[s]; was {
					panic("closed twice")
				}
				open[s] = append(open[s], e)
			}
		}
		for s, es := range open {
			if s.To <= c.Mark {
				closed[s] = es
				delete(open, s)
			}
		}
	}
	return closed
}

// Sessions collects the events of each key that are less than gap apart from another one.
func Sessions(cuts []Cut, gap int64) map[Span][]Event {
	open, closed := map[Span][]Event{}, map[Span][]Event{}
	for _, c := range cuts {
		for _, e := range c.Events {
			s, es := Span{e.Key, e.At, e.At + gap}, []Event{e}
			for o, os := range open {
				if o.Key == s.Key && o.From < s.To && s.From < o.To {
					s = Span{s.Key, min(s.From, o.From), max(s.To, o.To)}
					es = append(es, os...)
					delete(open, o)
				}
			}
			open[s] = es
		}
		for s, es := range open {
			if s.To <= c.Mark {
				for o := range closed {
					if o.Key == s.Key && o.From < s.To && s.From < o.To {
						panic("sessions overlap")
					}
				}
				closed[s] = es
				delete(open, s)
			}
		}
	}
	return closed
}

// Sort returns the events in the order of their times, and at the same time in the order of
// N.
func Sort(cuts []Cut) (out []Event) {
	var wait []Event
	for _, c := range cuts {
		wait = append(wait, c.Events...)
		slices.SortStableFunc(wait, func(a, b Event) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.N, b.N)) })
		n, _ := slices.BinarySearchFunc(wait, c.Mark, func(e Event, m int64) int { return cmp.Compare(e.At, m) })
		out = append(out, wait[:n]...)
		wait = wait[n:]
	}
	return out
}

// A Pair is the numbers of two events that match.
type Pair struct{ A, B int }

// Join returns the pairs with B.At in [A.At-before, A.At+after], and the events of A without a
// pair. It panics if a result is late.
func Join(a, b []Cut, before, after int64, choose func(n int) int) (pairs []Pair, alone []int) {
	type left struct {
		Event
		paired bool
	}
	var as []left
	var bs []Event
	markA, markB := -Future, -Future
	emit := func(at int64) {
		if at < min(markA, markB) {
			panic("a result is late")
		}
	}
	for len(a) > 0 || len(b) > 0 {
		fromA := len(b) == 0 || len(a) > 0 && choose(2) == 0
		newA, newB := markA, markB
		if fromA {
			for _, e := range a[0].Events {
				l := left{e, false}
				for _, f := range bs {
					if f.Key == e.Key && f.At >= e.At-before && f.At <= e.At+after {
						l.paired = true
						pairs = append(pairs, Pair{e.N, f.N})
						emit(max(e.At, f.At))
					}
				}
				as = append(as, l)
			}
			newA, a = a[0].Mark, a[1:]
		} else {
			for _, f := range b[0].Events {
				for i, e := range as {
					if f.Key == e.Key && f.At >= e.At-before && f.At <= e.At+after {
						as[i].paired = true
						pairs = append(pairs, Pair{e.N, f.N})
						emit(max(e.At, f.At))
					}
				}
				bs = append(bs, f)
			}
			newB, b = b[0].Mark, b[1:]
		}
		// An event is dropped once the mark of the other side says that it has no further
		// match. An event without a pair is emitted before the mark of the result passes
		// it.
		as = slices.DeleteFunc(as, func(e left) bool {
			over := newB > e.At+after && (e.paired || min(newA, newB) > e.At+after)
			if over && !e.paired {
				alone = append(alone, e.N)
				emit(e.At + after)
			}
			return over
		})
		bs = slices.DeleteFunc(bs, func(f Event) bool { return newA > f.At+before })
		markA, markB = newA, newB
	}
	return pairs, alone
}
