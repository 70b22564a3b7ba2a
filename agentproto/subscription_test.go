package agentproto

import (
	"fmt"
	"testing"
)

// TestRememberedEvents fails if the memory of message IDs forgets too early or grows.
func TestRememberedEvents(t *testing.T) {
	var s subscription
	for i := range 3 * rememberedEvents {
		id := fmt.Sprint(i)
		if s.repeated(id) {
			t.Fatalf("%s is new", id)
		}
		for back := range min(i+1, rememberedEvents) {
			if (back%97 == 0 || back == rememberedEvents-1) && !s.repeated(fmt.Sprint(i-back)) {
				t.Fatalf("%d was seen %d events ago", i-back, back)
			}
		}
		if len(s.Seen) > rememberedEvents {
			t.Fatalf("%d ids are remembered", len(s.Seen))
		}
	}
	if s.repeated("0") {
		t.Error("the first id should be forgotten")
	}
	for range 2 {
		if s.repeated("") {
			t.Error("an event without an id is no repetition")
		}
	}
}
