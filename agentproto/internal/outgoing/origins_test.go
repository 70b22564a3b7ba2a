package outgoing

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestOriginLimiter checks that an origin without free slots delays nobody else, that a caller which
// gives up takes no slot, and that an origin is forgotten when nobody uses it.
func TestOriginLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l originLimiter
		ctx, end := context.WithCancel(t.Context())
		defer end() // a caller that still waits for a slot leaves
		var releases []func()
		for range maxAttempts {
			release, err := l.acquire(ctx, "https://hangs.example")
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		var waited atomic.Bool
		go func() {
			release, err := l.acquire(ctx, "https://hangs.example")
			if err != nil {
				return
			}
			waited.Store(true)
			release()
		}()
		gaveUp := errors.New("gave up")
		leaving, stop := context.WithCancelCause(ctx)
		left := make(chan error)
		go func() {
			_, err := l.acquire(leaving, "https://hangs.example")
			left <- err
		}()
		synctest.Wait()
		if waited.Load() {
			t.Errorf("more than %d attempts are in progress", maxAttempts)
		}
		if release, err := l.acquire(ctx, "https://other.example"); err != nil {
			t.Error("another origin:", err)
		} else {
			release()
		}
		stop(gaveUp)
		if err := <-left; !errors.Is(err, gaveUp) {
			t.Errorf("a caller gave up: %v", err)
		}
		releases[0]()
		synctest.Wait()
		if !waited.Load() {
			t.Error("a free slot is not given to the one who waits")
		}
		for _, release := range releases[1:] {
			release()
		}
		if len(l.origins) != 0 {
			t.Errorf("%d origins are kept after use", len(l.origins))
		}
	})
}
