package durable

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A Moment is a partition as it was after a step. It has a graph of its own, in memory, until it is
// closed. It belongs to one goroutine.
type Moment struct {
	walk   *walk
	closed bool
}

// At makes the steps of a partition again, up to step number step, or the last one before that number
// if there is none of it; zero stands for the last step of all. It begins at the nearest of an image that the
// history keeps, the snapshot and the first step, and returns an [ErrNoStep] if none of these is there: see
// [Options].KeepFor. A step that gives something else than is recorded ends it with a [*DivergedError]. If ctx ends first, At leaves an image of where it came to, so that the next call goes on
// from there. Whoever calls it closes what it returns.
func (h *History) At(ctx context.Context, partition int, step uint64) (*Moment, error) {
	if ctx == nil {
		engine.NilContext("durable.History.At")
	}
	w, err := h.walkTo(ctx, partition, step)
	if err != nil {
		return nil, err
	}
	return &Moment{walk: w}, nil
}

// Close ends the moment. Closing twice is fine.
func (m *Moment) Close() {
	if !m.closed {
		m.closed = true
		m.walk.close()
	}
}

// Partition returns the partition that the moment is of.
func (m *Moment) Partition() int { return m.walk.partition }

// Step returns the step that the moment is after. Only its number and its time are known if nothing that
// comes before it is there.
func (m *Moment) Step() StepInfo {
	w := m.walk
	info := StepInfo{Number: w.at, At: time.Unix(0, w.o.last.clock+w.o.last.now)}
	if w.made != nil {
		info.Taken, info.Refused, info.Outputs = w.made.taken, len(w.made.Refused), w.made.Outputs
	}
	return info
}

// Made reports whether the step was made again, so that it is known what it took and which slices
// it cut. Otherwise what was before it is gone.
func (m *Moment) Made() bool { return m.walk.made != nil }

// A TakenInput is what a step took of one input: a port, another location, a cycle, or the answers of calls.
type TakenInput struct {
	Operator int // index in [dataflow.Graph].Operators
	Count    int // records
	Records  []TakenRecord
}

// A TakenRecord is a record as text, in the form of [dataflow.StateEntry].
type TakenRecord struct{ Key, Value string }

// Took returns what the step took, in order, with the text of at most so many records.
func (m *Moment) Took(most int) (all []TakenInput) {
	for _, t := range m.walk.watch.taken {
		in := TakenInput{Operator: m.operator(t.op), Count: t.n}
		for i := range min(t.n, max(most, 0)) {
			in.Records = append(in.Records, recordOf(reflect.Indirect(reflect.ValueOf(t.records)), i))
		}
		most -= len(in.Records)
		all = append(all, in)
	}
	return all
}

// recordOf returns record number i of what [engine.Input].CopyTaken returned.
func recordOf(records reflect.Value, i int) (r TakenRecord) {
	if records.Kind() == reflect.Slice {
		r.Value = textOf(records.Index(i))
		return r
	}
	return TakenRecord{textOf(records.FieldByName("K").Index(i)), textOf(records.FieldByName("V").Index(i))}
}

// longestText is how many bytes of a key or a value are given.
const longestText = 4 << 10

func textOf(v reflect.Value) string { return codec.Show(v.Interface(), longestText) }

// operator returns the number among those of all locations of an operator of the moment's location.
func (m *Moment) operator(op int32) int {
	return lookup.Number(m.walk.o.leader.Location().Ops[op])
}

// Cut returns the slices that the step cut, and how often.
func (m *Moment) Cut() (ran []dataflow.SliceStatus) {
	w := m.walk
	if w.made == nil {
		return nil
	}
	for i, s := range w.slices() {
		if s.Runs -= w.ran[i].Runs; s.Runs > 0 {
			ran = append(ran, s)
		}
	}
	return ran
}

// Lookup returns what each operator remembered of a key, as [dataflow.App.Lookup] does.
func (m *Moment) Lookup(key any) ([]dataflow.StateEntry, error) {
	if err := lookup.Check(m.walk.h.names, key); err != nil {
		return nil, err
	}
	return m.find(key), nil
}

func (m *Moment) find(key any) (all []dataflow.StateEntry) {
	for _, f := range lookup.Find(m.walk.o.leader.Location(), key) {
		all = append(all, dataflow.StateEntry(f))
	}
	return all
}

// An OperatorState is one of the things that an operator remembered.
type OperatorState struct {
	Operator int // index in [dataflow.Graph].Operators
	State    int // index in [dataflow.GraphOperator].States
	Kind     string
	Kept     int                   // keys or elements
	Entries  []dataflow.StateEntry // in order of their numbers; without Key where it has none
}

// State returns what an operator remembered, with at most so many entries of each thing.
func (m *Moment) State(operator, most int) (all []OperatorState, err error) {
	location := m.walk.o.leader.Location()
	for _, op := range location.Ops {
		if lookup.Number(op) != operator {
			continue
		}
		for i, x := range op.States {
			all = append(all, m.state(op, i, x, most))
		}
		return all, nil
	}
	return nil, fmt.Errorf("%w: partition %d has no operator %d", dataflow.ErrNoState, m.walk.partition, operator)
}

func (m *Moment) state(op *engine.Op, i int, x engine.State, most int) OperatorState {
	s := OperatorState{Operator: lookup.Number(op), State: i, Kind: x.Kind()}
	s.Kept, _ = x.Size()
	if lookup.KeyType(x) != nil {
		found, _, _ := lookup.Page(m.walk.o.leader.Location(), op.Index, i, 0, most)
		for _, f := range found {
			s.Entries = append(s.Entries, dataflow.StateEntry(f))
		}
		return s
	}
	for _, line := range described(x, most) {
		s.Entries = append(s.Entries, dataflow.StateEntry{Operator: s.Operator, State: i, Value: line})
	}
	return s
}

// described returns the lines of a description of what has no keys.
func described(x engine.State, most int) []string {
	var b strings.Builder
	d := &codec.Describer{W: &b, Left: max(most, 0)}
	if x.Describe(d); b.Len() == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}
