package inspect

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// An App is a running flow: a [dataflow.App] or a [durable.App].
type App interface {
	Graph() dataflow.Graph
	Done() <-chan struct{}
	Err() error
}

// inMemory is a [dataflow.App], and kept a [durable.App], with any ports.
type (
	inMemory interface {
		Status() []dataflow.LocationStatus
	}
	kept interface {
		Status() []durable.PartitionStatus
	}
)

// A Snapshot is what a flow has done and what waits in it. All figures of a location are from the
// same moment between two steps.
type Snapshot struct {
	At         time.Time   `json:"at"`
	Ended      bool        `json:"ended"`
	Error      string      `json:"error,omitempty"`   // why it has ended
	Stopped    []Stopped   `json:"stopped,omitempty"` // what does not run now
	Counted    bool        `json:"counted"`           // Entered is counted: see dataflow.Options.Count
	Locations  []Location  `json:"locations"`
	Operators  []Operator  `json:"operators"` // in the order of the graph
	Outputs    []Output    `json:"outputs"`
	Slices     []Slice     `json:"slices"`
	Partitions []Partition `json:"partitions,omitempty"` // of a durable flow
}

// A Stopped says why a location, or a partition of a durable flow, does not run.
type Stopped struct {
	Location  string    `json:"location"`
	Partition int       `json:"partition"` // -1 if the flow is not durable
	Since     time.Time `json:"since,omitzero"`
	Why       string    `json:"why"`
	Operator  int       `json:"operator"` // the operator that stops it, or -1
}

// A Location is a location, or all of its partitions that this process owns.
type Location struct {
	Name      string    `json:"name"`
	Time      time.Time `json:"time,omitzero"` // of the figures
	Stale     bool      `json:"stale"`         // a step has taken longer than the call waited
	Ended     bool      `json:"ended"`
	Stopped   bool      `json:"stopped"` // the location, or one of its partitions, does not run: see Snapshot.Stopped
	Steps     uint64    `json:"steps"`
	Records   uint64    `json:"records"`
	Queued    int       `json:"queued"`
	Bound     int       `json:"bound"`
	Senders   int       `json:"senders"`
	Calls     int       `json:"calls"`
	Waiting   int       `json:"calls_waiting"`
	Timers    int       `json:"timers"`
	NextTimer time.Time `json:"next_timer,omitzero"`
}

// An Operator is what an operator took and keeps.
type Operator struct {
	Entered uint64 `json:"entered"`
	Kept    int    `json:"kept"`
	Bytes   uint64 `json:"bytes"`
	Calls   int    `json:"calls"`
	Waiting int    `json:"calls_waiting"`
	Timers  int    `json:"timers"`
	Dropped uint64 `json:"dropped"`
}

// An Output is what waits at an output.
type Output struct {
	Operator int    `json:"operator"`
	Port     string `json:"port"`
	Location string `json:"location"`
	Given    uint64 `json:"given"`
	Unread   int    `json:"unread"`
	Bound    int    `json:"bound"` // 0 if the output does not stop its location
}

// A Slice is how often a slice ran.
type Slice struct {
	Location string `json:"location"`
	Pos      string `json:"pos"`
	Runs     uint64 `json:"runs"`
}

// A Partition is a partition of a durable flow, as this process knows it.
type Partition struct {
	Number      int       `json:"number"`
	Location    string    `json:"location"`
	State       string    `json:"state"`
	Owner       string    `json:"owner,omitempty"`
	Step        uint64    `json:"step"`
	LagRecords  int       `json:"lag_records"`
	LagBytes    int       `json:"lag_bytes"`
	Committed   time.Time `json:"committed,omitzero"`
	Saved       time.Time `json:"saved,omitzero"`
	Quarantined int       `json:"quarantined"`
}

// Take returns what app has done and what waits in it. It takes as long as the Status method of app:
// at most 10 ms. It panics if app is neither a [dataflow.App] nor a [durable.App].
func Take(app App) Snapshot {
	s := Snapshot{At: time.Now()}
	select {
	case <-app.Done():
		s.Ended = true
		if err := app.Err(); err != nil {
			s.Error = err.Error()
		}
	default:
	}
	g := app.Graph()
	s.Operators = make([]Operator, len(g.Operators))
	first := firstOf(g)
	switch app := app.(type) {
	case inMemory:
		for i, l := range app.Status() {
			s.location(i, first[i], &l, -1)
		}
	case kept:
		for _, p := range app.Status() {
			s.location(p.Location, first[p.Location], &p.LocationStatus, p.Partition)
			s.partition(&p)
		}
	default:
		panic(fmt.Sprintf("inspect: a %T is no flow that runs: give what dataflow.Start or durable.Start returned", app))
	}
	return s
}

