package dataflow

import (
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A LocationStatus says what a location of a running flow has done and what waits there. It is
// a copy. All counts begin with the start of the flow and never decrease.
type LocationStatus struct {
	Name string // of the location

	// Time is when Steps, Records, Timers, NextTimer, Operators and Slices were copied, all
	// between the same two steps. Two statuses give a rate. Time is zero if they were never
	// copied. All other fields are of the moment of the call.
	Time time.Time
	// Stale says that Time is that of an earlier call, because the running step took longer
	// than the call waited.
	Stale bool
	Ended bool // the location makes no further steps

	Steps   uint64 // steps made
	Records uint64 // records that the steps took: sent, from other locations, fed back, or answers

	Queued  int // records that were accepted and wait for a step
	Bound   int // how many records may wait before inputs block: [Options].Queue
	Senders int // callers of inputs that wait for room

	Calls        int // asynchronous calls that run
	CallsWaiting int // asynchronous calls that wait for others to return

	Timers    int       // timers that are set
	NextTimer time.Time // when the first of them is due; zero if none is set

	// Blocked says why the location does not run, and Since when it stopped. They are nil and
	// zero while the location runs.
	Blocked *BlockedError
	Since   time.Time

	Operators []OperatorStatus // in order of construction, as in [Graph].Operators
	Counted   bool             // whether Entered of the operators is counted; see [Options].Count
	Outputs   []OutputStatus   // in order of construction
	Slices    []SliceStatus    // in order of construction, as in [Graph].Slices
}

// An OperatorStatus says what an operator took and what it keeps.
type OperatorStatus struct {
	Name string // package and function, such as "keyedstream.Fold"
	Port string // name of an input, an output or a cycle
	Pos  string // file:line of the call that made it

	// Entered is how many elements, entries or changes came to the operator, or for an input
	// how many came from it. It is 0 unless [Options].Count is set.
	Entered uint64

	// Kept is how many keys the operator remembers from one step to the next, or elements where
	// it has no keys. It is 0 if it remembers none, or only within a run of a slice. Bytes is
	// the memory that holds them, without what they point to.
	Kept  int
	Bytes uint64

	Calls        int // asynchronous calls that run
	CallsWaiting int // asynchronous calls that wait for others to return
	Timers       int // timers that are set

	// Mark is how far event time has advanced, as a window.Time, for an operator of package
	// window that waits for it. HeldBy names the sources of events that are furthest behind,
	// such as "window.Stamp (main.go:12)". It is nil for other operators, and when time has
	// ended. For events from another location it names the operator through which they arrive.
	Mark   int64
	HeldBy []string

	// Dropped is how many answers of calls were dropped since the flow was started, because
	// their key was forgotten before they came.
	Dropped uint64
}

// An OutputStatus says what waits at an output.
type OutputStatus struct {
	Name     string // package and function, such as "dataflow.Output"
	Port     string // name of the output
	Pos      string // file:line of the call that made it
	Operator int    // index in [LocationStatus].Operators

	// Unread is how many elements were not read, or how many entries were not taken. It is 0
	// for the output of a value.
	Unread int
	// Given is how many elements, entries or versions of a value the output was given.
	Given uint64
	// Bound is the number of unread elements up to which the location still runs:
	// [Options].Buffer. It is 0 for entries and values, which do not stop it.
	Bound int
}

// A SliceStatus is how often a slice ran.
type SliceStatus struct {
	Pos  string // file:line of the call of slice.At
	Runs uint64
}

// Status returns what each location has done and what waits there, in order of construction.
// Any goroutine may call it at any time, also when the flow has ended.
//
// Status does not stop a location: the goroutine that runs it copies the figures of a step
// between two steps. Status waits for that at most 10 ms, for all locations together. After
// that it returns the last copy, with Stale set.
func (a *App) Status() []LocationStatus {
	reports := a.graph().Report()
	all := make([]LocationStatus, len(reports))
	for i, r := range reports {
		all[i] = r.(LocationStatus)
	}
	return all
}

// Graph returns a description of the flow. Operators of a location are in the same order as in
// [App.Status].
func (a *App) Graph() Graph {
	a.graph()
	return a.flow.Graph()
}

// texts returns the names and places of operators.
func texts(ops []*engine.Op) (all []string) {
	for _, op := range ops {
		all = append(all, op.String())
	}
	return all
}

// locationStatus returns the public form of a status.
func locationStatus(s *engine.Status) LocationStatus {
	l := LocationStatus{
		Name: s.Name, Time: s.At, Stale: s.Stale, Ended: s.Ended,
		Steps: s.Steps, Records: s.Records,
		Queued: s.Queued, Bound: s.Queue, Senders: s.Senders,
		Timers: s.Timers, NextTimer: s.Next, Since: s.Since,
	}
	if s.Blocked != nil {
		l.Blocked = blockedError(s.Blocked)
	}
	at := make(map[*engine.Op]int, len(s.Ops))
	l.Operators = make([]OperatorStatus, len(s.Ops))
	l.Counted = s.Counted
	for i, o := range s.Ops {
		name, port, _ := strings.Cut(o.Op.Name, " ")
		l.Operators[i] = OperatorStatus{Name: name, Port: port, Pos: o.Op.Pos, Entered: o.Entered, Kept: o.Kept, Bytes: o.Bytes, Timers: o.Timers, Mark: o.Mark, HeldBy: texts(o.HeldBy)}
		at[o.Op] = i
	}
	for _, o := range s.Outputs {
		op := &l.Operators[at[o.Op]]
		switch o.Kind {
		case engine.Elements, engine.Entries, engine.Value:
			l.Outputs = append(l.Outputs, OutputStatus{Name: op.Name, Port: op.Port, Pos: op.Pos, Operator: at[o.Op], Unread: o.Unread, Given: o.Given, Bound: o.Bound})
			op.Kept, op.Bytes = o.Unread, o.Bytes
		case engine.Calls:
			op.Calls, op.CallsWaiting, op.Dropped = o.Running, o.Waiting, o.Dropped
			l.Calls += o.Running
			l.CallsWaiting += o.Waiting
		}
	}
	for _, r := range s.Slices {
		l.Slices = append(l.Slices, SliceStatus{r.Slice.Pos(), r.Runs})
	}
	return l
}
