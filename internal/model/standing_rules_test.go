package model

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// rules is a membership that checks the rules of a plan:
//
//   - A location starts once, before anything else happens there. Its time never goes back.
//   - Timers fire before the records of their step, not before their deadlines, and in the
//     order of their deadlines.
//   - Each record that is taken was accepted, and is taken once. The records of one sender
//     are taken in the order in which it sent them. If a send returned before another send
//     began, its record is taken first.
//   - Each answer belongs to a call that was requested, and arrives once. Each element from
//     another location was sent before it arrives.
//   - Slices are cut after the records, and only if a slice has news. At the end of the step
//     no slice has news.
//   - At the end every accepted record has been taken.
//
// Timers may be late, because the operating system decides when they fire: a record may be
// taken after a deadline whose timer fires in a later step.
type rules struct {
	sites map[int]*ruled
	left  map[Record][]sentAt // records that were accepted and not yet taken, in order of sending
	more  bool                // no two records are equal
	last  map[int]int         // by sender, the number of the last record taken
	begun int64               // the latest start of a send among the records taken
	calls map[int]bool        // keys of extra calls that were answered
	moved int                 // number of elements taken at another location
}

// ruled is the state of a location.
type ruled struct {
	started bool
	now     int64
	step    int
	fired   int64 // the last deadline that fired in this step
	taken   bool  // a record was taken in this step
	cut     bool
}

// A sentAt is the position of a record among those of its sender.
type sentAt struct {
	of     *sending
	number int
}

func newRules(r *production) *rules {
	m := &rules{sites: make(map[int]*ruled), left: make(map[Record][]sentAt), last: make(map[int]int), calls: make(map[int]bool), more: true}
	numbers := make(map[int]int)
	for i := range r.sent { // each sender's in order
		x := &r.sent[i]
		for _, rec := range x.accepted {
			if kinds[r.p.nodes[rec.input].op.out].shape == listed {
				rec.key = 0
			}
			numbers[x.by]++
			m.left[rec] = append(m.left[rec], sentAt{x, numbers[x.by]})
			m.more = m.more && len(m.left[rec]) == 1
		}
	}
	return m
}

func (m *rules) possible(w *walk, e simulate.Event) error {
	s := m.sites[e.Location]
	if s == nil {
		s = &ruled{step: -1}
		m.sites[e.Location] = s
	}
	if s.step != e.Step {
		*s = ruled{started: s.started, now: s.now, step: e.Step}
	}
	if e.Now != 0 && e.Now < s.now {
		return fmt.Errorf("it was %d already", s.now)
	}
	s.now = max(s.now, e.Now)
	switch {
	case s.cut:
		return fmt.Errorf("slices were cut in this step")
	case e.Start && s.started:
		return fmt.Errorf("the location was started before")
	case e.Start:
		s.started = true
	case !s.started:
		return fmt.Errorf("the location has not been started")
	case e.Fire:
		if next, ok := w.steps.Deadline(e.Location); !ok || next != e.Due {
			return fmt.Errorf("the earliest deadline is %d, there is one: %v", next, ok)
		}
		if s.taken || e.Due > e.Now || e.Due < s.fired {
			return fmt.Errorf("records were taken: %v, the last deadline was %d", s.taken, s.fired)
		}
		s.fired = e.Due
	case e.Cut:
		s.cut = true
		if w.steps.News(e.Location) == 0 {
			return fmt.Errorf("no slice has news")
		}
	default:
		s.taken = true
		return m.take(w, e)
	}
	return nil
}

// take takes a record, or returns why it cannot be taken.
func (m *rules) take(w *walk, e simulate.Event) error {
	if e.Location != 0 {
		if e.In != w.moves {
			return nil // the program's own sends are compared with the model
		}
		if m.moved++; m.moved > len(w.whole.moved) || w.whole.moved[m.moved-1] >= e.Step {
			return fmt.Errorf("it is number %d, and of %d that were sent it was not before", m.moved, len(w.whole.moved))
		}
		return nil
	}
	i := w.ops.node(e.In.Number())
	if i == len(w.p.nodes) { // an extra call
		k := e.Key.(int)
		if step, asked := w.whole.asked[k]; asked && step < e.Step && !m.calls[k] {
			m.calls[k] = true
			return nil
		}
		return fmt.Errorf("nobody asked, or it was answered")
	}
	if w.p.nodes[i].op.edge != input {
		return nil // the model decides what may come
	}
	rec := Record{input: i, value: e.Value.(int)}
	if e.Key != nil {
		rec.key = e.Key.(int)
	}
	all := m.left[rec]
	if len(all) == 0 {
		return fmt.Errorf("nobody sent it, or it was taken before")
	}
	x := all[0]
	if m.left[rec] = all[1:]; !m.more {
		return nil
	}
	if x.number < m.last[x.of.by] {
		return fmt.Errorf("sender %d sent it before what was taken of it last", x.of.by)
	}
	if x.of.ended < m.begun {
		return fmt.Errorf("it was accepted before another that is taken was sent")
	}
	m.last[x.of.by], m.begun = x.number, max(m.begun, x.of.began)
	return nil
}

func (m *rules) stepped(w *walk, step int) error {
	site := historyOf(&w.run.recording).Location(step)
	if n := w.steps.News(site); n > 0 {
		return fmt.Errorf("%d slices have news and were not cut", n)
	}
	return nil
}

func (m *rules) ended(*walk) error {
	for rec, all := range m.left {
		if len(all) > 0 {
			return fmt.Errorf("%v was accepted and is lost", History{rec})
		}
	}
	return nil
}
