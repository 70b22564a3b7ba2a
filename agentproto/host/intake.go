package host

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// An intake bounds what callbacks cost: how many bytes come by one callback URL, for one session, from
// one tool server and altogether, and how many messages of one thread wait (threat 5 of
// doc/threats.md). Beyond its bounds each callback URL may have a few messages more, of the classes
// that must not be lost.
type intake struct {
	mu       sync.Mutex
	rates    Rates
	process  bucket
	toolsets map[serverID]*bucket
	sessions recent[string, bucket]
	urls     recent[bucketKey, urlState]

	most    int                       // that may wait, of one thread
	waiting map[string]int            // by thread
	full    recent[string, fullState] // by thread
}

// A bucketKey names what a callback URL is for.
type bucketKey struct {
	server serverID
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

// A class is what a message does to its call, as far as bounds are concerned.
type class int

const (
	ordinary class = iota // may be put off: an event, a view
	settles               // ends the call: a result, or what is too wrong to be one
	detours               // sends the user elsewhere
	ends                  // is the final event of a subscription
)

// exceptions are how many messages of a class a callback URL may have beyond its bounds. A
// call has one result, at most five detours, and its subscription one final event, so a tool
// server that keeps to the protocol needs no more, and one that does not gains nothing.
var exceptions = [...]int{ordinary: 0, settles: 1, detours: 5, ends: 1}

func newIntake(b Bounds) *intake {
	return &intake{rates: b.Rates, toolsets: map[serverID]*bucket{}, most: b.Waiting, waiting: map[string]int{}}
}

// url returns what is remembered of a callback URL.
func (i *intake) url(c capability, now time.Time) *urlState {
	return i.urls.get(bucketKey{c.server, c.key}, now)
}

// each calls f with the buckets of a callback URL.
func (i *intake) each(c capability, now time.Time, f func(b *bucket, r Rate)) {
	toolset := i.toolsets[c.server]
	if toolset == nil {
		toolset = &bucket{}
		i.toolsets[c.server] = toolset // of which there are as many as were configured
	}
	with := func(b *bucket, r Rate) {
		b.fill(r, now)
		f(b, r)
	}
	with(&i.url(c, now).bucket, i.rates.Call)
	with(i.sessions.get(agentproto.SessionOf(c.key.GroupID), now), i.rates.Session)
	with(toolset, i.rates.Toolset)
	with(&i.process, i.rates.Process)
}

// charge takes a message of so many bytes into account if there is room for it in all buckets. If there
// is not, it returns after which time there may be, and takes nothing.
func (i *intake) charge(c capability, bytes int64, now time.Time) (wait time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, r Rate) { wait = max(wait, b.wait(r, overhead+bytes)) })
	if wait == 0 {
		i.each(c, now, func(b *bucket, r Rate) { b.take(r, overhead+bytes) })
	}
	return wait
}

// owe takes bytes into account that are taken in whether there is room or not.
func (i *intake) owe(c capability, bytes int64, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, r Rate) { b.take(r, bytes) })
}

// refund gives back what was charged for a message that was not taken in after all. What is larger than
// the burst was not charged as a whole, so nothing of it is given back.
func (i *intake) refund(c capability, bytes int64, now time.Time) {
	if bytes > i.rates.Call.Burst {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.each(c, now, func(b *bucket, _ Rate) { b.give(bytes) })
}

// except makes an exception from the bounds for a message of a class. It reports false if
// there were as many as there may be.
func (i *intake) except(c capability, kind class, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.url(c, now)
	if u.spent[kind] >= exceptions[kind] {
		return false
	}
	u.spent[kind]++
	return true
}

// restore takes back an exception for a message that was not taken in after all.
func (i *intake) restore(c capability, kind class, now time.Time) {
	if kind == ordinary {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if u := i.url(c, now); u.spent[kind] > 0 {
		u.spent[kind]--
	}
}

// enter reports whether another callback of a thread may wait. If so, leave has to follow.
func (i *intake) enter(thread string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[thread] >= i.most {
		return false
	}
	i.waiting[thread]++
	return true
}

// leave undoes enter.
func (i *intake) leave(thread string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waiting[thread]--; i.waiting[thread] == 0 {
		delete(i.waiting, thread)
	}
}
