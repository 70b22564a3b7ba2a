package durable

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// How often what the log takes is measured at most, and how long that may take.
const (
	sizeAgain  = time.Second
	sizeWithin = 5 * time.Second
)

// A sizing keeps what the log said last of what it takes, so that nobody has to wait for a disk or
// for servers. The log is asked when somebody wants to know, not more often than sizeAgain.
type sizing struct {
	mu     sync.Mutex
	size   journal.Size
	at     time.Time     // when that was; zero if it never was
	asked  time.Time     // when the log was asked last
	asking chan struct{} // closed when it has answered; nil if nobody asks
}

// refresh asks a log again, unless it was asked just now, and returns a channel that is closed when
// that is over. The log is asked until ctx ends.
func (s *sizing) refresh(ctx context.Context, log journal.Log) <-chan struct{} {
	sized, ok := log.(journal.Sized)
	if !ok {
		return closed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking != nil {
		return s.asking
	}
	now := time.Now()
	if !s.asked.IsZero() && now.Sub(s.asked) < sizeAgain {
		return closed
	}
	asking := make(chan struct{})
	s.asked, s.asking = now, asking
	go func() {
		ctx, cancel := context.WithTimeout(ctx, sizeWithin)
		defer cancel()
		size, err := sized.Size(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.size, s.at = size, now
		}
		s.asking = nil
		close(asking)
	}()
	return asking
}

// latest returns what the log said last, and when.
func (s *sizing) latest() (journal.Size, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, s.at
}
