package quota

import (
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// NoteID records that messages of this callback URL have ids.
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

// LeaveOut counts a dropped event, and reports whether the gap must be recorded in the flow. If so, the caller must call Marked.
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

// Marked says whether the flow now knows of the gap. If not, the event does not count as dropped.
func (i *Accounts) Marked(c capability.Capability, ok bool, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.marking = max(0, u.marking-1)
	if u.marked = u.marked || ok; !ok {
		u.left = max(0, u.left-1)
	}
}

// TakeLeftOut returns and resets the number of dropped events, for the event that reports them. While a gap is being recorded in
// the flow it returns zero, and a later event reports them: an event that arrives together with the dropped ones does not come
// after them.
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

// ReturnLeftOut undoes TakeLeftOut, for an event that was not accepted.
func (i *Accounts) ReturnLeftOut(c capability.Capability, n int, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	u.left += n
	u.marked = u.marked || n > 0
}

// A fullState is the last report on whether a thread has reached its limit of waiting events.
type fullState struct {
	number uint64
	full   bool
}

// IsFull reports whether a thread has reached its limit of waiting events.
func (i *Accounts) IsFull(thread string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.full.Get(thread, time.Now()).full
}

// Hold sets whether a thread has reached its limit of waiting events. The call with the largest number counts.
func (i *Accounts) Hold(thread string, number uint64, full bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.full.Get(thread, time.Now()); number > at.number {
		*at = fullState{number, full}
	}
}
