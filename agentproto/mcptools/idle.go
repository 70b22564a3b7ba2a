package mcptools

import "time"

// A link that is used is not stopped. Its uses are counted, from before somebody asks for its connection until nothing is expected of it: calls
// with what they ask their users, tasks, subscriptions, and lists that are read.

// release ends a use of the link.
func (l *link) release() {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.calls--
	l.lastUse = time.Now()
	l.rest()
}

// rest has the program stopped once nobody has used it for as long as its server says. m.mu is held.
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

// retire ends the connection because it is not needed. That is no end of the server that counts: the next use makes another one at once, behind the
// end of this one. m.mu is held.
func (l *link) retire(why string) {
	s := l.live
	l.live, l.leaving, l.ends, l.slept = nil, s, 0, time.Now()
	l.m.tasks.Go(func() { _ = s.cs.Close() }) // it says how the program has ended
	l.m.log.Info("MCP server is stopped", "server", l.m.server.Name, "user", l.user, "reason", why)
}

// ending reports whether the program of the last connection has not ended yet. m.mu is held.
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
