package model

import (
	"context"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A builder builds a program as a flow, and records what happens to it.
type builder struct {
	p     *Program
	ctx   context.Context
	flow  *dataflow.Flow
	at    here
	ticks []inside

	// State for the operator being built, besides its collection.
	name      string
	passive   bool
	took      func(k, v int)
	showed    func(all map[int]int)
	node      int
	ask       func(node, k, answer int) // called for each call of a MapAsync, if not nil
	send      func(k, v int) error
	sendBatch func(ks, vs []int) []error // for an input that accepts batches: returns the result for each record
	close     func()
	keeps     func(any)

	sends    map[int]func(k, v int) error
	batches  map[int]func(ks, vs []int) []error
	closes   []func()
	built    []any
	clock    bool                        // time passes when nothing else happens
	trace    func(node int, what ...int) // called for everything that is seen, if not nil
	events   []event
	observed []*observation
}

// An observation is what was seen of a node.
type observation struct {
	node int
	runs map[int]*Content     // inside a slice: by the event of the run
	all  Content              // outside, for a collection that only grows
	now  func() Content       // outside, for a collection that is revised
	kept func(Content) string // outside, for a collection with forgetting: how an output differs

	repeatedKeys []int // keys that came again although their value must not change
}

// build builds p at a location, and observes the nodes that are watched.
func build(ctx context.Context, p *Program, flow *dataflow.Flow, watched func(i int) bool) *builder {
	return buildAsking(ctx, p, flow, watched, nil)
}

// buildAsking is build with ask, which is called for each call.
func buildAsking(ctx context.Context, p *Program, flow *dataflow.Flow, watched func(i int) bool, ask func(node, k, answer int)) *builder {
	at := dataflow.At[here](flow)
	b := &builder{p: p, ctx: ctx, flow: flow, at: at, ask: ask, sends: make(map[int]func(k, v int) error), batches: make(map[int]func(ks, vs []int) []error)}
	for s := range p.ranks {
		tick := slice.At(at)
		b.ticks = append(b.ticks, tick)
		// The state that a run starts with is set before anything else happens in the run.
		begin, _ := slice.State(tick, 0)
		singleton.Map(begin, func(int) int { b.events = append(b.events, event{slice: s}); return 0 })
	}
	keeps := make(map[int]func(any))
	for i := range p.nodes {
		x := &p.nodes[i]
		b.node, b.name, b.passive = i, fmt.Sprint("n", i), x.passive
		b.showed = func(all map[int]int) {
			b.events = append(b.events, event{node: i, all: all, slice: -1})
		}
		b.took = func(k, v int) { b.events = append(b.events, event{node: i, key: k, value: v, slice: -1}) }
		b.send, b.sendBatch, b.close, b.keeps = nil, nil, nil, nil
		in := make([]any, len(x.args))
		for a, arg := range x.args {
			in[a] = b.built[arg]
		}
		b.built = append(b.built, x.op.build(b, x, in))
		if b.send != nil {
			b.sends[i], b.closes = b.send, append(b.closes, b.close)
		}
		if b.sendBatch != nil {
			b.batches[i] = b.sendBatch
		}
		if b.keeps != nil && (x.keep >= 0 || x.op.edge == looped) {
			keeps[i] = b.keeps
		}
		if watched(i) {
			b.watch(i)
		}
	}
	for i := range p.nodes {
		keep, x := keeps[i], &p.nodes[i]
		switch {
		case keep == nil:
		case x.keep >= 0:
			keep(b.built[x.keep])
		default: // a cycle needs an input
			keep(b.built[x.args[0]])
		}
	}
	return b
}

// watch observes node i.
func (b *builder) watch(i int) {
	w := &observation{node: i, runs: make(map[int]*Content)}
	b.observed = append(b.observed, w)
	name := fmt.Sprint("n", i, " watched")
	one := func(x int) { c := b.of(w, x); c.List = append(c.List, x) }
	many := func(k, v int) { c := b.of(w, k, v); c.Keyed[k] = append(c.Keyed[k], v) }
	entry := func(k, v int) {
		c := b.of(w, k, v)
		if _, again := c.Entries[k]; again {
			w.repeatedKeys = append(w.repeatedKeys, k)
		}
		c.Entries[k] = v
	}
	only := func(x int) int { c := b.of(w, x); c.Value, c.OK = x, true; return x }
	if s, forgets := b.built[i].(entriesOf[here, bounds.RetainedValue]); forgets {
		w.kept = keptIn(keyedsingleton.Output(s, name+" kept"))
	}
	if w.now = latestOf(b.built[i], name); w.now != nil {
		return
	}
	switch s := b.built[i].(type) {
	case stream:
		dataflow.Inspect(s, one)
	case streamOf[here, bounds.Unbounded, loose]:
		dataflow.Inspect(s, one)
	case streams:
		keyedstream.InspectWithKey(s, many)
	case keyedOf[here, bounds.Unbounded, loose]:
		keyedstream.InspectWithKey(s, many)
	case fixed:
		out := keyedsingleton.Output(s, name)
		keyedsingleton.InspectWithKey(s, entry)
		w.now = func() Content {
			c := Content{Entries: make(map[int]int)}
			for k := range w.all.Entries { // the output also has to show which keys exist
				if v, ok := out.Get(k); ok {
					c.Entries[k] = v
				}
			}
			if out.Len() != len(c.Entries) {
				panic("an output has entries that nobody gave it")
			}
			return c
		}

	case piece:
		dataflow.Inspect(s, one)
	case streamOf[inside, bounds.Bounded, loose]:
		dataflow.Inspect(s, one)
	case pieces:
		keyedstream.InspectWithKey(s, many)
	case keyedOf[inside, bounds.Bounded, loose]:
		keyedstream.InspectWithKey(s, many)
	case content:
		keyedsingleton.InspectWithKey(s, entry)
	case value:
		singleton.Map(s, only)
	case maybeOf[inside, bounds.Bounded]:
		optional.Map(s, only)
	default:
		panic(fmt.Sprintf("model: there is no way to look at a %v", reflect.TypeOf(s)))
	}
}

// latestOf adds an output for a collection outside slices that has a latest value. It
// returns a function that reads the output: a view of the entries, or the value. It returns
// nil for other collections.
func latestOf(collection any, name string) func() Content {
	ofView := func(latest func() ([]dataflow.Entry[int, int], bool)) func() Content {
		return func() Content {
			all, _ := latest()
			c := Content{Entries: make(map[int]int, len(all))}
			for _, e := range all {
				c.Entries[e.Key] = e.Value
			}
			return c
		}
	}
	ofMaybe := func(latest func() (int, bool)) func() Content {
		return func() Content { v, ok := latest(); return Content{Value: v, OK: ok} }
	}
	switch s := collection.(type) {
	case entriesOf[here, bounds.RetainedValue]:
		return ofView(singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(s), listOf), name).Latest)
	case entriesOf[here, bounds.MonotonicValue]:
		return ofView(singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(s), listOf), name).Latest)
	case entriesOf[here, bounds.MonotonicKeys]:
		return ofView(singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(s), listOf), name).Latest)
	case entriesOf[here, bounds.Unbounded]:
		return ofView(singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(s), listOf), name).Latest)
	case valueOf[here, bounds.MonotonicValue]:
		return ofMaybe(singleton.Output(s, name).Latest)
	case valueOf[here, bounds.Unbounded]:
		return ofMaybe(singleton.Output(s, name).Latest)
	case maybeOf[here, bounds.MonotonicValue]:
		return ofMaybe(optional.Output(s, name).Latest)
	case maybeOf[here, bounds.Unbounded]:
		return ofMaybe(optional.Output(s, name).Latest)
	}
	return nil
}

