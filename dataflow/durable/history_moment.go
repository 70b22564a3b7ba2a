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

// A Moment is a partition as it was after a step. It holds a graph of its own in memory until it is closed. It
// must be used by one goroutine only.
type Moment struct {
	walk   *walk
	closed bool
}

// At replays the steps of a partition up to step number step, or up to the last step before that number if
// there is none with it; zero stands for the last step of all. It begins at the nearest of a cached image, the
// snapshot and the first step, and returns an [ErrNoStep] if none of these is available: see [Options].KeepFor.
// A step that gives a different result than recorded ends it with a [*DivergedError]. If ctx ends first, At
// leaves an image of where it came to, so that the next call continues from there. The caller must close the
// Moment.
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

// Close releases the moment. Closing it twice is fine.
func (m *Moment) Close() {
	if !m.closed {
		m.closed = true
		m.walk.close()
	}
}

// Partition returns the number of the moment's partition.
func (m *Moment) Partition() int { return m.walk.partition }

// Step returns the step that the moment is after. If the moment was loaded rather than replayed, because
// everything before it is gone, only the number and the time are known.
func (m *Moment) Step() StepInfo {
	w := m.walk
	info := StepInfo{Number: w.at, At: time.Unix(0, w.o.last.clock+w.o.last.now)}
	if w.made != nil {
		info.Taken, info.Refused, info.Outputs = w.made.taken, len(w.made.Refused), w.made.Outputs
	}
	return info
}

// Made reports whether the step was replayed, so that what it took and which slices it cut are known. It is
// false if everything before the step is gone.
func (m *Moment) Made() bool { return m.walk.made != nil }

// A TakenInput is what a step took from one input: a port, another location, a cycle, or the answers of calls.
type TakenInput struct {
	Operator int // index in [dataflow.Graph].Operators
	Count    int // number of records
	Records  []TakenRecord
}

// A TakenRecord is a record as text, in the format of [dataflow.StateEntry].
type TakenRecord struct{ Key, Value string }

// Took returns what the step took, in order, with the text of at most most records.
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

// longestText is the length in bytes to which the text of a key or a value is cut.
const longestText = 4 << 10

func textOf(v reflect.Value) string { return codec.Show(v.Interface(), longestText) }

// operator returns the flow-wide number of an operator of the moment's location.
func (m *Moment) operator(op int32) int {
	return lookup.Number(m.walk.o.executor.Location().Ops[op])
}

// Cut returns the slices that the step cut, and how often it cut each.
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
	for _, f := range lookup.Find(m.walk.o.executor.Location(), key) {
		all = append(all, dataflow.StateEntry(f))
	}
	return all
}

// An OperatorState is one of the things that an operator remembered.
type OperatorState struct {
	Operator int // index in [dataflow.Graph].Operators
	State    int // index in [dataflow.GraphOperator].States
	Kind     string
	Kept     int                   // number of keys or elements
	Entries  []dataflow.StateEntry // in order of their numbers; without Key if the state has no keys
}

// State returns everything that an operator remembered, with at most most entries of each thing.
func (m *Moment) State(operator, most int) (all []OperatorState, err error) {
	location := m.walk.o.executor.Location()
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
		found, _, _ := lookup.Page(m.walk.o.executor.Location(), op.Index, i, 0, most)
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

// described returns the lines that describe a state without keys.
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
