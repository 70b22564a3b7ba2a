package timer

// A FIFO is an index of timers whose deadlines are given in order, such as those
// of one constant duration. Add, Cancel and Next then take constant time.
// Deadlines out of order are handled correctly at a price: a timer that belongs
// a few places back is moved there, and with more the next Expire or Next sorts.
type FIFO struct {
	lists lists
	queue queue
	live  int
}

// NewFIFO returns an empty FIFO.
func NewFIFO() *FIFO {
	return &FIFO{lists: newLists(1), queue: queue{head: 1}}
}

// Len returns the number of pending timers.
func (f *FIFO) Len() int { return f.live }

// Add sets the timer h to fire at the time at.
func (f *FIFO) Add(h uint32, at int64) {
	i, fresh := f.lists.enter(h)
	if fresh {
		f.live++
	} else {
		f.lists.unlink(i)
	}
	f.lists.node(i).at = at
	f.queue.add(&f.lists, i)
}

// Cancel cancels the timer h. It returns false if h is not pending.
func (f *FIFO) Cancel(h uint32) bool {
	i, ok := f.lists.find(h)
	if ok {
		f.lists.unlink(i)
		f.lists.leave(i)
		f.live--
	}
	return ok
}

// At returns the deadline of the timer h, which is pending or is being fired.
func (f *FIFO) At(h uint32) int64 { return f.lists.node(h + f.lists.heads + 1).at }

// Next returns the earliest deadline, if any timer is pending.
func (f *FIFO) Next() (at int64, ok bool) {
	i, ok := f.queue.first(&f.lists)
	if !ok {
		return 0, false
	}
	return f.lists.node(i).at, true
}

// Expire fires all timers whose deadline is now or earlier. They are no longer
// pending when they fire.
func (f *FIFO) Expire(now int64, fire func(h uint32)) {
	for {
		i, ok := f.queue.first(&f.lists)
		if !ok || f.lists.node(i).at > now {
			return
		}
		f.lists.unlink(i)
		f.live--
		fire(f.lists.handle(i))
		f.lists.leave(i)
	}
}
