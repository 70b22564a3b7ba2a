package dataflow

import (
	"context"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A Remembering is a flow whose states can be visited: an [App] or a durable.App. Its methods are for [EachState] and
// [StatesOf], which have types.
type Remembering interface {
	VisitStates(ctx context.Context, key, state reflect.Type, from StatePlace, most int, do func(key, state any)) (next StatePlace, more bool, err error)
	VisitStatesOf(ctx context.Context, n int, key func(i int) any, keyType, state reflect.Type, do func(i int, state any)) error
}

// A StatePlace is where a page of states begins. The zero value is where the first one does.
type StatePlace struct {
	Partition int    // of a durable flow, number over all locations; 0 in memory
	Entry     uint32 // number in the partition
}

// EachState calls do with keys of a flow that runs and with what the one operator remembers of each that has keys of type K and
// values of type S: the state of a machine, the accumulator of a fold. A page has so many entries at most; next is where the next
// one begins, if there are more. Pages are in no order that a program may rely on; an entry that stays while others come and go
// is on one page only.
//
// Only code that can name the type of a state can read it so: the package whose function makes it. [App.Entries] gives text of all.
//
// Do is called between two steps of the location, which stands still meanwhile. It must be short, and neither change nor keep what
// it is given, nor use the flow; it copies what it wants. Of a durable flow only partitions that this process owns are visited.
// The error is [ErrNoState] if there is no such operator or more than one, and says if a step went on until ctx ended.
func EachState[K comparable, S any](ctx context.Context, app Remembering, from StatePlace, most int, do func(key K, state *S)) (next StatePlace, more bool, err error) {
	engine.Given("dataflow.EachState", do)
	return app.VisitStates(ctx, reflect.TypeFor[K](), reflect.TypeFor[S](), from, most, func(key, state any) { do(key.(K), state.(*S)) })
}

// StateOf calls do with what operators that have keys of type K and values of type S remember of a key, and reports whether one
// does. If several operators do, do is called for each. It is as [EachState] in everything else.
func StateOf[K comparable, S any](ctx context.Context, app Remembering, key K, do func(state *S)) (found bool, err error) {
	engine.Given("dataflow.StateOf", do)
	err = StatesOf(ctx, app, []K{key}, func(_ int, state *S) {
		found = true
		do(state)
	})
	return found && err == nil, err
}

// StatesOf is [StateOf] for several keys, by index: each location, or partition of a durable flow, is looked at once, and stands
// still for about a microsecond for each key. Do is not called for a key of which nothing is remembered.
func StatesOf[K comparable, S any](ctx context.Context, app Remembering, keys []K, do func(i int, state *S)) error {
	engine.Given("dataflow.StatesOf", do)
	return app.VisitStatesOf(ctx, len(keys), func(i int) any { return keys[i] }, reflect.TypeFor[K](), reflect.TypeFor[S](), func(i int, state any) { do(i, state.(*S)) })
}

// VisitStates is [EachState] for types that are known when the program runs.
func (a *App) VisitStates(ctx context.Context, key, state reflect.Type, from StatePlace, most int, do func(key, state any)) (next StatePlace, more bool, err error) {
	g := a.graph()
	m, err := lookup.MachineOf(g, key, state)
	if err != nil {
		return next, false, err
	}
	s := g.Locations[m.Location]
	if !s.Between(ctx, func() { next.Entry, more = m.Page(s, from.Entry, most, do) }) {
		return next, false, inStep(ctx, s)
	}
	return next, more, nil
}

// VisitStatesOf is [StatesOf] for types that are known when the program runs.
func (a *App) VisitStatesOf(ctx context.Context, n int, key func(i int) any, keyType, state reflect.Type, do func(i int, state any)) error {
	g := a.graph()
	all, err := lookup.MachinesOf(g, keyType, state)
	for _, m := range all {
		s := g.Locations[m.Location]
		if !s.Between(ctx, func() { m.FindAll(s, n, key, do) }) {
			return inStep(ctx, s)
		}
	}
	return err
}
