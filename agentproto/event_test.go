package agentproto

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestIncompleteEvents delivers and relays events that lack a member of their kind. It catches an event that the
// program accepts and then panics on; a durable program would panic at each start.
func TestIncompleteEvents(t *testing.T) {
	tests := []struct {
		e     Event
		inner bool // the program's own, also refused when another program forwards it
		err   string
	}{
		{Event{Kind: ResultArrived}, false, "kind 1 without its Result"},
		{Event{Kind: OAuthArrived}, false, "kind 2 without its OAuth"},
		{Event{Kind: ChoiceArrived, OAuth: &OAuth{}}, false, "kind 3 without its Choice"},
		{Event{Kind: SubscriptionEventArrived}, false, "kind 9 without its Subscription"},
		{Event{}, false, "unknown kind 0"},
		{Event{Kind: notAccepted}, true, "unknown kind 13"},
		{Event{Kind: deadlineOver}, false, "unknown kind 14"},
		{Event{Kind: ordered}, false, "unknown kind 16"},
		{Event{Kind: 200}, false, "unknown kind 200"},
	}
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{})
		h.call(k1, nil)
		h.deliver(k1, subscribed("x"))
		for i, test := range tests {
			err := h.Deliver(t.Context(), k1, test.e)
			if err == nil || !strings.HasSuffix(err.Error(), test.err) {
				t.Errorf("%+v: %v, want %s", test.e, err, test.err)
			}
			err = h.Relay(t.Context(), &Forwarded{k1, "m", uint64(i + 1), Relayed{Event: test.e}})
			if test.inner && err != nil || !test.inner && (err == nil || !strings.HasSuffix(err.Error(), test.err)) {
				t.Errorf("relayed, %+v: %v, want %s", test.e, err, test.err)
			}
		}
		synctest.Wait()
		if err := h.Err(); err != nil {
			t.Error(err)
		}
		h.stop()
	})
}
