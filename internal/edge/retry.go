package edge

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Curve is how long to wait before what failed is tried again.
type Curve struct {
	First []time.Duration // the pauses behind the first failures
	Most  time.Duration   // from then on the last pause doubles, up to this; 0 if there is no further attempt
}

// After returns the pause behind so many failures, which are one at least. It reports false if there
// is no further attempt.
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

// Wait waits for the pause behind so many failures, and for atLeast if that is longer. The pause
// is shortened or lengthened by up to half, so that what failed together is not tried again
// together. It reports false if there is no further attempt: the curve has none, ctx has ended or
// would before, or stop was closed.
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
