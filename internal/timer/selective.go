package timer

import "slices"

// A Selective is an index that fires only the timers that a function allows. It is for simulations,
// in which few timers are pending: Add, Cancel and Next take time linear in their number.
type Selective struct {
	may  func(h uint32) bool
	all  []selected // in the order in which they will fire
	last selected   // the last timer that was fired
}

type selected struct {
	h  uint32
	at int64
}

// NewSelective returns an empty index. Next and Expire consider only the timers for which may
// reports true.
func NewSelective(may func(h uint32) bool) *Selective { return &Selective{may: may} }

// Len returns the number of pending timers.
func (s *Selective) Len() int { return len(s.all) }

// Add sets the timer h to fire at the time at.
func (s *Selective) Add(h uint32, at int64) {
	s.Cancel(h)
	i := len(s.all)
	for i > 0 && s.all[i-1].at > at {
		i--
	}
	s.all = slices.Insert(s.all, i, selected{h, at})
}

// Cancel cancels the timer h. It returns false if h is not pending.
func (s *Selective) Cancel(h uint32) bool {
	i := s.find(h)
	if i >= 0 {
		s.all = slices.Delete(s.all, i, i+1)
	}
	return i >= 0
}

func (s *Selective) find(h uint32) int {
	return slices.IndexFunc(s.all, func(x selected) bool { return x.h == h })
}

// At returns the deadline of the timer h, which is pending or is being fired.
func (s *Selective) At(h uint32) int64 {
	if i := s.find(h); i >= 0 {
		return s.all[i].at
	}
	return s.last.at
}

// Next returns the earliest deadline, if any timer that may fire is pending.
func (s *Selective) Next() (at int64, ok bool) {
	i := s.next()
	if i < 0 {
		return 0, false
	}
	return s.all[i].at, true
}

func (s *Selective) next() int {
	return slices.IndexFunc(s.all, func(x selected) bool { return s.may(x.h) })
}

// Expire fires all timers that may fire and whose deadline is now or earlier. They are no longer
// pending when they fire.
func (s *Selective) Expire(now int64, fire func(h uint32)) {
	for {
		i := s.next()
		if i < 0 || s.all[i].at > now {
			return
		}
		s.last = s.all[i]
		s.all = slices.Delete(s.all, i, i+1)
		fire(s.last.h)
	}
}

// Each calls do with the pending timers in the order in which they will fire, including those that
// may not fire now. No timer may be set or cancelled in the meantime.
func (s *Selective) Each(do func(h uint32, at int64)) {
	for _, x := range s.all {
		do(x.h, x.at)
	}
}
