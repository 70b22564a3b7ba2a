package durable

import (
	"context"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A StateEntry is what an operator remembers of a key in a partition that this process owns.
type StateEntry struct {
	dataflow.StateEntry
	Partition int // number, over all locations
}

// Lookup returns what each operator remembers of a key in the partitions that this process owns, as
// [dataflow.App.Lookup] does. It does not find what other processes have. A partition that is being restored
// has nothing yet.
func (a *App[P]) Lookup(ctx context.Context, key any) ([]StateEntry, error) {
	return a.made().lookUp(ctx, key)
}

func (c *core) lookUp(ctx context.Context, key any) ([]StateEntry, error) {
	if err := lookup.Check(c.facade, key); err != nil {
		return nil, err
	}
	var all []StateEntry
	for p := range c.gateway.partitions {
		err := c.between(ctx, p, func(s *engine.Location) {
			for _, f := range lookup.Find(s, key) {
				all = append(all, StateEntry{dataflow.StateEntry(f), p})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Entries returns a page of what an operator remembers by key in a partition, as [dataflow.App.Entries] does.
// The page is empty if this process does not own the partition.
func (a *App[P]) Entries(ctx context.Context, partition, operator, state int, from uint32, most int) (dataflow.StatePage, error) {
	return a.made().entries(ctx, partition, operator, state, from, most)
}

func (c *core) entries(ctx context.Context, partition, operator, state int, from uint32, most int) (dataflow.StatePage, error) {
	at, op, err := lookup.Has(c.facade, operator, state)
	if err != nil {
		return dataflow.StatePage{}, err
	}
	if first, n := c.layout.all(at); partition < first || partition >= first+n {
		return dataflow.StatePage{}, fmt.Errorf("%w: operator %d is in the partitions from %d to %d", dataflow.ErrNoState, operator, first, first+n-1)
	}
	var page dataflow.StatePage
	err = c.between(ctx, partition, func(s *engine.Location) {
		var found []lookup.Found
		found, page.Next, page.More = lookup.Page(s, op, state, from, most)
		for _, f := range found {
			page.Entries = append(page.Entries, dataflow.StateEntry(f))
		}
	})
	return page, err
}

// between has the owner of a partition call look between two steps, if this process owns it. It returns an
// error if ctx ends before that.
func (c *core) between(ctx context.Context, partition int, look func(*engine.Location)) error {
	pg, looked := c.gateway.partitions[partition], false
	asked := pg.ask(func(s *engine.Location) {
		if looked = ctx.Err() == nil; looked {
			look(s)
		}
	})
	if asked == nil {
		return nil
	}
	select {
	case <-asked:
	case <-ctx.Done():
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if !looked && ctx.Err() != nil {
		location, _ := c.layout.place(partition)
		return fmt.Errorf("durable: partition %d of %s has been in one step until now: %w", partition, c.facade.Location(location), context.Cause(ctx))
	}
	return nil
}

// VisitStates is [dataflow.EachState] for types that are known only at run time.
func (a *App[P]) VisitStates(
	ctx context.Context, key, state reflect.Type, from dataflow.StatePlace, most int, do func(key, state any),
) (next dataflow.StatePlace, more bool, err error) {
	return a.made().visitStates(ctx, key, state, from, most, do)
}

func (c *core) visitStates(
	ctx context.Context, key, state reflect.Type, from dataflow.StatePlace, most int, do func(key, state any),
) (next dataflow.StatePlace, more bool, err error) {
	m, err := lookup.MachineOf(c.facade, key, state)
	if err != nil {
		return next, false, err
	}
	first, n := c.layout.all(m.Location)
	visited := 0
	for p := max(from.Partition, first); p < first+n; p++ {
		if visited == most {
			return dataflow.StatePlace{Partition: p}, true, nil
		}
		begin, number := uint32(0), uint32(0)
		if p == from.Partition {
			begin = from.Entry
		}
		err := c.between(ctx, p, func(s *engine.Location) {
			number, more = m.Page(s, begin, most-visited, func(key, state any) {
				visited++
				do(key, state)
			})
		})
		if err != nil {
			return next, false, err
		}
		if more {
			return dataflow.StatePlace{Partition: p, Entry: number}, true, nil
		}
	}
	return next, false, nil
}

// VisitStatesOf is [dataflow.StatesOf] for types that are known only at run time. It does not find keys that
// another process owns.
func (a *App[P]) VisitStatesOf(ctx context.Context, n int, key func(i int) any, keyType, state reflect.Type, do func(i int, state any)) error {
	return a.made().visitStatesOf(ctx, n, key, keyType, state, do)
}

func (c *core) visitStatesOf(ctx context.Context, n int, key func(i int) any, keyType, state reflect.Type, do func(i int, state any)) error {
	all, err := lookup.MachinesOf(c.facade, keyType, state)
	for _, m := range all {
		first, count := c.layout.all(m.Location)
		for p := first; p < first+count; p++ {
			if err := c.between(ctx, p, func(s *engine.Location) { m.FindAll(s, n, key, do) }); err != nil {
				return err
			}
		}
	}
	return err
}
