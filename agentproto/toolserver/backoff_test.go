package toolserver

import (
	"testing"
	"time"
)

// TestAttemptsByAge has messages of different ages. It would catch a schedule that begins anew after a restart, or that is ahead
// of what was waited for.
func TestAttemptsByAge(t *testing.T) {
	for age, want := range map[time.Duration]int{
		0: 0, time.Second - 1: 0, time.Second: 1, 6*time.Second - 1: 1, 6 * time.Second: 2, 36 * time.Second: 3, 96*time.Second - 1: 3, 96 * time.Second: 4,
	} {
		if got := attemptsBy(age); got != want {
			t.Errorf("%v old, %d attempts have failed, want %d", age, got, want)
		}
	}
	if a, b := attemptsBy(maxAge), attemptsBy(1000*time.Hour); a != b {
		t.Errorf("after %v there were %d attempts, and %d after 1000 hours, which are too many to count", maxAge, a, b)
	}
}
