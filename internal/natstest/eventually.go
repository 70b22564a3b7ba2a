package natstest

import (
	"context"
	"testing"
	"time"
)

// Eventually polls real processes until they reach a state: do returns nil then. It gives
// up after limit, with the last error of do. An attempt may take two seconds, since a dead
// server does not answer.
func Eventually(t testing.TB, limit time.Duration, do func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	var last error
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := do(attempt)
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(last)
		}
	}
}
