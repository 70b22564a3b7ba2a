package engine

import (
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/mark"
)

// This file reports what a location does while it runs.
//
// What the holder of the token writes is also read by a holder of the token. A reader takes the token if it is free; otherwise it
// asks the holder, which copies the figures between two steps, when it looks at what was left for it. So counting costs an
// addition to memory that the holder writes anyway, and a reader costs senders nothing.

// A Status is what a location has done and what waits there.
type Status struct {
	*Figures
	Name    string
	Stale   bool // the figures are an earlier copy, because the current step takes long
	Ended   bool
	Queued  int // records that wait for a step
	Queue   int // how many may wait
	Senders int // callers that wait for room
	Blocked *Blocked
	Since   time.Time // when the location stopped; zero if it runs
	Outputs []OutputStatus
}

// An OutputStatus is what waits behind an output.
type OutputStatus struct {
	Op      *Op
	Kind    OutputKind
	Unread  int    // unread elements, or entries that were not taken
	Given   uint64 // elements, entries or changes of the value that it was given
	Bound   int    // how many elements may be unread; 0 if any number may
	Bytes   uint64 // of the table of entries
	Running int    // calls that run
	Waiting int    // calls that wait for others to return
	Dropped uint64 // answers that came to lives that were over
}

// An OutputKind says what kind of output it is.
type OutputKind string

// The kinds of outputs.
const (
	Elements OutputKind = "elements"
	Entries  OutputKind = "entries"
	Value    OutputKind = "value"
	Sent     OutputKind = "sent"  // to another location
	Calls    OutputKind = "calls" // asynchronous ones
	Cycled   OutputKind = "cycled"
)

// Figures are the data that only the holder of the token may read. A copy is never written again.
type Figures struct {
	At      time.Time // of the copy
	Counted bool      // what enters operators is counted
	Steps   uint64
	Records uint64
	Timers  int
	Next    time.Time // when the next timer is due; zero if there is none
	Ops     []OpStatus
	Slices  []SliceStatus
}

// An OpStatus is what an operator took and holds.
type OpStatus struct {
	Op      *Op
	Entered uint64 // elements, entries and changes; 0 unless the graph counts them
	Kept    int    // keys or elements that it remembers
	Bytes   uint64 // of that memory, without what it points to
	Timers  int    // pending timers
	Mark    int64  // progress of the events that come to it, if it reads their mark
	HeldBy  []*Op  // operators that hold back the mark; empty if it reads none, or time has ended
}

// A SliceStatus is how often a slice ran.
type SliceStatus struct {
	Slice *Region
	Runs  uint64
}

// Patience is how long [Graph.Status] waits for the goroutines that run the locations.
const Patience = 10 * time.Millisecond

// Status returns the status of each location, in order of construction. Any goroutine may call it once the graph has been
// started, even a function given to an operator.
func (g *Graph) Status() []Status {
	asked := make([]<-chan struct{}, len(g.Locations))
	late := false
	for i, s := range g.Locations {
		s.Mu.Lock()
		asked[i] = g.Driver.Ask(s)
		late = late || asked[i] != nil
	}
	if late {
		await(asked)
	}
	all := make([]Status, len(g.Locations))
	for i, s := range g.Locations {
		all[i] = s.status(asked[i])
	}
	return all
}

// await waits until all channels are closed, but not longer than [Patience].
func await(asked []<-chan struct{}) {
	timeout := time.NewTimer(Patience)
	defer timeout.Stop()
	for _, answered := range asked {
		if answered == nil {
			continue
		}
		select {
		case <-answered:
		case <-timeout.C:
			return
		}
	}
}

// status returns the status of the location, with the figures that the holder of the token has copied if it did so since it was
// asked.
func (s *Location) status(asked <-chan struct{}) Status {
	st := Status{Name: s.Name, Queue: s.Graph.Settings.Queue}
	if asked != nil {
		select {
		case <-asked:
		default:
			st.Stale = true
		}
		s.Mu.Lock()
		if s.Vacant { // it ended meanwhile, and there is no holder to answer
			st.Stale = s.Graph.Driver.Ask(s) != nil
		} else {
			s.Mu.Unlock()
		}
	}
	s.Mu.Lock()
	st.Figures, st.Ended = s.Seen, s.Finished
	st.Queued, st.Senders = s.Queued, s.senders
	since := time.Time{}
	if s.Parked && !s.Finished {
		since = s.ParkedAt
	}
	s.Mu.Unlock()
	if st.Figures == nil {
		st.Figures = s.noFigures()
	}
	if !since.IsZero() {
		if st.Blocked = s.stopped(nil); st.Blocked != nil {
			st.Since = since
		}
	}
	for _, out := range s.OutputsInOrder {
		st.Outputs = append(st.Outputs, out.Figures())
	}
	return st
}

// Outputs calls f for each output of each location, in order of construction.
func (g *Graph) Outputs(f func(OutputStatus)) {
	for _, s := range g.Locations {
		for _, out := range s.OutputsInOrder {
			f(out.Figures())
		}
	}
}

// Report returns the public form of the status of each location.
func (g *Graph) Report() []any {
	all := g.Status()
	reports := make([]any, len(all))
	for i := range all {
		reports[i] = g.Settings.Report(&all[i])
	}
	return reports
}

// AskBetweenSteps is Ask of a driver whose caller makes the steps itself, or while no step is being made. It is called with mu
// held and unlocks it.
func (s *Location) AskBetweenSteps() <-chan struct{} {
	s.CopyFigures()
	s.Mu.Unlock()
	return nil
}

// Answer copies the figures for the callers that asked for them. It is called with mu held by the holder of the token, between
// steps.
func (s *Location) Answer() {
	s.CopyFigures()
	close(s.Asked)
	s.Asked = nil
}

