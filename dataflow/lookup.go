package dataflow

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A StateEntry is what an operator of a running flow remembers of a key.
type StateEntry struct {
	Operator int    // index in [Graph].Operators
	State    int    // index in [GraphOperator].States
	Key      string // as text, cut after 4 KiB
	Value    string // likewise; empty where there are only keys, or timers

	Due time.Time // when the timer of the entry fires; zero if it has none
}

// A StatePage is a part of the entries of an operator.
type StatePage struct {
	Entries []StateEntry
	Next    uint32 // where the next page begins
	More    bool   // whether there is one
}

// ErrNoState says that nothing is remembered under keys of the type, that the graph has no such operator, or
// that the operator has no such state with keys.
var ErrNoState = lookup.ErrNoState

// Lookup returns what each operator remembers of a key: where a flow is with it. The key has one of the types in
// [GraphState].Key.
//
// Lookup does not stop a location: it is looked at between two steps, and stands still for a
// microsecond or so for each operator. If a step goes on until ctx ends, the error says so. Of more than 16,384 timers that are
// set by one operator and have no entry in a table, none is found. A function that is given to an operator must
// not call it, since it would wait for its own step. The texts are made without methods of the program; a
// key or value may hold what not everybody may see.
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

// Entries returns a page of what an operator remembers by key: so many entries of one of its states
// at most, from number from on, 0 for the first page. An entry that stays while others come and go is on one page only,
// but for those of a singleton of a whole map. It is as [App.Lookup] in everything else, and the
// location stands still for about a microsecond for each entry.
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
