package durable

import (
	"context"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// DiffOptions say what [History.Diff] compares.
type DiffOptions struct {
	Key  any // compare only what is remembered of this key, as in [App.Lookup]; nil for everything
	Most int // number of changes to list; zero means 200
}

// A StateDiff is the difference between what the operators of a partition remembered after two steps.
type StateDiff struct {
	From, To StepInfo
	Changes  []StateChange // by operator
	More     int           // number of changes that are not listed
	Partial  bool          // an operator has more than 100,000 entries or 10,000 changes, and only the first were compared
}

// A StateChange is the change of what an operator remembered of a key, or of something without a key. Two texts
// whose first 4 KiB are equal count as equal.
type StateChange struct {
	Operator int                  // index in [dataflow.Graph].Operators
	State    int                  // index in [dataflow.GraphOperator].States
	Before   *dataflow.StateEntry // nil if there was nothing
	After    *dataflow.StateEntry // nil if there is nothing
}

const (
	mostChanges  = 200
	mostCompared = 100_000 // entries of an operator
	mostPaired   = 10_000  // changes that are paired by key
	comparedAt   = 256     // entries that are read together
)

// Diff returns how the state of the operators after step to differs from the state after step from. It finds
// both steps as [History.At] does, and holds two graphs in memory meanwhile.
func (h *History) Diff(ctx context.Context, partition int, from, to uint64, o DiffOptions) (StateDiff, error) {
	if ctx == nil {
		engine.NilContext("durable.History.Diff")
	}
	if o.Key != nil {
		if err := lookup.Check(h.names, o.Key); err != nil {
			return StateDiff{}, err
		}
	}
	before, err := h.At(ctx, partition, from)
	if err != nil {
		return StateDiff{}, err
	}
	defer before.Close()
	after, err := h.At(ctx, partition, to)
	if err != nil {
		return StateDiff{}, err
	}
	defer after.Close()
	return before.Diff(ctx, after, o)
}

// Diff is [History.Diff] for two moments of one partition.
func (m *Moment) Diff(ctx context.Context, after *Moment, o DiffOptions) (StateDiff, error) {
	d := StateDiff{From: m.Step(), To: after.Step()}
	most := o.Most
	if most == 0 {
		most = mostChanges
	}
	if o.Key != nil {
		d.add(most, pair(m.find(o.Key), after.find(o.Key)))
		return d, nil
	}
	a, b := m.walk.o.executor.Location(), after.walk.o.executor.Location()
	for i, op := range a.Ops {
		for n, x := range op.States {
			var changes []StateChange
			if lookup.KeyType(x) == nil {
				was, is := m.state(op, n, x, most).Entries, after.state(b.Ops[i], n, b.Ops[i].States[n], most).Entries
				changes = byLine(was, is)
			} else {
				c := comparison{was: entries{of: a, op: op.Index, state: n}, is: entries{of: b, op: op.Index, state: n}}
				if err := c.run(ctx); err != nil {
					return d, err
				}
				changes = pair(c.gone, c.new)
				d.Partial = d.Partial || c.partial
			}
			d.add(most, changes)
		}
	}
	return d, nil
}

// add lists changes, up to most in all, and counts the rest.
func (d *StateDiff) add(most int, changes []StateChange) {
	n := min(len(changes), max(most-len(d.Changes), 0))
	d.Changes = append(d.Changes, changes[:n]...)
	d.More += len(changes) - n
}

// byLine compares state without keys, line by line.
func byLine(was, is []dataflow.StateEntry) (all []StateChange) {
	for i := range max(len(was), len(is)) {
		var c StateChange
		if i < len(was) {
			c.Operator, c.State, c.Before = was[i].Operator, was[i].State, &was[i]
		}
		if i < len(is) {
			c.Operator, c.State, c.After = is[i].Operator, is[i].State, &is[i]
		}
		if c.Before == nil || c.After == nil || *c.Before != *c.After {
			all = append(all, c)
		}
	}
	return all
}

// pair turns entries that differ into changes. Two entries of one key in one state become one change.
func pair(was, is []dataflow.StateEntry) (all []StateChange) {
	type place struct {
		operator, state int
		key             string
	}
	now := make(map[place]*dataflow.StateEntry, len(is))
	for i := range is {
		now[place{is[i].Operator, is[i].State, is[i].Key}] = &is[i]
	}
	for i := range was {
		at := place{was[i].Operator, was[i].State, was[i].Key}
		e := now[at]
		delete(now, at)
		if e == nil || *e != was[i] {
			all = append(all, StateChange{was[i].Operator, was[i].State, &was[i], e})
		}
	}
	for i := range is {
		if at := (place{is[i].Operator, is[i].State, is[i].Key}); now[at] == &is[i] {
			all = append(all, StateChange{is[i].Operator, is[i].State, nil, &is[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b StateChange) int {
		if a.Operator != b.Operator {
			return a.Operator - b.Operator
		}
		return a.State - b.State
	})
	return all
}

// A comparison walks the entries of one state at two moments. An entry keeps its number as long as it exists,
// so the entries are compared in order, and only those that differ are held in memory.
type comparison struct {
	was, is   entries
	gone, new []dataflow.StateEntry
	partial   bool
}

func (c *comparison) run(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%comparedAt == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		was, at, there := c.was.next()
		is, now, has := c.is.next()
		switch {
		case !there && !has:
			return nil
		case n == mostCompared || len(c.gone)+len(c.new) >= mostPaired:
			c.partial = true
			return nil
		case has && (!there || now < at):
			c.new = append(c.new, is)
			c.is.skip()
		case !has || at < now:
			c.gone = append(c.gone, was)
			c.was.skip()
		default:
			if was != is {
				c.gone, c.new = append(c.gone, was), append(c.new, is)
			}
			c.was.skip()
			c.is.skip()
		}
	}
}

// entries reads the entries of a state in batches.
type entries struct {
	of    *engine.Location
	op    int32
	state int

	read    []lookup.Found
	numbers []uint32
	from    uint32
	ended   bool
}

// next returns the next entry and its number.
func (e *entries) next() (dataflow.StateEntry, uint32, bool) {
	if len(e.read) == 0 && !e.ended {
		var more bool
		e.read, e.numbers, e.from, more = lookup.Numbered(e.of, e.op, e.state, e.from, comparedAt)
		e.ended = !more
	}
	if len(e.read) == 0 {
		return dataflow.StateEntry{}, 0, false
	}
	return dataflow.StateEntry(e.read[0]), e.numbers[0], true
}

func (e *entries) skip() { e.read, e.numbers = e.read[1:], e.numbers[1:] }
