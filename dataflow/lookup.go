package dataflow

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A StateEntry is the state that an operator of a running flow holds for a key.
type StateEntry struct {
	Operator int    // index in [Graph].Operators
	State    int    // index in [GraphOperator].States
	Key      string // as text, truncated to 4 KiB
	Value    string // likewise; empty if the state holds only keys or timers

	Due time.Time // when the entry's timer fires; zero if it has none
}

// A StatePage is a page of the state entries of an operator.
type StatePage struct {
	Entries []StateEntry
	Next    uint32 // where the next page begins
	More    bool   // whether there is a next page
}

// ErrNoState says that no state has keys of the given type, that the graph has no such operator, or
// that the operator has no such state with keys.
var ErrNoState = lookup.ErrNoState

// Lookup returns the state that each operator holds for a key. The key must have one of the types
// in [GraphState].Key.
//
// Lookup does not stop a location. It reads between two steps, and the location stands still for
// about a microsecond for each operator. If a step goes on until ctx ends, Lookup returns an error
// that says so. If one operator has more than 16,384 timers without an entry in a table, Lookup
// finds none of them. A function that is given to an operator must not call Lookup, since it would
// wait for its own step. The texts are made without calling methods of the program. A key or value
// may contain confidential data.
func (a *App) Lookup(ctx context.Context, key any) ([]StateEntry, error) {
	g := a.graph()
	if err := lookup.Check(g, key); err != nil {
		return nil, err
	}
	var all []StateEntry
	for _, s := range g.Locations {
		if !s.Between(ctx, func() {
			for _, f := range lookup.Find(s, key) {
				all = append(all, StateEntry(f))
			}
		}) {
			return nil, inStep(ctx, s)
		}
	}
	return all, nil
}

// Entries returns a page of the state entries of an operator: at most most entries of one of its
// states, beginning at number from, which is 0 for the first page. An entry that stays while others
// come and go is on one page only, except for those of a singleton of a whole map. Otherwise
// Entries is like [App.Lookup], and the location stands still for about a microsecond for each
// entry.
func (a *App) Entries(ctx context.Context, operator, state int, from uint32, most int) (StatePage, error) {
	g := a.graph()
	at, op, err := lookup.Has(g, operator, state)
	if err != nil {
		return StatePage{}, err
	}
	var p StatePage
	s := g.Locations[at]
	if !s.Between(ctx, func() {
		var found []lookup.Found
		found, p.Next, p.More = lookup.Page(s, op, state, from, most)
		for _, f := range found {
			p.Entries = append(p.Entries, StateEntry(f))
		}
	}) {
		return StatePage{}, inStep(ctx, s)
	}
	return p, nil
}

func inStep(ctx context.Context, s *engine.Location) error {
	return fmt.Errorf("dataflow: location %s has been in one step until now: %w", s.Name, context.Cause(ctx))
}
