package mcptools

import (
	"fmt"
	"time"
)

// A State is what there is of an MCP server.
type State string

// The values of State.
const (
	NotStarted State = "not started" // nobody has asked for it yet
	Starting   State = "starting"
	Running    State = "running"
	// Idle is for one that was stopped because nobody used it: see [Server].Idle. It starts again when somebody does.
	Idle State = "idle"
	// Ended is for one that has ended by itself, or could not be started. It starts again when somebody needs it.
	Ended State = "ended"
	// Down is for one that has ended too often, so that calls fail at once. It is tried again for the next request for the manifest.
	Down State = "down"
)

// A Status is how an MCP server is.
type Status struct {
	Name  string // of the server
	State State  // of the program or connection that users share or, with [Server].PerUser, that the tools are listed with
	Since time.Time
	Err   error // why it is Ended or Down
	Users int   // how many users have a program or connection of their own that runs
}

// String says it in words.
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

// Status returns how the servers are, in the order of [Options].Servers.
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

// status is that of the link. m.mu is held.
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
