package dataflow

import (
	"context"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A Remembering is a flow whose states can be visited: an [App] or a durable.App. Its methods are the
// untyped forms of [EachState] and [StatesOf].
type Remembering interface {
	VisitStates(ctx context.Context, key, state reflect.Type, from StatePlace, most int, do func(key, state any)) (next StatePlace, more bool, err error)
	VisitStatesOf(ctx context.Context, n int, key func(i int) any, keyType, state reflect.Type, do func(i int, state any)) error
}

// A StatePlace is the position at which a page of states begins. The zero value is the beginning of the
// first page.
type StatePlace struct {
	Partition int    // number in a durable flow, across all locations; 0 in memory
	Entry     uint32 // number in the partition
}

// EachState calls do with keys of a running flow and the state that one operator holds for each: the
// state of a machine, or the accumulator of a fold. It visits the only operator that has keys of type K
// and states of type S. A page has at most most entries; next is where the next page begins, if there
// are more. The order of pages is not specified. An entry that stays while others come and go is on one
// page only.
//
// Only code that can name the type of a state can read it: the package whose function makes it.
// [App.Entries] returns the text of all states.
//
// Do is called between two steps of the location, which stands still meanwhile. It must be short. It
// must not change or keep its arguments, nor use the flow; it copies what it needs. In a durable flow
// only partitions that this process owns are visited. The error is [ErrNoState] if there is no such
// operator or more than one. If a step went on until ctx ended, the error says so.
func EachState[K comparable, S any](ctx context.Context, app Remembering, from StatePlace, most int, do func(key K, state *S)) (next StatePlace, more bool, err error) {
	engine.Given("dataflow.EachState", do)
	return app.VisitStates(ctx, reflect.TypeFor[K](), reflect.TypeFor[S](), from, most, func(key, state any) { do(key.(K), state.(*S)) })
}

// StateOf calls do with the state that operators with keys of type K and states of type S hold for a
// key, and reports whether one does. If several operators do, do is called for each. Otherwise it is
// like [EachState].
func StateOf[K comparable, S any](ctx context.Context, app Remembering, key K, do func(state *S)) (found bool, err error) {
	engine.Given("dataflow.StateOf", do)
	err = StatesOf(ctx, app, []K{key}, func(_ int, state *S) {
		found = true
		do(state)
	})
	return found && err == nil, err
}

// StatesOf is [StateOf] for several keys, by index. It visits each location, or partition of a durable
// flow, once, and that stands still for about a microsecond for each key. Do is not called for a key
// without state.
func StatesOf[K comparable, S any](ctx context.Context, app Remembering, keys []K, do func(i int, state *S)) error {
	engine.Given("dataflow.StatesOf", do)
	return app.VisitStatesOf(ctx, len(keys), func(i int) any { return keys[i] }, reflect.TypeFor[K](), reflect.TypeFor[S](), func(i int, state any) { do(i, state.(*S)) })
}

// VisitStates is [EachState] for types that are known only at run time.
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

// VisitStatesOf is [StatesOf] for types that are known only at run time.
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
