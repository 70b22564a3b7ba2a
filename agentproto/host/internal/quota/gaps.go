package quota

import (
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// NoteID remembers that messages of this callback URL have ids.
func (i *Accounts) NoteID(c capability.Capability, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.url(c, now).repeats = true
}

// Repeats reports whether a message of this callback URL had an id.
func (i *Accounts) Repeats(c capability.Capability, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.url(c, now).repeats
}

// LeaveOut counts an event that is left out, and reports whether the flow has to be told that there is a
// gap. If so, marked has to follow.
func (i *Accounts) LeaveOut(c capability.Capability, now time.Time) (mark bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.left++
	if u.marked {
		return false
	}
	u.marking++
	return true
}

// Marked says whether the flow knows of the gap now. If not, the event was not left out.
func (i *Accounts) Marked(c capability.Capability, ok bool, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.marking = max(0, u.marking-1)
	if u.marked = u.marked || ok; !ok {
		u.left = max(0, u.left-1)
	}
}

// TakeLeftOut returns how many events were left out, for the event that tells of them. While the flow is
// being told of a gap, a later event does: one that comes at the same time as what is left out is not
// behind it.
func (i *Accounts) TakeLeftOut(c capability.Capability, now time.Time) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	if u.marking > 0 {
		return 0
	}
	n, u.left, u.marked = u.left, 0, false
	return n
}

// ReturnLeftOut undoes takeLeftOut, for an event that was not taken in.
func (i *Accounts) ReturnLeftOut(c capability.Capability, n int, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.left += n
	u.marked = u.marked || n > 0
}

// A fullState says whether a thread has as many events waiting as may wait, as was said last.
type fullState struct {
	number uint64
	full   bool
}

// IsFull reports whether a thread has as many events waiting as may wait.
func (i *Accounts) IsFull(thread string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.full.Get(thread, time.Now()).full
}

// Hold says whether a thread has as many events waiting as may wait. Of two that say so the one with the
// larger number is later.
func (i *Accounts) Hold(thread string, number uint64, full bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.full.Get(thread, time.Now()); number > at.number {
		*at = fullState{number, full}
	}
}
