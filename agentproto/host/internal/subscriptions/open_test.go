package subscriptions

import (
	"strconv"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// TestSubscribedLearns checks that a restarted runtime learns of subscriptions from their
// events.
func TestSubscribedLearns(t *testing.T) {
	s := New(1)
	key := agentproto.CallKey{GroupID: "g", ID: "1"}
	s.See(agentproto.Effect{Kind: agentproto.DeliverEvent, Key: key})
	if s.Reserve(agentproto.CallKey{GroupID: "g", ID: "2"}) {
		t.Error("there is room for another one")
	}
	if s.Release(key); len(s.open) != 1 {
		t.Error("an open subscription was released")
	}
	if s.See(agentproto.Effect{Kind: agentproto.SubscriptionEnded, Key: key}); !s.Reserve(agentproto.CallKey{GroupID: "g", ID: "2"}) {
		t.Error("there is no room after it ended")
	}
}

// TestEndedAreBounded checks that ended subscriptions are remembered in bounded memory.
func TestEndedAreBounded(t *testing.T) {
	s := New(1)
	for i := range 3*recent.Most + 1 {
		s.See(agentproto.Effect{Kind: agentproto.SubscriptionEnded, Key: agentproto.CallKey{GroupID: "g", ID: strconv.Itoa(i)}})
	}
	if n := len(s.young) + len(s.old); n > 2*recent.Most {
		t.Errorf("%d subscriptions that have ended are kept, want at most %d", n, 2*recent.Most)
	}
}
