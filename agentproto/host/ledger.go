package host

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// generation is how many resolved calls are remembered at least.
const generation = 1 << 15

// A ledger knows which server has which call.
//
// It maintains:
//
//  1. a call is in live from before its invocation is posted until it is resolved,
//  2. settled of an entry is closed exactly when it leaves live,
//  3. of the calls that were resolved, the last generation is in young or old.
//
// What happens to a call is decided by the program alone; the ledger only serves
// to do what the program asks for.
type ledger struct {
	mu         sync.Mutex
	live       map[agentproto.CallKey]*entry
	young, old map[agentproto.CallKey]*server
	closed     map[string]bool // threads
}

// An entry is what the runtime knows about a live call.
type entry struct {
	server  *server       // nil for a call that was rejected
	settled chan struct{} // closed when the call is resolved: no further attempts
	// lifetime is how long the call may wait for its result, and again after a choice.
	lifetime time.Duration
}

func newLedger() *ledger {
	return &ledger{
		live: map[agentproto.CallKey]*entry{}, young: map[agentproto.CallKey]*server{}, closed: map[string]bool{},
	}
}

// add enters a call before it is put. It reports false for a key that is live.
func (l *ledger) add(key agentproto.CallKey, s *server, lifetime time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live[key] != nil {
		return false
	}
	l.live[key] = &entry{server: s, settled: make(chan struct{}), lifetime: lifetime}
	return true
}

// lifetimeOf returns the lifetime of a live call, zero of any other.
func (l *ledger) lifetimeOf(key agentproto.CallKey) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.live[key]; e != nil {
		return e.lifetime
	}
	return 0
}

// remove takes back an entry: there is no call after all.
func (l *ledger) remove(key agentproto.CallKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.live[key]; e != nil {
		delete(l.live, key)
		close(e.settled)
	}
}

// forget takes back the entries of a thread that did not arrive.
func (l *ledger) forget(groupID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, e := range l.live {
		if key.GroupID == groupID {
			delete(l.live, key)
			close(e.settled)
		}
	}
}

// settle removes a call and returns its server.
func (l *ledger) settle(key agentproto.CallKey) *server {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.live[key]
	if e == nil {
		return nil
	}
	delete(l.live, key)
	close(e.settled)
	if len(l.young) >= generation {
		l.old, l.young = l.young, make(map[agentproto.CallKey]*server, generation)
	}
	l.young[key] = e.server
	return e.server
}

// closeThread remembers that a thread is closed: of its calls none is posted any
// more.
func (l *ledger) closeThread(groupID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed[groupID] = true
}

// isClosed reports whether a thread was closed.
func (l *ledger) isClosed(groupID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed[groupID]
}

// find returns the server of a call and the channel that is closed when the call
// is resolved. Both are nil for a call that is not live.
func (l *ledger) find(key agentproto.CallKey) (*server, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.live[key]; e != nil {
		return e.server, e.settled
	}
	return nil, nil
}

// serverOf returns the server of a call that is live or was lately.
func (l *ledger) serverOf(key agentproto.CallKey) *server {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.live[key]; e != nil {
		return e.server
	}
	if s := l.young[key]; s != nil {
		return s
	}
	return l.old[key]
}

// isResolved reports whether a call was resolved lately, as far as this process knows.
func (l *ledger) isResolved(key agentproto.CallKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, young := l.young[key]
	_, old := l.old[key]
	return l.live[key] == nil && (young || old)
}