// keptIn returns a function that compares an output of entries, some of which are forgotten,
// with the current ones.
func keptIn(out *dataflow.EntryOutputPort[int, int]) func(Content) string {
	return func(c Content) string {
		for k, v := range c.Entries {
			if x, there := out.Get(k); !there || x != v {
				return fmt.Sprintf("%d, %t of %d", x, there, k)
			}
		}
		if n := out.Len(); n != len(c.Entries) {
			return fmt.Sprint(n, " entries")
		}
		return ""
	}
}

// of returns the content in which to record what is seen of a node now.
func (b *builder) of(w *observation, what ...int) *Content {
	if b.trace != nil {
		b.trace(w.node, what...)
	}
	if b.p.lives(w.node) < 0 {
		w.all.prepare()
		return &w.all
	}
	run := len(b.events) - 1
	for b.events[run].slice != b.p.nodes[w.node].slice { // what it emits may be taken in the meantime
		run--
	}
	if w.runs[run] == nil {
		w.runs[run] = new(Content)
		w.runs[run].prepare()
	}
	return w.runs[run]
}

func (c *Content) prepare() {
	if c.Keyed == nil {
		c.Keyed, c.Entries = make(map[int][]int), make(map[int]int)
	}
}

// listOf returns the entries of a view as a list, for an output whose history is kept.
func listOf(v dataflow.View[int, int]) (all []dataflow.Entry[int, int]) {
	for k, x := range v.All() {
		all = append(all, dataflow.Entry[int, int]{Key: k, Value: x})
	}
	return all
}
