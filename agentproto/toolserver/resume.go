package toolserver

import "fmt"

// Start goes on with what is in [Options.State]: it delivers the messages that were
// not delivered, runs the functions of accepted calls that had no result, and the
// producers of open subscriptions. It is called when all tools are added; the first
// request calls it too. A second call does nothing and returns the same error.
//
// A call whose record cannot be read is logged and left as it is.
func (s *Server) Start() error {
	s.start.Do(func() {
		err := s.loadMoves()
		var ids []digest
		if err == nil {
			ids, err = s.keptCalls()
		}
		if err != nil {
			s.startErr = fmt.Errorf("toolserver: the state cannot be read: %w", err)
			return
		}
		var all []*call
		for _, id := range ids {
			if c := s.revive(id, false); c != nil {
				all = append(all, c)
			}
		}
		s.settleMoves()
		for _, c := range all { // all are known before the first one does anything
			c.resume()
		}
	})
	return s.startErr
}

// revive makes a call in the store known to the server. It returns nil if that
// cannot be done, or must not be because the call's session is on its way to another
// instance; unless it is thawed.
func (s *Server) revive(id digest, thawed bool) *call {
	c, err := s.load(id)
	if err != nil {
		s.log.Error("call in the store cannot be resumed", "call", fmt.Sprintf("%x", id[:8]), "error", err)
		return nil
	}
	close(c.kept)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.key] != nil || !thawed && s.moves.holds(c.key.runtime, sessionOf(c.inv)) {
		return nil
	}
	c.tool = s.byName[c.inv.Operation]
	s.enter(c)
	if err := s.store.view(c.loadQuestions); err != nil {
		s.log.Error("questions of a call in the store cannot be read; the user may be asked again", "tool", c.inv.Operation, "error", err)
	}
	return c
}

// resume goes on with a call that was revived.
func (c *call) resume() {
	c.mu.Lock()
	if len(c.queue) > 0 {
		c.posting = true
		go c.deliver()
	}
	phase := c.phase
	c.mu.Unlock()
	switch {
	case phase == running && c.tool != nil && c.tool.runOnce:
		c.resolve(returned{result: c.errorResult(errRestarted)})
		c.end()
	case phase == running:
		go c.run()
	case phase == subscribed:
		go func() {
			defer c.end()
			c.produce()
		}()
	default:
		c.end()
	}
}
