package agentproto

import "strings"

// A runtime is partitioned by session: all state of a session is in one partition, which follows from the id of a thread. So a
// message that names only a thread, as those of the protocol do, reaches the session whichever process receives it.

// sessionMark separates the session from the rest of a thread's id.
const sessionMark = "~"

// SessionOf returns the session that a thread belongs to: its id up to the first "~", or all of it. The root thread of a session
// has the session's id, and a thread named SESSION~NAME belongs to it. Any other thread is a session of its own.
func SessionOf(thread string) string {
	session, _, _ := strings.Cut(thread, sessionMark)
	return session
}

// MaxID is the maximum length in bytes of the id of a thread or a call. Ids are parts of URLs.
const MaxID = 150

// InSession returns an id for a thread in the session of another thread. If that id would be too long, because the session's is,
// it returns name, and the thread is a session of its own.
func InSession(thread, name string) string {
	if id := SessionOf(thread) + sessionMark + name; len(id) <= MaxID {
		return id
	}
	return name
}

// A ThreadID is the id of a thread, as the key of the thread's state.
type ThreadID string

// Affinity returns the session of the thread, which partitions it.
func (t ThreadID) Affinity() string { return SessionOf(string(t)) }

// Affinity returns the session of the call's thread, which partitions the call.
func (k CallKey) Affinity() string { return SessionOf(k.GroupID) }

// Affinity returns the session of the step's thread, which partitions the step.
func (k moveKey) Affinity() string { return SessionOf(k.GroupID) }
