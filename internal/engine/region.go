package engine

import (
	"slices"
	"strings"
)

// A Region is a part of a site that runs once over finite data: a slice, each time
// it is cut, or what hangs on constants, when the flow starts.
//
// One run is: pre (snapshots and state, complete at once), steps (batches are
// pushed, aggregates flushed, in order of construction, which is topological),
// ends (everything starts fresh the next time).
type Region struct {
	site    *Site
	id      int    // number among the slices of the site
	part    *part  // what it cannot be told apart from
	name    string // "the slice made at main.go:12", or "" for the start region
	pos     string // file:line of the call that made it
	news    bool   // an input that triggers has something new
	runs    uint64 // so far; held by the token
	pre     []func()
	steps   []func()
	ends    []func()
	deps    []*Region         // the slices from which its inputs derive
	ins     int               // inputs that can have news
	reasons []*Op             // operators that let something in
	shown   map[uint64]uint64 // of a watched graph: what this run let out; see observe.go
}

// NewSlice adds a slice to the site of h.
func NewSlice(s *Site) *Region {
	if s.g.Begun() {
		Misuse("slice.At", "the flow has been started, nothing can be added to it")
	}
	pos := caller()
	r := &Region{site: s, id: len(s.regions), part: s.newPart(), name: "the slice made at " + pos, pos: pos}
	s.regions = append(s.regions, r)
	return r
}

// String says which region it is, as messages name it. A nil region is the top level.
func (r *Region) String() string {
	switch {
	case r == nil:
		return "no slice"
	case r.name == "":
		return "the constants of " + r.site.name
	}
	return r.name
}

// Inside returns the head of a node in the slice r that lets in from.
func (r *Region) Inside(op string, from header, ready bool) Head {
	h := from.head()
	r.site.reads(h)
	switch {
	case h.site != r.site:
		Misuse(op, "the slice is at %s and the collection at %s", r.site.name, h.site.name)
	case h.region != nil && h.region.name != "":
		Misuse(op, "the collection is inside a slice already")
	}
	for _, d := range h.deps {
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
	r.part.join(h.part)
	return Head{site: r.site, region: r, ready: ready, part: r.part}
}

// Site returns where the slice is.
func (r *Region) Site() *Site { return r.site }

// Own returns the head of a node that is in r from the start, such as state.
func (r *Region) Own() Head { return Head{site: r.site, region: r, ready: true, part: r.part} }

// Outside returns the head of a node that r emits to the top level.
func (r *Region) Outside() Head { return Head{site: r.site, deps: []*Region{r}, part: r.part} }

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

// follows reports whether a run of d, another slice, may give r news.
func (r *Region) follows(d *Region) bool { return r != d && r.reaches(d, nil) != nil }

func (r *Region) atPre(f func())  { r.pre = append(r.pre, f) }
func (r *Region) atStep(f func()) { r.steps = append(r.steps, f) }
func (r *Region) atEnd(f func())  { r.ends = append(r.ends, f) }

// run runs the region once.
func (r *Region) run() {
	r.news = false
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

// topological returns regions so that each comes after those it derives from.
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