// firstOf returns the index of the first operator of each location.
func firstOf(g dataflow.Graph) []int {
	first := make([]int, len(g.Locations))
	for i := len(g.Operators) - 1; i >= 0; i-- {
		first[g.Operators[i].Location] = i
	}
	return first
}

// location adds the figures of location number n, whose first operator is first, or of a partition of
// it. The partitions of a location must be added one after the other.
func (s *Snapshot) location(n, first int, l *dataflow.LocationStatus, partition int) {
	if n == len(s.Locations) {
		s.Locations = append(s.Locations, Location{Name: l.Name, Ended: true})
	}
	sum := &s.Locations[n]
	s.Counted = s.Counted || l.Counted
	sum.Stale = sum.Stale || l.Stale
	sum.Ended = sum.Ended && l.Ended
	sum.Steps += l.Steps
	sum.Records += l.Records
	sum.Queued += l.Queued
	sum.Bound += l.Bound
	sum.Senders += l.Senders
	sum.Calls += l.Calls
	sum.Waiting += l.CallsWaiting
	sum.Timers += l.Timers
	if sum.Time.IsZero() || l.Time.Before(sum.Time) {
		sum.Time = l.Time
	}
	if sum.NextTimer.IsZero() || !l.NextTimer.IsZero() && l.NextTimer.Before(sum.NextTimer) {
		sum.NextTimer = l.NextTimer
	}
	for i := range l.Operators {
		o, sum := &l.Operators[i], &s.Operators[first+i]
		sum.Entered += o.Entered
		sum.Kept += o.Kept
		sum.Bytes += o.Bytes
		sum.Calls += o.Calls
		sum.Waiting += o.CallsWaiting
		sum.Timers += o.Timers
		sum.Dropped += o.Dropped
	}
	for _, o := range l.Outputs {
		s.output(Output{first + o.Operator, o.Port, l.Name, o.Given, o.Unread, o.Bound})
	}
	for _, c := range l.Slices {
		s.slice(Slice{l.Name, c.Pos, c.Runs})
	}
	if b := l.Blocked; b != nil {
		sum.Stopped = true
		by := slices.IndexFunc(l.Operators, func(o dataflow.OperatorStatus) bool {
			return o.Name == b.Op && o.Port == b.Port && o.Pos == b.Pos
		})
		if by >= 0 {
			by += first
		}
		s.Stopped = append(s.Stopped, Stopped{l.Name, partition, l.Since, b.Error(), by})
	}
}

// output adds the figures of an output in one partition to those of the others.
func (s *Snapshot) output(o Output) {
	for i := range s.Outputs {
		if was := &s.Outputs[i]; was.Operator == o.Operator {
			was.Given, was.Unread, was.Bound = was.Given+o.Given, was.Unread+o.Unread, was.Bound+o.Bound
			return
		}
	}
	s.Outputs = append(s.Outputs, o)
}

func (s *Snapshot) slice(c Slice) {
	for i := range s.Slices {
		if was := &s.Slices[i]; was.Location == c.Location && was.Pos == c.Pos {
			was.Runs += c.Runs
			return
		}
	}
	s.Slices = append(s.Slices, c)
}

func (s *Snapshot) partition(p *durable.PartitionStatus) {
	s.Partitions = append(s.Partitions, Partition{
		Number: p.Partition, Location: p.Name, State: string(p.State), Owner: p.Owner, Step: p.Step,
		LagRecords: p.Lag.Records, LagBytes: p.Lag.Bytes, Committed: p.Committed, Saved: p.Saved, Quarantined: p.Quarantined,
	})
	if p.Stopped != nil {
		s.Locations[p.Location].Stopped = true
		s.Stopped = append(s.Stopped, Stopped{p.Name, p.Partition, p.Since, p.Stopped.Error(), -1})
	}
}
