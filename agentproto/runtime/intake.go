package runtime

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
// of one thread wait. What exceeds a bound is put off before its body is read, so a flood
// takes little from others (protocol part 7, threat 5).
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
}

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
