package host

import "time"

// A Rate is how many bytes are taken in, Second of them a second and Burst at once. Each message
// counts as 256 bytes more than it has.
type Rate struct{ Second, Burst int64 }

// Rates are how many bytes of callbacks a [Runtime] takes in. A message has to fit into all four. The
// zero value of each number is the default that its field's comment names.
//
// Results, authorizations, choices and final events are taken in also beyond the rates, for nobody may
// be able to send them again: as many of each as the protocol lets one call have. They use up what
// comes after them.
type Rates struct {
	Call    Rate // of one callback URL: 64 KiB a second, 2 MiB at once
	Session Rate // of all callback URLs of a session: 256 KiB and 8 MiB
	Toolset Rate // of all callback URLs of a tool server: 4 MiB and 32 MiB
	Process Rate // of all: 16 MiB and 64 MiB
}

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

// overhead is what a message costs besides its bytes: the headers, and what is kept of it.
const overhead = 256

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
