package mcptools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestMB30_Rate has a resource change ten times a second for a minute, to each text twice. The test fails if events come too
// often, if a text is sent twice, or if the last one is missing.
func TestMB30_Rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		version := func() int { return int(time.Since(began) / (200 * time.Millisecond)) }
		var texts []string
		var times []time.Time
		var silent atomic.Bool
		w := &watch{
			read: func(context.Context) (string, error) {
				if silent.Load() {
					return "without a word", nil
				}
				return fmt.Sprint(min(version(), 300)), nil
			},
			send: func(_ context.Context, text, digest string) error {
				if digest != textDigest(text) {
					t.Errorf("%q has the digest %s", text, digest)
				}
				texts, times = append(texts, text), append(times, time.Now())
				return nil
			},
		}
		u := &updates{changed: make(chan struct{}, 1), over: make(chan struct{})}
		over := make(chan error)
		go func() { over <- w.follow(t.Context(), u) }()
		for range 600 {
			select {
			case u.changed <- struct{}{}:
			default:
			}
			<-time.After(100 * time.Millisecond)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if n := len(slices.Compact(slices.Clone(texts))); n != len(texts) || texts[n-1] != "300" || n > 14 || n < 10 {
			t.Errorf("the events are %q", texts)
		}
		for i, at := range times[1:] {
			if d := at.Sub(times[i]); d < watchPause {
				t.Errorf("an event came %v after another", d)
			}
		}
		n := len(texts)
		silent.Store(true)
		<-time.After(watchAgain + watchPause) // the server does not announce this change
		synctest.Wait()
		if len(texts) != n+1 {
			t.Errorf("a change that was not told is sent as %q", texts[n:])
		}
		close(u.over)
		if err := <-over; !errors.Is(err, errStreamEnded) {
			t.Errorf("it ended with %v", err)
		}
	})
}
