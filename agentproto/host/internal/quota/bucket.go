package quota

import "time"

// A Rate limits bytes: see host.Rate.
type Rate struct{ Second, Burst int64 }

// Rates are the rates of a runtime: see host.Rates, which documents the defaults.
type Rates struct{ Call, Session, Toolset, Process Rate }

func (r Rates) withDefaults() Rates {
	set := func(at *Rate, second, burst int64) {
		if at.Second == 0 {
			at.Second = second
		}
		if at.Burst == 0 {
			at.Burst = burst
		}
	}
	set(&r.Call, 64<<10, 2<<20)
	set(&r.Session, 256<<10, 8<<20)
	set(&r.Toolset, 4<<20, 32<<20)
	set(&r.Process, 16<<20, 64<<20)
	return r
}

// Overhead is what a message costs in addition to its bytes, for headers and what is stored of it.
const Overhead = 256

// maxDebt is how far a bucket may be overdrawn by messages that must not be refused, so that a large result does not end a
// subscription.
const maxDebt = 2 << 20

// A bucket is a token bucket of bytes. The zero value is full.
type bucket struct {
	missing float64 // bytes missing to be full
	at      time.Time
}

// fill adds what has accumulated until now.
func (b *bucket) fill(r Rate, now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.missing = max(0, b.missing-passed.Seconds()*float64(r.Second))
		b.at = now
	}
}

// wait returns the time after which the bucket has room for so many bytes, zero for now. A cost larger than a full bucket counts
// as a full bucket.
func (b *bucket) wait(r Rate, cost int64) time.Duration {
	lacking := b.missing + float64(min(cost, r.Burst)-r.Burst)
	if lacking <= 0 {
		return 0
	}
	return max(time.Millisecond, time.Duration(lacking/float64(r.Second)*float64(time.Second)))
}

// take takes bytes from the bucket, but never lets it overdraw beyond maxDebt.
func (b *bucket) take(r Rate, cost int64) {
	b.missing = min(b.missing+float64(cost), max(b.missing, float64(r.Burst+maxDebt)))
}

// give returns bytes to the bucket.
func (b *bucket) give(cost int64) { b.missing = max(0, b.missing-float64(cost)) }
