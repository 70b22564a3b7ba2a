package host

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/millrace/millrace/agentproto"
)

// maxBuckets is how many callback URLs have their rate remembered: those that were used
// last.
const maxBuckets = 1 << 14

// An intake bounds what callbacks cost: how many come by one callback URL, and how many
// of one thread wait (threat 5 of doc/threats.md). Beyond its bounds each callback URL may
// have a few messages more, of the classes that must not be lost.
type intake struct {
	mu      sync.Mutex
	limit   rate.Limit
	burst   int
	buckets map[bucketKey]*list.Element
	order   list.List // of *bucket, the one that was used last in front

	most    int            // that may wait, of one thread
	waiting map[string]int // by thread
}

// A bucketKey names what a callback URL is for.
type bucketKey struct {
	server serverID
	call   agentproto.CallKey
}

type bucket struct {
	key     bucketKey
	limiter *rate.Limiter
	spent   [len(exceptions)]int // of the exceptions
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
	return &intake{
		limit: rate.Limit(b.Rate), burst: b.Burst, buckets: map[bucketKey]*list.Element{},
		most: b.Waiting, waiting: map[string]int{},
	}
}

// charge takes a callback into account. If there were too many it returns after which
// time there may be another.
func (i *intake) charge(c capability, now time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	b := i.bucket(bucketKey{c.server, c.key})
	if b.limiter.AllowN(now, 1) {
		return 0
	}
	missing := 1 - b.limiter.TokensAt(now)
	return max(time.Millisecond, time.Duration(missing/float64(i.limit)*float64(time.Second)))
}

// except makes an exception from the bounds for a message of a class. It reports false if
// there were as many as there may be.
func (i *intake) except(c capability, kind class) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	b := i.bucket(bucketKey{c.server, c.key})
	if b.spent[kind] >= exceptions[kind] {
		return false
	}
	b.spent[kind]++
	return true
}

// restore takes back an exception for a message that was not taken in after all.
func (i *intake) restore(c capability, kind class) {
	if kind == ordinary {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if b := i.bucket(bucketKey{c.server, c.key}); b.spent[kind] > 0 {
		b.spent[kind]--
	}
}

// bucket returns the bucket of a callback URL.
func (i *intake) bucket(key bucketKey) *bucket {
	if e := i.buckets[key]; e != nil {
		i.order.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if i.order.Len() >= maxBuckets {
		oldest := i.order.Back()
		delete(i.buckets, oldest.Value.(*bucket).key)
		i.order.Remove(oldest)
	}
	b := &bucket{key: key, limiter: rate.NewLimiter(i.limit, i.burst)}
	i.buckets[key] = i.order.PushFront(b)
	return b
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
