// Package subscriptions counts the open subscriptions of threads, for their limit: see [Open].
package subscriptions

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// Open holds the open subscriptions, for their limit (case S12). The program decides about subscriptions; Open only counts. What
// it does not know after a restart it learns from the next event.
//
// Invariant: an entry is true from when the program reported the subscription as open until it reported its end, and false while
// a result that may open it is on its way to the program.
type Open struct {
	mu   sync.Mutex
	Most int // limit for one thread
	open map[string]map[string]bool
	// young and old are when the last subscriptions ended: at least [recent.Most] of them.
	young, old map[agentproto.CallKey]time.Time
}

// New returns an Open with a limit of most subscriptions for a thread.
func New(most int) *Open {
	return &Open{Most: most, open: map[string]map[string]bool{}, young: map[agentproto.CallKey]time.Time{}}
}

// grace is how long events of an ended subscription are still answered 200, because they may have been on their way.
const grace = time.Minute

// IsOver reports whether a subscription ended longer ago than grace, as far as this process knows.
func (s *Open) IsOver(key agentproto.CallKey) bool {
	ended, known := s.endOf(key)
	return known && time.Since(ended) > grace
}

// HasEnded reports whether a subscription has ended, as far as this process knows.
func (s *Open) HasEnded(key agentproto.CallKey) bool {
	_, known := s.endOf(key)
	return known
}

// endOf returns when a subscription ended, if this process knows it.
func (s *Open) endOf(key agentproto.CallKey) (ended time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[key.GroupID][key.ID]; open {
		return ended, false
	}
	if ended, known = s.young[key]; !known {
		ended, known = s.old[key]
	}
	return ended, known
}

// end records that a subscription ended now.
func (s *Open) end(key agentproto.CallKey) {
	s.remove(key)
	if len(s.young) >= recent.Most {
		s.old, s.young = s.young, make(map[agentproto.CallKey]time.Time, recent.Most)
	}
	s.young[key] = time.Now()
}

// Reserve reserves a place for a subscription. It reports false if the thread has reached its limit.
func (s *Open) Reserve(key agentproto.CallKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	thread := s.open[key.GroupID]
	if _, known := thread[key.ID]; known {
		return true
	}
	if len(thread) >= s.Most {
		return false
	}
	s.set(key, false)
	return true
}

// Release undoes Reserve, unless the subscription is open.
func (s *Open) Release(key agentproto.CallKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[key.GroupID][key.ID] {
		s.remove(key)
	}
}

// Arrive counts a subscription that has moved here from another host. It may exceed the limit.
func (s *Open) Arrive(key agentproto.CallKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, true)
}

// Forget forgets the subscriptions of a thread that did not arrive after all.
func (s *Open) Forget(groupID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, groupID)
}

// See updates the counts after an effect of the program.
func (s *Open) See(e agentproto.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case agentproto.Resolve:
		if e.Resolution.Cause == agentproto.ByResult && e.Resolution.Result.Subscription {
			s.set(e.Key, true)
		} else {
			s.remove(e.Key)
		}
	case agentproto.DeliverEvent:
		s.set(e.Key, true)
	case agentproto.SubscriptionEnded:
		s.end(e.Key)
	case agentproto.Departed:
		s.remove(e.Key)
	case agentproto.Drop:
		if e.Event == agentproto.ResultArrived && !s.open[e.Key.GroupID][e.Key.ID] {
			s.remove(e.Key)
		}
	}
}

// IsOpen reports whether the program reported a subscription as open, and has not reported its end.
func (s *Open) IsOpen(key agentproto.CallKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[key.GroupID][key.ID]
}

func (s *Open) set(key agentproto.CallKey, open bool) {
	if s.open[key.GroupID] == nil {
		s.open[key.GroupID] = map[string]bool{}
	}
	s.open[key.GroupID][key.ID] = open
}

func (s *Open) remove(key agentproto.CallKey) {
	thread := s.open[key.GroupID]
	if delete(thread, key.ID); len(thread) == 0 {
		delete(s.open, key.GroupID)
	}
}

// Threads returns the number of threads with subscriptions that are open or reserved.
func (s *Open) Threads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
