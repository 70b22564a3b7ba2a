package sim

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// An event is a move of an execution.
type event struct {
	simulate.Effect
	place  int // where it was chosen; -1 if nothing else could happen
	before set // events that happen before it, in whatever order independent moves are made
}

// A history is what was done with one object, in order.
type history []done

type done struct {
	event  int
	access engine.Access
}

// A set of events.
type set []uint64

func (s set) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s set) join(t set) {
	for i, x := range t {
		s[i] |= x
	}
}

func (s set) meets(t set) bool {
	for i, x := range t {
		if s[i]&x != 0 {
			return true
		}
	}
	return false
}

// races finds, for each move of an execution, the moves before it that could have come after it,
// where somebody could tell.
func (s *search) races() {
	words := len(s.events)/64 + 1
	lastOf := make(map[simulate.Name]int)
	objects := make(map[engine.Object]history)
	sent := make(map[engine.Object][]int)
	taken := make(map[engine.Object][]int)
	barrier := -1
	for i := range s.events {
		e := &s.events[i]
		e.before = make(set, words)
		after := func(j int) {
			e.before.add(j)
			e.before.join(s.events[j].before)
		}
		if j, ok := lastOf[e.Name]; ok {
			after(j)
		}
		lastOf[e.Name] = i
		for _, o := range e.Took {
			if from := sent[o]; len(from) > 0 {
				after(from[0])
				if !e.Again {
					sent[o] = from[1:]
				}
			}
		}
		for _, o := range e.Behind {
			for _, j := range taken[o] {
				after(j)
			}
		}
		for _, j := range slices.Backward(s.rivals(i, barrier, objects)) {
			if !e.before.has(j) {
				s.race(j, i)
				after(j)
			}
		}
		for _, t := range e.Touched {
			objects[t.Object] = append(objects[t.Object], done{i, t.Access})
		}
		for _, o := range e.Sent {
			sent[o] = append(sent[o], i)
		}
		for _, o := range e.Took {
			o.Key = 0
			taken[o] = append(taken[o], i)
		}
		if e.All {
			barrier = i
		}
	}
}

// rivals returns the events before event i that it depends on, in order. Of what happens before
// one of these anyway, some are left out.
func (s *search) rivals(i, barrier int, objects map[engine.Object]history) (all []int) {
	e := &s.events[i]
	if e.All {
		for j := max(barrier, 0); j < i; j++ {
			all = append(all, j)
		}
		return all
	}
	if barrier >= 0 {
		all = append(all, barrier)
	}
	for _, t := range e.Touched {
		for _, d := range slices.Backward(objects[t.Object]) {
			if d.event < barrier {
				break
			}
			if t.Conflicts(d.access) {
				all = append(all, d.event)
			}
			if d.access&engine.Writes != 0 {
				break // all before it happen before it
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// race has event i be tried before event j, if it could have come before it.
func (s *search) race(j, i int) {
	e, p := &s.events[i], &s.events[j]
	if p.place < 0 || e.place < 0 { // it had to wait until nothing else could happen
		return
	}
	at := s.stack[p.place]
	if at.among == 1 {
		return
	}
	words := len(s.events)/64 + 1
	between := make(set, words) // what came after j and does not need it
	var heads []simulate.Name   // of these, what can come first
	for k := j + 1; k < i; k++ {
		x := &s.events[k]
		if x.before.has(j) {
			continue
		}
		if !x.before.meets(between) && x.place >= 0 {
			heads = append(heads, x.Name)
		}
		between.add(k)
	}
	if !e.before.meets(between) {
		if !slices.Contains(at.moves, e.Name) {
			return // what j did made it possible
		}
		heads = append([]simulate.Name{e.Name}, heads...)
	}
	first := -1
	for _, h := range heads {
		k := slices.Index(at.moves, h)
		if k >= 0 && at.back[k] {
			return
		}
		if first < 0 {
			first = k
		}
	}
	if first >= 0 {
		at.back[first] = true
		return
	}
	for k := range at.back { // so nothing is missed
		at.back[k] = true
	}
}
