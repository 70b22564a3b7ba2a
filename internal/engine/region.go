package engine

import (
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/engine/callsite"
)

// A Region is a part of a location that runs once over finite data: a slice, each time it is cut, or what depends on constants,
// when the flow starts.
//
// A run consists of pre (snapshots and state, complete at once), steps (batches are pushed and aggregates flushed, in order of
// construction, which is topological) and ends (everything is reset for the next run).
type Region struct {
	Loc     *Location
	id      int    // index among the slices of the location
	Name    string // "the slice made at main.go:12", or "" for the start region
	pos     string // file:line of the call that made it
	News    bool   // a triggering input has something new
	again   bool   // this run asks for another one
	runs    uint64 // so far; held by the token
	pre     []func()
	steps   []func()
	ends    []func()
	deps    []*Region         // the slices from which its inputs derive
	ins     int               // inputs that can have news
	Reasons []*Op             // operators that let something in
	ordered bool              // an operator behind it observes the order of what it lets in; of a simulated graph
	shown   map[uint64]uint64 // of a watched graph: what this run let out; see observe.go
}

// NewSlice adds a slice to the location s.
func NewSlice(s *Location) *Region {
	if s.Graph.Begun() {
		Misuse("slice.At", "the flow has been started, nothing can be added to it")
	}
	pos := callsite.Caller()
	r := &Region{Loc: s, id: len(s.Regions), Name: "the slice made at " + pos, pos: pos}
	s.Regions = append(s.Regions, r)
	return r
}

// String returns the name of the region for messages. A nil region is the top level.
func (r *Region) String() string {
	switch {
	case r == nil:
		return "no slice"
	case r.Name == "":
		return "the constants of " + r.Loc.Name
	}
	return r.Name
}

// Inside returns the head of the node with which the slice r lets in from.
func (r *Region) Inside(op string, from Header, ready bool) Head {
	h := from.Where()
	r.Loc.Reads(h)
	switch {
	case h.Loc != r.Loc:
		Misuse(op, "the slice is at %s and the collection at %s", r.Loc.Name, h.Loc.Name)
	case h.Region != nil && h.Region.Name != "":
		Misuse(op, "the collection is inside a slice already")
	}
	for _, d := range h.Deps {
		if path := d.reaches(r, nil); path != nil {
			names := make([]string, len(path))
			for i, p := range path {
				names[i] = p.String()
			}
			Misuse(op, "the collection is made from what the slice itself emits: %s; feedback has to pass through slice.State, an input or another location", strings.Join(names, " ← "))
		}
		if !slices.Contains(r.deps, d) {
			r.deps = append(r.deps, d)
		}
	}
	r.ins++
	return Head{Loc: r.Loc, Region: r, Ready: ready}
}

// Location returns the location of the slice.
func (r *Region) Location() *Location { return r.Loc }

// Own returns the head of a node that is in r from the start, such as state.
func (r *Region) Own() Head { return Head{Loc: r.Loc, Region: r, Ready: true} }

// Outside returns the head of a node that r emits to the top level.
func (r *Region) Outside() Head { return Head{Loc: r.Loc, Deps: []*Region{r}} }

// reaches returns the slices on a way from r back to target, or nil.
func (r *Region) reaches(target *Region, path []*Region) []*Region {
	path = append(path, r)
	if r == target {
		return path
	}
	for _, d := range r.deps {
		if p := d.reaches(target, path); p != nil {
			return p
		}
	}
	return nil
}

// AtPre adds f to what a run does first.
func (r *Region) AtPre(f func()) { r.pre = append(r.pre, f) }

// AtStep adds f to what a run does in order of construction.
func (r *Region) AtStep(f func()) { r.steps = append(r.steps, f) }

// AtEnd adds f to what a run does last, to reset for the next run.
func (r *Region) AtEnd(f func()) { r.ends = append(r.ends, f) }

// Again makes the region run once more when this run is over.
func (r *Region) Again() { r.again = true }

// run runs the region, and again as long as a run asks for another.
func (r *Region) run() {
	for r.runOnce(); r.again; r.runOnce() {
		r.again = false
	}
}

func (r *Region) runOnce() {
	r.News = false
	r.runs++
	for _, f := range r.pre {
		f()
	}
	for _, f := range r.steps {
		f()
	}
	for _, f := range r.ends {
		f()
	}
}

// topological returns regions in an order in which each comes after those it derives from.
func topological(regions []*Region) []*Region {
	out := make([]*Region, 0, len(regions))
	var visit func(*Region)
	visit = func(r *Region) {
		if slices.Contains(out, r) {
			return
		}
		for _, d := range r.deps {
			visit(d)
		}
		out = append(out, r)
	}
	for _, r := range regions {
		visit(r)
	}
	return out
}

// A Trigger makes a new version of a snapshot run its slice.
type Trigger struct {
	Region  *Region
	passive bool
}

// Pull gives the slice news, unless the snapshot is passive.
func (t *Trigger) Pull() {
	t.Region.touch()
	if !t.passive {
		t.Region.News = true
	}
}

// Disarm keeps a new version from running the slice.
func (t *Trigger) Disarm() {
	if !t.passive {
		t.passive = true
		t.Region.ins--
	}
}

func (t *Trigger) makePassive(h *Head, op *Op) {
	if t == nil {
		Misuse(op.Name, "the collection is no snapshot: only what slice.Snapshot, SnapshotOptional or SnapshotEntries returned can be passive")
	}
	t.Disarm()
	op.passes(h)
}

// MakePassive keeps a change of what n is a snapshot of from running the slice.
func (n *KeyedNode[K, V]) MakePassive(op *Op) {
	n.Trigger.makePassive(&n.Head, op)
}
