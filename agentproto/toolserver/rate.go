package toolserver

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// How many notifications of one runtime are taken: so many a second, and so many at once.
// They are far from what a runtime has to send that closes a thousand threads, and keep
// one that has gone mad, or whose credentials somebody has, from keeping the store busy
// (threat 28 of doc/threats.md). A migration costs much more than the others.
const (
	noticeRate, noticeBurst   = 500, 5000
	migrateRate, migrateBurst = 10, 200
)

// A bucket holds what one runtime may still send.
type bucket struct {
	left float64
	at   time.Time
}

// rates are the buckets of all runtimes for one kind of request. Only those have one that
// may send, so there are few.
type rates struct {
	perSecond, burst float64

	mu  sync.Mutex
	all map[string]*bucket
}

// take takes one request of a runtime out of its bucket. If that is empty it returns how
// long the runtime has to wait.
func (r *rates) take(runtime string, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.all[runtime]
	if b == nil {
		if r.all == nil {
			r.all = make(map[string]*bucket)
		}
		b = &bucket{r.burst, now}
		r.all[runtime] = b
	}
	b.left, b.at = min(r.burst, b.left+max(0, now.Sub(b.at).Seconds())*r.perSecond), now
	if b.left < 1 {
		return time.Duration((1 - b.left) / r.perSecond * float64(time.Second))
	}
	b.left--
	return 0
}

// slow answers a request that came too early, and reports false for others. It is 503 and
// not 429, which runtimes need not send again.
func (r *rates) slow(w http.ResponseWriter, runtime string) bool {
	wait := r.take(runtime, time.Now())
	if wait == 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	http.Error(w, "too many requests of this kind at once", http.StatusServiceUnavailable)
	return true
}
