package edge

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Curve says how long to wait before a failed attempt is repeated.
type Curve struct {
	First []time.Duration // the pauses after the first failures
	Most  time.Duration   // after these, the last pause doubles each time, up to this limit; 0 means no further attempt
}

// After returns the pause after the given number of failures, which must be at least one. It reports
// false if there is no further attempt.
func (c Curve) After(failed int) (pause time.Duration, ok bool) {
	n := len(c.First)
	switch {
	case failed <= n:
		return c.First[failed-1], true
	case c.Most == 0 || n == 0:
		return 0, false
	}
	pause = c.First[n-1]
	for range min(failed-n, 62) {
		if pause >= c.Most {
			break
		}
		pause *= 2
	}
	return min(pause, c.Most), true
}

// Wait waits for the pause after the given number of failures, or for atLeast if that is longer. It
// shortens or lengthens the pause at random by up to half, so that attempts that failed together are
// not repeated together. It reports false if there is no further attempt: the curve has none, ctx
// has ended or would end before, or stop was closed.
func (c Curve) Wait(ctx context.Context, failed int, atLeast time.Duration, stop <-chan struct{}) bool {
	pause, ok := c.After(failed)
	if !ok || ctx.Err() != nil {
		return false
	}
	pause = max(time.Duration(float64(pause)*(0.5+rand.Float64())), atLeast)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
	case <-ctx.Done():
	}
	return false
}
