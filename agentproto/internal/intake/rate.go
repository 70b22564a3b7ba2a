package intake

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A bucket holds the number of requests that one runtime may still send.
type bucket struct {
	left float64
	at   time.Time
}

// Rates limit how often each runtime may send one kind of request: a rate per second and a burst.
// Only runtimes that may send have a bucket, so there are few.
type Rates struct {
	PerSecond, Burst float64

	mu  sync.Mutex
	all map[string]*bucket
}

// take takes one request out of a runtime's bucket. If the bucket is empty, it returns how long the
// runtime must wait.
func (r *Rates) take(runtime string, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.all[runtime]
	if b == nil {
		if r.all == nil {
			r.all = make(map[string]*bucket)
		}
		b = &bucket{r.Burst, now}
		r.all[runtime] = b
	}
	b.left, b.at = min(r.Burst, b.left+max(0, now.Sub(b.at).Seconds())*r.PerSecond), now
	if b.left < 1 {
		return time.Duration((1 - b.left) / r.PerSecond * float64(time.Second))
	}
	b.left--
	return 0
}

// Slow answers a request that came too early, and returns false for others. It answers 503 rather
// than 429, after which runtimes need not send again.
func (r *Rates) Slow(w http.ResponseWriter, runtime string) bool {
	wait := r.take(runtime, time.Now())
	if wait == 0 {
		return false
	}
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	http.Error(w, "too many requests of this kind at once", http.StatusServiceUnavailable)
	return true
}
