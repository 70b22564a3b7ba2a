package durable

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// sizeAgain is the least time between two measurements of the log, and sizeWithin bounds one of them.
const (
	sizeAgain  = time.Second
	sizeWithin = 5 * time.Second
)

// A sizeCache caches the log's latest report of its size, so that nobody has to wait for a disk or for servers.
// The log is asked on demand, at most once per sizeAgain.
type sizeCache struct {
	mu     sync.Mutex
	size   journal.Size
	at     time.Time     // when the log was asked for it; zero if it never answered
	asked  time.Time     // when the log was last asked
	asking chan struct{} // closed when the log has answered; nil if no request is under way
}

// refresh asks the log again, unless it was asked just now. It returns a channel that is closed when the answer
// is there or not needed. The request is canceled when ctx ends.
func (s *sizeCache) refresh(ctx context.Context, log journal.Log) <-chan struct{} {
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

// latest returns the log's latest report, and its time.
func (s *sizeCache) latest() (journal.Size, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size, s.at
}
