package dispatch

import (
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// attempts holds this process's work in progress for calls outside of the flow: deliveries and watches. They end when their call
// is resolved, and go on if it moves to another host, which does not know of them. What has to outlast the process is in the flow,
// which starts it again.
//
// An entry exists for as long as work is in progress for its call.
type attempts struct {
	mu      sync.Mutex
	of      map[agentproto.CallKey]*underWay
	watched map[agentproto.CallKey]bool // calls that this process posted and that are to be watched
}

type underWay struct {
	n       int           // how many attempts
	settled chan struct{} // closed when the call is resolved
	over    bool
}

func newAttempts() *attempts {
	return &attempts{of: map[agentproto.CallKey]*underWay{}, watched: map[agentproto.CallKey]bool{}}
}

// begin records that work for a call is in progress until end is called. Settled is closed when the call is resolved.
func (a *attempts) begin(key agentproto.CallKey) (settled <-chan struct{}, end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.of[key]
	if u == nil {
		u = &underWay{settled: make(chan struct{})}
		a.of[key] = u
	}
	u.n++
	return u.settled, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if u.n--; u.n == 0 {
			delete(a.of, key)
		}
	}
}

// settle records that a call is resolved.
func (a *attempts) settle(key agentproto.CallKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.of[key]; u != nil && !u.over {
		u.over = true
		close(u.settled)
	}
}

// posted records that this process has posted a call that is to be watched.
func (a *attempts) posted(key agentproto.CallKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watched[key] = true
}

// watch reports whether this process has posted a call that is to be watched, and removes the record of that.
func (a *attempts) watch(key agentproto.CallKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	ours := a.watched[key]
	delete(a.watched, key)
	return ours
}

// begin is [attempts.begin] for a call of the program. It runs in the process that has the call's partition, so the program knows
// here whether the call was resolved before begin. If it is resolved later, an effect settles it.
func (d *Dispatcher) begin(key agentproto.CallKey) (settled <-chan struct{}, end func()) {
	settled, end = d.attempts.begin(key)
	if _, resolved := d.program.Resolved(key); resolved {
		d.attempts.settle(key)
	}
	return settled, end
}
