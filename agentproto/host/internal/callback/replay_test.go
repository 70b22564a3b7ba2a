package callback

import (
	"fmt"
	"testing"
	"time"
)

// TestReplaysAreBounded checks that the record of seen messages is bounded in number and
// in time.
func TestReplaysAreBounded(t *testing.T) {
	r := newReplays()
	now := time.Unix(1e9, 0)
	first := replay{id: "first"}
	r.note(first, now)
	for i := range 5 * maxReplays / 2 {
		r.note(replay{id: fmt.Sprint(i)}, now)
		if n := len(r.young) + len(r.old); n > 2*maxReplays {
			t.Fatalf("%d messages are known, want at most %d", n, 2*maxReplays)
		}
	}
	if r.seen(first, now) || !r.seen(replay{id: fmt.Sprint(5*maxReplays/2 - 1)}, now) {
		t.Error("not the last messages are known")
	}
	r = newReplays()
	r.note(first, now)
	if !r.seen(first, now.Add(replayWindow)) {
		t.Error("forgotten within the window")
	}
	if r.seen(first, now.Add(2*replayWindow)) || len(r.young)+len(r.old) != 0 {
		t.Error("known for longer than two windows")
	}
}
