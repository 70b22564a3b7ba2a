package quota

import "time"

// A Rate is how many bytes are taken in: see host.Rate.
type Rate struct{ Second, Burst int64 }

// Rates are those of a runtime: see host.Rates, which has the defaults of what is zero.
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

// Overhead is what a message costs besides its bytes: the headers, and what is kept of it.
const Overhead = 256

// maxDebt is how far below nothing a bucket goes for what must not be put off, so that a large result
// does not end a subscription.
const maxDebt = 2 << 20

// A bucket is what may be taken in by a rate. The zero value is full.
type bucket struct {
	missing float64 // bytes, until it is full
	at      time.Time
}

// fill lets time pass.
func (b *bucket) fill(r Rate, now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.missing = max(0, b.missing-passed.Seconds()*float64(r.Second))
		b.at = now
	}
}

// wait returns after which time there is room for so many bytes, zero if there is now. More than a full
// bucket has are as many as it has.
func (b *bucket) wait(r Rate, cost int64) time.Duration {
	lacking := b.missing + float64(min(cost, r.Burst)-r.Burst)
	if lacking <= 0 {
		return 0
	}
	return max(time.Millisecond, time.Duration(lacking/float64(r.Second)*float64(time.Second)))
}

// take takes bytes out, at most so many that the debt has its bound, and returns how many.
func (b *bucket) take(r Rate, cost int64) {
	b.missing = min(b.missing+float64(cost), max(b.missing, float64(r.Burst+maxDebt)))
}

// give puts bytes back.
func (b *bucket) give(cost int64) { b.missing = max(0, b.missing-float64(cost)) }
