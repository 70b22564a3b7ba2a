// Package quota bounds what callbacks cost a runtime: [Accounts] decide whether a message is accepted, and [Turns] whose message
// is stored next. Most methods take the time as an argument, so that tests need not wait.
package quota

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// Accounts bound the cost of callbacks: how many bytes arrive by one callback URL, for one session, from one tool server and in
// total, and how many messages of one thread wait (threat 5 of doc/threats.md). Each callback URL may exceed its bounds by a few
// messages of the classes that must not be lost.
type Accounts struct {
	mu       sync.Mutex
	rates    Rates
	process  bucket
	toolsets map[capability.ServerID]*bucket
	sessions recent.Map[string, bucket]
	urls     recent.Map[bucketKey, urlState]

	most    int                           // how many messages of one thread may wait
	waiting map[string]int                // by thread
	full    recent.Map[string, fullState] // by thread
}

// A bucketKey identifies a callback URL.
type bucketKey struct {
	server capability.ServerID
	call   agentproto.CallKey
}

// A urlState is the state of a callback URL.
type urlState struct {
	bucket  bucket
	spent   [len(exceptions)]int // exceptions used up, by class
	repeats bool                 // a message had a webhook-id: the tool server sends a message again after a 503
	// left is how many events were dropped and not reported. If marked is set, the flow knows of the gap. Marking is how many
	// requests are telling it now.
	left    int
	marked  bool
	marking int
}

// A Class is the class of a message, by its effect on its call.
type Class int

const (
	Ordinary Class = iota // may be refused for now: an event, a view
	Settles               // ends the call: a result, or a message too malformed to be one
	Detours               // opens a detour
	Ends                  // is the final event of a subscription
)

// exceptions are how many messages of a class a callback URL may have beyond its bounds. A call has one result and at most five
// detours, and its subscription has one final event, so a tool server that follows the protocol needs no more, and another one
// gains nothing.
var exceptions = [...]int{Ordinary: 0, Settles: 1, Detours: 5, Ends: 1}

// New returns accounts with these rates. At most waiting messages of a thread may wait.
func New(r Rates, waiting int) *Accounts {
	return &Accounts{rates: r.withDefaults(), toolsets: map[capability.ServerID]*bucket{}, most: waiting, waiting: map[string]int{}}
}

// url returns the state of a callback URL.
func (i *Accounts) url(c capability.Capability, now time.Time) *urlState {
	return i.urls.Get(bucketKey{c.Server, c.Key}, now)
}

// each calls f with the buckets of a callback URL.
func (i *Accounts) each(c capability.Capability, now time.Time, f func(b *bucket, r Rate)) {
	toolset := i.toolsets[c.Server]
	if toolset == nil {
		toolset = &bucket{}
		i.toolsets[c.Server] = toolset // at most as many as are configured
	}
	with := func(b *bucket, r Rate) {
		b.fill(r, now)
		f(b, r)
	}
	with(&i.url(c, now).bucket, i.rates.Call)
	with(i.sessions.Get(agentproto.SessionOf(c.Key.GroupID), now), i.rates.Session)
	with(toolset, i.rates.Toolset)
	with(&i.process, i.rates.Process)
}

// Charge takes a message of this size from all buckets if all have room for it. Otherwise it takes nothing and returns the time
// after which they may have room.
func (i *Accounts) Charge(c capability.Capability, bytes int64, now time.Time) (wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, r Rate) { wait = max(wait, b.wait(r, Overhead+bytes)) })
	if wait == 0 {
		i.each(c, now, func(b *bucket, r Rate) { b.take(r, Overhead+bytes) })
	}
	return wait
}

// Owe takes bytes from all buckets even if they have no room.
func (i *Accounts) Owe(c capability.Capability, bytes int64, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, r Rate) { b.take(r, bytes) })
}

// Refund returns what was charged for a message that was not accepted after all. A message larger than the burst was not charged
// in full, so nothing is returned for it.
func (i *Accounts) Refund(c capability.Capability, bytes int64, now time.Time) {
	if bytes > i.rates.Call.Burst {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, _ Rate) { b.give(bytes) })
}

// Except makes an exception from the bounds for a message of a class. It reports false if all exceptions are used up.
func (i *Accounts) Except(c capability.Capability, kind Class, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	if u.spent[kind] >= exceptions[kind] {
		return false
	}
	u.spent[kind]++
	return true
}

// Restore takes back an exception for a message that was not accepted after all.
func (i *Accounts) Restore(c capability.Capability, kind Class, now time.Time) {
	if kind == Ordinary {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if u := i.url(c, now); u.spent[kind] > 0 {
		u.spent[kind]--
	}
}

// Enter reports whether another callback of a thread may wait. If so, the caller must call Leave.
func (i *Accounts) Enter(thread string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[thread] >= i.most {
		return false
	}
	i.waiting[thread]++
	return true
}

// Leave undoes Enter.
func (i *Accounts) Leave(thread string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[thread]--; i.waiting[thread] == 0 {
		delete(i.waiting, thread)
	}
}

// Waits returns the number of threads with waiting messages.
func (i *Accounts) Waits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.waiting)
}
