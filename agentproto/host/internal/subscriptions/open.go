// Package subscriptions knows which subscriptions are open, for their bound: see [Open].
package subscriptions

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// Open are the subscriptions that are open, for their bound (case S12). What
// happens to one is decided by the program; this only counts, so what it does not know of
// after a restart it learns from the next event.
//
// It maintains that an entry is true from when the program said that the subscription is
// open until it said that it is not, and false while a result that may open it is on its
// way to the program.
type Open struct {
	mu   sync.Mutex
	Most int // of one thread
	open map[string]map[string]bool
	// young and old have when the last subscriptions ended: maxRecent of them at least.
	young, old map[agentproto.CallKey]time.Time
}

// New returns an Open that permits a thread so many.
func New(most int) *Open {
	return &Open{Most: most, open: map[string]map[string]bool{}, young: map[agentproto.CallKey]time.Time{}}
}

// grace is how long events of a subscription that has ended are answered 200: they may have been on
// their way.
const grace = time.Minute

// IsOver reports whether a subscription ended longer ago than events are on their way, as far as
// this process knows.
func (s *Open) IsOver(key agentproto.CallKey) bool {
	ended, known := s.endOf(key)
	return known && time.Since(ended) > grace
}

// HasEnded reports whether a subscription has ended, as far as this process knows.
func (s *Open) HasEnded(key agentproto.CallKey) bool {
	_, known := s.endOf(key)
	return known
}

// endOf returns when a subscription ended, if this process knows that.
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

// end notes that a subscription ended now.
func (s *Open) end(key agentproto.CallKey) {
	s.remove(key)
	if len(s.young) >= recent.Most {
		s.old, s.young = s.young, make(map[agentproto.CallKey]time.Time, recent.Most)
	}
	s.young[key] = time.Now()
}

// Reserve makes room for a subscription. It reports false if the thread has as many as it
// may have.
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

// Release undoes reserve, unless the subscription is open.
func (s *Open) Release(key agentproto.CallKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[key.GroupID][key.ID] {
		s.remove(key)
	}
}

// Arrive counts a subscription that another host had. It may be one too many.
func (s *Open) Arrive(key agentproto.CallKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, true)
}

// Forget forgets the subscriptions of a thread that did not arrive.
func (s *Open) Forget(groupID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, groupID)
}

// See follows what the program does.
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

// IsOpen reports whether the program said that a subscription is open, and not that it is
// over.
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

// Threads returns how many threads there are with subscriptions that are open, or may be.
func (s *Open) Threads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
