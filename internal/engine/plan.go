package engine

import (
	"fmt"
	"slices"
	"sync"
)

// Location returns the number of the location that made a step.
func (r *Recording) Location(step int) int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Plans[step].Location
}

// A Plan says what a step takes. It is data: the same plan gives the same step, whoever
// made it. Plans are made by the four planners: that of a live graph takes whatever waits,
// that of a simulated one what the chooser says, that of a log-driven one what the history
// says, and a replay has those that were recorded.
type Plan struct {
	// Now is the logical time in nanoseconds since the history began, and never goes back.
	// Zero means that the first operator that asks reads the clock of the graph's driver; a
	// plan that fires says it.
	Now int64
	// Origin is what the wall clock shows when Now is 0, in nanoseconds since 1970. The first step
	// says it for all that follow.
	Origin int64
	Start  bool   // run what hangs on constants, before anything else: the first step
	Fire   bool   // fire what is due at Now, in order of deadlines, before the records
	Take   []Take // records, in the order in which they are pushed
	Cut    Cut    // the slices that run if they have news
}

// A Take is a run of records of one input. The input has taken them, in the same order, when
// the step is made; only in a recording they are in the plan.
type Take struct {
	Op      int32 // the operator of the input
	N       int
	Records any // what the input's load understands, or nil
}

// A Cut says which slices run if they have news.
type Cut struct {
	Some []*Region // these, and no others, if not nil
}

// CutAll cuts every slice that has news, and CutNone none.
var CutAll, CutNone = Cut{}, Cut{[]*Region{}}

// Has reports whether r runs if it has news.
func (c Cut) Has(r *Region) bool { return c.Some == nil || slices.Contains(c.Some, r) }

// A Recording is the history of a run: the plans of its steps with their records. Given
// the same graph it determines everything.
type Recording struct {
	Mu    sync.Mutex
	Plans []recordedPlan

	OnPublished func(step, site int) // see Published
}

type recordedPlan struct {
	Location int // number of the location
	Plan
}

// Len returns the number of steps.
func (r *Recording) Len() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return len(r.Plans)
}

// Copy returns a plan that can be kept, with copies of the records that it takes.
func (s *Location) Copy(p *Plan) Plan {
	kept := *p
	kept.Take = slices.Clone(p.Take)
	at := make(map[int32]int) // of each input, how many come before
	for i := range kept.Take {
		t := &kept.Take[i]
		t.Records = s.Inputs[t.Op].CopyTaken(at[t.Op], t.N)
		at[t.Op] += t.N
	}
	return kept
}

// Published has f called whenever a step has been published, by whoever made it and before
// the location makes another one. It is set before the flow starts. Steps of different
// locations are published at the same time.
func (r *Recording) Published(f func(step, site int)) { r.OnPublished = f }

// Add appends a plan of a step that was made, and returns its number.
func (r *Recording) Add(s *Location, p Plan) int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Plans = append(r.Plans, recordedPlan{s.Number, p})
	return len(r.Plans) - 1
}

// Load has the inputs take the records of a recorded plan.
func (s *Location) Load(p *Plan) error {
	for _, t := range p.Take {
		if int(t.Op) >= len(s.Inputs) || s.Inputs[t.Op] == nil {
			return fmt.Errorf("operator %d is no input at %s", t.Op, s.Name)
		}
		if err := s.Inputs[t.Op].Load(t.Records); err != nil {
			return err
		}
	}
	return nil
}
