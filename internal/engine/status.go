package engine

import "time"

// This file says what a location does while it runs.
//
// What the holder of the token writes is read by the holder of the token: a reader takes
// the token if it is free, and else asks its holder, who copies the figures when it looks
// at what was left for it, between two steps. So counting costs an addition to memory that
// the holder writes anyway, and a reader costs nothing that is on the way of a sender.

// A Status is what a location has done and what waits there.
type Status struct {
	*figures
	Name    string
	Stale   bool // the figures are an earlier copy, since the step that runs goes on for long
	Ended   bool
	Queued  int // records that wait for a step
	Queue   int // how many may
	Senders int // callers that wait for room
	Blocked *Blocked
	Since   time.Time // when the location stopped; zero if it runs
	Outputs []OutputStatus
}

// An OutputStatus is what waits behind an output.
type OutputStatus struct {
	Op      *Op
	Kind    OutputKind
	Unread  int    // elements that nobody has read, or entries that nobody has taken
	Given   uint64 // elements, entries or changes of the value that it was given
	Bound   int    // how many elements may be unread; 0 if any number may
	Bytes   uint64 // of the table of entries
	Running int    // calls that run
	Waiting int    // calls that wait for others to return
}

// An OutputKind says what an output lets out.
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

// figures are what only the holder of the token may read. A copy is never written again.
type figures struct {
	At       time.Time // of the copy
	Steps    uint64
	Records  uint64
	Timers   int
	Deadline int64     // of the next timer, by the clock of the location; 0 if there is none
	Next     time.Time // the same; zero if there is none
	Ops      []OpStatus
	Slices   []SliceStatus
}

// An OpStatus is what an operator took and keeps.
type OpStatus struct {
	Op      *Op
	Entered uint64 // elements, entries and changes; 0 unless the graph counts them
	Kept    int    // keys or elements that it remembers
	Bytes   uint64 // of the memory that they are in, without what they point to
	Timers  int    // that are pending
}

// A SliceStatus is how often a slice ran.
type SliceStatus struct {
	Slice *Region
	Runs  uint64
}

// Patience is how long [Graph.Status] waits for those that run the locations.
const Patience = 10 * time.Millisecond

// Status returns the status of each location, in order of construction. It may be called by
// any goroutine once the graph has been started, also by a function given to an operator.
func (g *Graph) Status() []Status {
	asked := make([]<-chan struct{}, len(g.sites))
	late := false
	for i, s := range g.sites {
		s.mu.Lock()
		asked[i] = g.driver.ask(s)
		late = late || asked[i] != nil
	}
	if late {
		await(asked)
	}
	all := make([]Status, len(g.sites))
	for i, s := range g.sites {
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

// status returns the status of the site, with the figures that the holder of the token has
// copied if it did so since it was asked.
func (s *Site) status(asked <-chan struct{}) Status {
	st := Status{Name: s.name, Queue: s.g.set.Queue}
	if asked != nil {
		select {
		case <-asked:
		default:
			st.Stale = true
		}
		s.mu.Lock()
		if s.vacant { // it ended meanwhile, and nobody will answer
			st.Stale = s.g.driver.ask(s) != nil
		} else {
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	st.figures, st.Ended = s.seen, s.finished
	st.Queued, st.Senders = s.queued, s.senders
	since := time.Time{}
	if s.parked && !s.finished {
		since = s.parkedAt
	}
	s.mu.Unlock()
	if st.figures == nil {
		st.figures = s.noFigures()
	}
	if !since.IsZero() {
		if st.Blocked = s.stopped(nil); st.Blocked != nil {
			st.Since = since
		}
	}
	for _, out := range s.outlets {
		st.Outputs = append(st.Outputs, out.figures())
	}
	return st
}

// Outputs calls f for each output of each location, in order of construction.
func (g *Graph) Outputs(f func(OutputStatus)) {
	for _, s := range g.sites {
		for _, out := range s.outlets {
			f(out.figures())
		}
	}
}

// Report returns the public form of the status of each location.
func (g *Graph) Report() []any {
	all := g.Status()
	reports := make([]any, len(all))
	for i := range all {
		reports[i] = g.set.Report(&all[i])
	}
	return reports
}

// askBetweenSteps is ask of a driver whose caller is the one that makes steps, or who makes
// none now. It is called with mu held and unlocks it.
func (s *Site) askBetweenSteps() <-chan struct{} {
	s.copyFigures()
	s.mu.Unlock()
	return nil
}

// askHolder is ask of a driver whose steps are made by whoever holds the token. It is
// called with mu held and unlocks it.
func (s *Site) askHolder() <-chan struct{} {
	switch {
	case s.parked || s.vacant || !s.started: // nobody runs it, or begins to while mu is held
		return s.askBetweenSteps()
	case s.token.notify():
		s.copyFigures()
		s.g.driver.settle(s, 0)
		return nil
	}
	if s.asked == nil {
		s.asked = make(chan struct{})
	}
	asked := s.asked
	s.mu.Unlock()
	return asked
}

// answer answers those that have asked for figures. It is called with mu held by the holder
// of the token, between steps.
func (s *Site) answer() {
	s.copyFigures()
	close(s.asked)
	s.asked = nil
}

// vacate notes that the holder of the token, whose step failed, never gives it back.
func (s *Site) vacate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.vacant = s.finished; s.vacant && s.asked != nil {
		s.answer()
	}
}

// copyFigures copies what only the holder of the token may read. It is called with mu held,
// by the holder or while there is none.
func (s *Site) copyFigures() {
	f := s.noFigures()
	f.At = time.Now()
	f.Steps, f.Records = s.steps, s.steps+uint64(s.more)
	for i, r := range s.Slices() {
		f.Slices[i].Runs = r.runs
	}
	for i := range s.timers {
		t := &s.timers[i]
		n := t.running()
		f.Timers += n
		f.Ops[t.op.index].Timers += n
	}
	if at, ok := s.deadline(); ok {
		f.Deadline, f.Next = at, s.g.driver.origin(s).Add(time.Duration(at))
	}
	for i, op := range s.ops {
		at := &f.Ops[i]
		for _, c := range op.enters {
			at.Entered += c.total()
		}
		if s.isPort(op) { // whose state its readers change
			continue
		}
		for _, x := range op.states {
			n, bytes := x.size()
			at.Kept += n
			at.Bytes += bytes
		}
	}
	s.seen = f
}

// isPort reports whether goroutines outside the location read the results of op.
func (s *Site) isPort(op *Op) bool {
	if int(op.index) >= len(s.outputs) {
		return false
	}
	_, ok := s.outputs[op.index].(port)
	return ok
}

// noFigures returns those of a location of which nothing is known yet.
func (s *Site) noFigures() *figures {
	f := &figures{Ops: make([]OpStatus, len(s.ops))}
	for i, op := range s.ops {
		f.Ops[i].Op = op
	}
	for _, r := range s.Slices() {
		f.Slices = append(f.Slices, SliceStatus{Slice: r})
	}
	return f
}

// Status returns the status of the location. The owner of the leader calls it between
// steps.
func (l *Leader) Status() Status {
	s := l.site
	s.mu.Lock()
	s.copyFigures()
	st := Status{figures: s.seen, Name: s.name, Queue: s.g.set.Queue, Ended: s.finished}
	s.mu.Unlock()
	st.Blocked = l.Stopped()
	for _, out := range s.outlets {
		st.Outputs = append(st.Outputs, out.figures())
	}
	return st
}

// Report returns the public form of a status.
func (l *Leader) Report(st *Status) any { return l.site.g.set.Report(st) }
