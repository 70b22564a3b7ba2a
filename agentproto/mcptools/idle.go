package mcptools

import "time"

// A link in use is not stopped. Its uses are counted from before a connection is requested until nothing more is expected of it.
// Uses are calls with their questions to users, tasks, subscriptions, and reads of lists.

// release ends a use of the link.
func (l *link) release() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.calls--
	l.lastUse = time.Now()
	l.rest()
}

// rest schedules the stop of the program after the idle time of its server. m.mu is held.
func (l *link) rest() {
	idle := l.m.server.idle()
	switch {
	case idle == 0 || l.calls > 0 || l.live == nil || l.m.closed:
	case l.idle == nil:
		l.idle = time.AfterFunc(idle, l.sleep)
	default:
		l.idle.Reset(idle)
	}
}

// sleep stops the program, unless it was used meanwhile.
func (l *link) sleep() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.live == nil || l.calls > 0 || l.m.closed {
		return
	}
	if left := time.Until(l.lastUse.Add(l.m.server.idle())); left > 0 {
		l.idle.Reset(left)
		return
	}
	l.retire("nobody uses it")
}

// retire ends the connection because it is not needed. This does not count as an end of the server: the next use makes a new
// connection at once, after this one has ended. m.mu is held.
func (l *link) retire(why string) {
	s := l.live
	l.live, l.leaving, l.ends, l.slept = nil, s, 0, time.Now()
	l.m.tasks.Go(func() { _ = s.cs.Close() }) // the error only says how the program has ended
	l.m.log.Info("MCP server is stopped", "server", l.m.server.Name, "user", l.user, "reason", why)
}

// ending reports whether the program of the last retired connection is still running. m.mu is held.
func (l *link) ending() bool {
	if l.leaving == nil {
		return false
	}
	select {
	case <-l.leaving.ended:
		return false
	default:
		return true
	}
}
