package mcptools

import (
	"fmt"
	"time"
)

// A State is the condition of an MCP server.
type State string

// The values of State.
const (
	NotStarted State = "not started" // not requested yet
	Starting   State = "starting"
	Running    State = "running"
	// Idle is the state of a server that was stopped because nobody used it: see [Server].Idle. The next use starts it again.
	Idle State = "idle"
	// Ended is the state of a server that has ended by itself, or could not be started. It is started again when it is needed.
	Ended State = "ended"
	// Down is the state of a server that has ended too often. Calls fail at once. The next request for the manifest tries it
	// again.
	Down State = "down"
)

// A Status describes the condition of an MCP server.
type Status struct {
	Name  string // of the server
	State State  // of the shared program or connection or, with [Server].PerUser, of the one that lists the tools
	Since time.Time
	Err   error // why it is Ended or Down; nil otherwise
	Users int   // users with a running program or connection of their own
}

// String describes the state in words, without the server's name.
func (s Status) String() string {
	text := string(s.State)
	if !s.Since.IsZero() {
		text += " since " + s.Since.UTC().Format(time.RFC3339)
	}
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	switch {
	case s.Users == 1:
		text += "; one user has their own"
	case s.Users > 1:
		text += fmt.Sprintf("; %d users have their own", s.Users)
	}
	return text
}

// Status returns the condition of each server, in the order of [Options].Servers.
func (s *Set) Status() (all []Status) {
	for _, m := range s.members {
		m.mu.Lock()
		st := m.shared.status()
		for _, l := range m.users {
			if l.live != nil {
				st.Users++
			}
		}
		m.mu.Unlock()
		st.Name = m.server.Name
		all = append(all, st)
	}
	return all
}

// status returns the condition of the link. m.mu is held.
func (l *link) status() Status {
	switch {
	case l.live != nil:
		return Status{State: Running, Since: l.began}
	case l.connecting != nil:
		return Status{State: Starting}
	case l.down != nil:
		return Status{State: Down, Since: l.lastEnd, Err: l.down}
	case l.slept.After(l.lastEnd):
		return Status{State: Idle, Since: l.slept}
	case !l.lastEnd.IsZero():
		return Status{State: Ended, Since: l.lastEnd, Err: l.lastErr}
	}
	return Status{State: NotStarted}
}
