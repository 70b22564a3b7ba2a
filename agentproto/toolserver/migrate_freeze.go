package toolserver

import (
	"context"
	"time"
)

// grace is how long functions may go on before they are interrupted, and drain how
// long they may take to notice.
const (
	grace = 5 * time.Second
	drain = 30 * time.Second
)

// freeze stops everything that changes a session. Functions get some time to end by
// themselves. What is interrupted runs again, here or at the destination. A call
// with [ToolOptions.RunOnce] is never interrupted.
func (s *Server) freeze(ctx context.Context, m *move) error {
	s.mu.Lock()
	m.phase, m.calls = phaseFrozen, nil
	for k, c := range s.calls {
		if m.has(k, c.inv) {
			m.calls = append(m.calls, c)
		}
	}
	s.mu.Unlock()
	for _, c := range m.calls {
		c.mu.Lock()
		producing := c.phase == subscribed
		c.mu.Unlock()
		if producing {
			c.suspend(ErrMoving)
		}
	}
	if !allReturned(ctx, m.calls, grace) {
		for _, c := range m.calls {
			if c.tool == nil || !c.tool.runOnce {
				c.suspend(ErrMoving)
			}
		}
		if !allReturned(ctx, m.calls, drain) {
			return errRunning
		}
	}
	for _, c := range m.calls {
		c.mu.Lock()
		c.moving = true
		c.mu.Unlock()
		c.cut(ErrMoving)
	}
	for _, c := range m.calls {
		select {
		case <-c.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx)
}

// allReturned waits for the functions of calls, for a while.
func allReturned(ctx context.Context, calls []*call, patience time.Duration) bool {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for _, c := range calls {
		select {
		case <-c.returned:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// thaw goes on with a session that stays. What the store has of it is the truth.
func (s *Server) thaw(m *move) {
	ids, err := s.callsOf(m.session)
	if err == nil {
		err = s.store.update(func(tx tx) error { return tx.delete(moveBucket, m.key()) })
	}
	if err != nil {
		if s.ctx.Err() == nil {
			s.log.Error("session stays frozen until the next start", "session", m.ID, "error", err)
		}
		return
	}
	late := make(map[digest]*call) // those whose functions have not noticed yet
	for _, c := range m.calls {
		c.mu.Lock()
		if c.suspended {
			late[c.id] = c
		}
		c.mu.Unlock()
	}
	var revived []*call
	for _, id := range ids {
		if c := s.revive(id, true); c != nil {
			revived = append(revived, c)
		} else if c := late[id]; c != nil {
			go func() {
				<-c.gone
				if c := s.revive(id, true); c != nil {
					c.resume()
				}
			}()
		}
	}
	s.mu.Lock()
	delete(s.moves, m.session)
	cancelled := m.cancelled
	s.mu.Unlock()
	for _, meant := range cancelled {
		s.abandon(meant)
	}
	for _, c := range revived {
		c.resume()
	}
}
