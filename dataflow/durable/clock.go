package durable

import "time"

// startClock starts the partition's clock where the history stands. It never goes back, and while this process
// runs it does not follow changes of the system clock.
//
// The system clock counts when a partition is restored, as far as possible. If it was ahead at an earlier
// start, the history is ahead of it now, and runs at half speed until the system clock has caught up. So a
// clock that was wrong once makes timers fire early once, and no timer waits until the clock gets there again.
// See doc/protocol.md §6.3.
func (o *owner) startClock() {
	wall := o.opts.Now().UnixNano()
	if o.last.clock == 0 {
		o.last.clock = wall - 1
	}
	is := wall - o.last.clock // by the system clock
	passed := time.Duration(is - o.last.now)
	if passed < -moment || passed > o.opts.MaxGap {
		o.metrics.wrongClocks.Add(1)
		o.opts.Logger.Warn("the clock of the system is behind the history, or ahead by more than Options.MaxGap", "partition", o.partition, "by", passed)
	}
	began, base := time.Now(), o.last.now+int64(min(max(passed, 0), o.opts.MaxGap))
	ahead := time.Duration(base - is)
	o.clock = func() int64 { return base + int64(slowed(time.Since(began), ahead)) }
}

// clockOffset returns how far the time of the partition is ahead of the system clock now; negative if it is
// behind.
func (o *owner) clockOffset() time.Duration {
	return time.Duration(o.last.clock + o.clock() - o.opts.Now().UnixNano())
}

// moment is how far the history may be ahead without slowing down.
const moment = time.Second

// slowed returns how far a clock that is ahead of the right time goes in d: half as far, as long as it is ahead
// by more than a moment.
func slowed(d, ahead time.Duration) time.Duration {
	if ahead <= moment {
		return d
	}
	return d - min(d/2, ahead)
}
