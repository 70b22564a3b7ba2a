// Package quota bounds what callbacks cost a runtime: [Accounts] say whether a message is taken in, and
// [Turns] who is next to have one kept. Time is an argument, so both can be tried without waiting.
package quota

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// Accounts bound what callbacks cost: how many bytes come by one callback URL, for one session, from
// one tool server and altogether, and how many messages of one thread wait (threat 5 of
// doc/threats.md). Beyond its bounds each callback URL may have a few messages more, of the classes
// that must not be lost.
type Accounts struct {
	mu       sync.Mutex
	rates    Rates
	process  bucket
	toolsets map[capability.ServerID]*bucket
	sessions recent.Map[string, bucket]
	urls     recent.Map[bucketKey, urlState]

	most    int                           // that may wait, of one thread
	waiting map[string]int                // by thread
	full    recent.Map[string, fullState] // by thread
}

// A bucketKey names what a callback URL is for.
type bucketKey struct {
	server capability.ServerID
	call   agentproto.CallKey
}

// A urlState is what is remembered of a callback URL.
type urlState struct {
	bucket  bucket
	spent   [len(exceptions)]int // of the exceptions
	repeats bool                 // a message had a webhook-id: the tool server sends again what is put off
	// left is how many events were left out that nobody was told of. The flow knows that there are
	// some if marked is set, and is being told so by as many requests as marking says.
	left    int
	marked  bool
	marking int
}

// A Class is what a message does to its call, as far as bounds are concerned.
type Class int

const (
	Ordinary Class = iota // may be put off: an event, a view
	Settles               // ends the call: a result, or what is too wrong to be one
	Detours               // sends the user elsewhere
	Ends                  // is the final event of a subscription
)

// exceptions are how many messages of a class a callback URL may have beyond its bounds. A
// call has one result, at most five detours, and its subscription one final event, so a tool
// server that keeps to the protocol needs no more, and one that does not gains nothing.
var exceptions = [...]int{Ordinary: 0, Settles: 1, Detours: 5, Ends: 1}

// New returns accounts with these rates, and so many messages of a thread that may wait.
func New(r Rates, waiting int) *Accounts {
	return &Accounts{rates: r.withDefaults(), toolsets: map[capability.ServerID]*bucket{}, most: waiting, waiting: map[string]int{}}
}

// url returns what is remembered of a callback URL.
func (i *Accounts) url(c capability.Capability, now time.Time) *urlState {
	return i.urls.Get(bucketKey{c.Server, c.Key}, now)
}

// each calls f with the buckets of a callback URL.
func (i *Accounts) each(c capability.Capability, now time.Time, f func(b *bucket, r Rate)) {
	toolset := i.toolsets[c.Server]
	if toolset == nil {
		toolset = &bucket{}
		i.toolsets[c.Server] = toolset // of which there are as many as were configured
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

// Charge takes a message of so many bytes into account if there is room for it in all buckets. If there
// is not, it returns after which time there may be, and takes nothing.
func (i *Accounts) Charge(c capability.Capability, bytes int64, now time.Time) (wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, r Rate) { wait = max(wait, b.wait(r, Overhead+bytes)) })
	if wait == 0 {
		i.each(c, now, func(b *bucket, r Rate) { b.take(r, Overhead+bytes) })
	}
	return wait
}

// Owe takes bytes into account that are taken in whether there is room or not.
func (i *Accounts) Owe(c capability.Capability, bytes int64, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, r Rate) { b.take(r, bytes) })
}

// Refund gives back what was charged for a message that was not taken in after all. What is larger than
// the burst was not charged as a whole, so nothing of it is given back.
func (i *Accounts) Refund(c capability.Capability, bytes int64, now time.Time) {
	if bytes > i.rates.Call.Burst {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, _ Rate) { b.give(bytes) })
}

// Except makes an exception from the bounds for a message of a class. It reports false if
// there were as many as there may be.
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

// Restore takes back an exception for a message that was not taken in after all.
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

// Enter reports whether another callback of a thread may wait. If so, leave has to follow.
func (i *Accounts) Enter(thread string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[thread] >= i.most {
		return false
	}
	i.waiting[thread]++
	return true
}

// Leave undoes enter.
func (i *Accounts) Leave(thread string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[thread]--; i.waiting[thread] == 0 {
		delete(i.waiting, thread)
	}
}

// Waits returns how many threads there are whose messages wait.
func (i *Accounts) Waits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.waiting)
}