// vacate records that the holder of the token, whose step failed, never gives it back.
func (s *Location) vacate() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Vacant = s.Finished; s.Vacant && s.Asked != nil {
		s.Answer()
	}
}

// CopyFigures copies what only the holder of the token may read. It is called with mu held, by the holder or while there is none.
func (s *Location) CopyFigures() {
	f := s.noFigures()
	f.At = time.Now()
	f.Steps, f.Records = s.steps, s.steps+uint64(s.more)
	for i, r := range s.Slices() {
		f.Slices[i].Runs = r.runs
	}
	for i := range s.Timers {
		t := &s.Timers[i]
		n := t.Running()
		f.Timers += n
		f.Ops[t.op.Index].Timers += n
	}
	if at, ok := s.Deadline(); ok {
		f.Next = time.Unix(0, s.origin).Add(time.Duration(at))
	}
	for i, op := range s.Ops {
		at := &f.Ops[i]
		for _, c := range op.enters {
			at.Entered += c.total()
		}
		if s.port(op) != nil { // readers change its state
			continue
		}
		for _, x := range op.States {
			n, bytes := x.Size()
			at.Kept += n
			at.Bytes += bytes
		}
	}
	s.copyMarks(f)
	s.Seen = f
	for _, look := range s.betweenSteps {
		look()
	}
	s.betweenSteps = nil
}

// Between calls look between two steps of the location, and reports whether it did so before ctx ended. The location makes no
// step meanwhile, and look calls no function of the program.
func (s *Location) Between(ctx context.Context, look func()) bool {
	s.Mu.Lock()
	looked := false
	s.betweenSteps = append(s.betweenSteps, func() {
		if looked = ctx.Err() == nil; looked {
			look()
		}
	})
	if asked := s.Graph.Driver.Ask(s); asked != nil {
		select {
		case <-asked:
		case <-ctx.Done():
		}
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return looked
}

// copyMarks copies the progress of events, and what holds it back.
func (s *Location) copyMarks(f *Figures) {
	var holders []*mark.Mark
	for i, op := range s.Ops {
		if len(op.follows) == 0 {
			continue
		}
		f.Ops[i].Mark, holders = mark.Slowest(op.follows, holders[:0])
		for _, by := range s.Ops {
			if slices.ContainsFunc(by.owns, func(m *mark.Mark) bool { return slices.Contains(holders, m) }) {
				f.Ops[i].HeldBy = append(f.Ops[i].HeldBy, by)
			}
		}
	}
}

// port returns op's output if goroutines outside the location read it, or nil.
func (s *Location) port(op *Op) Port {
	if int(op.Index) >= len(s.outputs) {
		return nil
	}
	port, _ := s.outputs[op.Index].(Port)
	return port
}

// noFigures returns the figures of a location about which nothing is known yet.
func (s *Location) noFigures() *Figures {
	f := &Figures{Ops: make([]OpStatus, len(s.Ops)), Counted: s.Graph.Settings.Count}
	for i, op := range s.Ops {
		f.Ops[i].Op = op
	}
	for _, r := range s.Slices() {
		f.Slices = append(f.Slices, SliceStatus{Slice: r})
	}
	return f
}

// What enters an operator is counted where it comes from: each node counts what it pushes, once for all its readers. A graph that
// does not count has no counters and pushes without overhead.

// A counter counts what a node pushed.
type counter struct {
	n uint64 // held by the token
	// counts, if not nil, holds the number instead: an operator that gives as many elements as it takes may be part of another
	// operator's loop, and push nothing itself; see operators/fuse.go.
	counts *counter
}

func (c *counter) total() uint64 {
	for c.counts != nil {
		c = c.counts
	}
	return c.n
}

// Takes records that what c counts enters op.
func (op *Op) Takes(c *counter) {
	if c != nil && !slices.Contains(op.enters, c) {
		op.enters = append(op.enters, c)
	}
}

// enters records that what c counts enters the operator being built.
func (s *Location) enters(c *counter) {
	if s.Making != nil {
		s.Making.Takes(c)
	}
}

// Counter returns the counter of n, or nil if the graph does not count.
func (n *Node[T]) Counter() *counter {
	if n.sent == nil && n.Loc.Graph.Settings.Count {
		n.sent = new(counter)
	}
	return n.sent
}

// CountedBy records that n has as many elements as enter op, which makes it.
func (n *Node[T]) CountedBy(op *Op) {
	if n.sent != nil && len(op.enters) == 1 {
		n.sent.counts = op.enters[0]
	}
}

// count makes a compiled node count what it pushes, if it has a counter.
func count[T any](n *Node[T]) {
	c := n.sent
	if c == nil || c.counts != nil {
		return
	}
	push, one := n.Push, n.One
	n.Push = func(batch []T) {
		c.n += uint64(len(batch))
		push(batch)
	}
	n.One = func(x T) {
		c.n++
		one(x)
	}
}

// Counter returns the counter of n, or nil if the graph does not count.
func (n *KeyedNode[K, V]) Counter() *counter {
	if n.sent == nil && n.Loc.Graph.Settings.Count {
		n.sent = new(counter)
	}
	return n.sent
}

// countEntries makes a compiled node count what it pushes, if it has a counter.
func countEntries[K comparable, V any](n *KeyedNode[K, V]) {
	c := n.sent
	if c == nil {
		return
	}
	push, one := n.Push, n.One
	n.Push = func(b *Batch[K, V]) {
		c.n += uint64(len(b.K))
		push(b)
	}
	n.One = func(k K, v V, h uint64) {
		c.n++
		one(k, v, h)
	}
}
