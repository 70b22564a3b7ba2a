package agentproto

import "strings"

// A runtime is divided by session: all that it knows of a session is in one partition. The id of
// a thread says where that is. So a message that names a thread and nothing else, as those of
// the protocol do, reaches the session, whichever process gets it.

// sessionMark is what separates the session from the rest of a thread's id.
const sessionMark = "~"

// SessionOf returns the session that a thread is kept with: its id up to the first "~", or all of it. The root
// thread of a session has the session's id, and a thread that is named SESSION~NAME is kept with it.
// Any other thread is kept by itself.
func SessionOf(thread string) string {
	session, _, _ := strings.Cut(thread, sessionMark)
	return session
}

// MaxID is how many bytes the id of a thread or a call may have. It is a part of URLs.
const MaxID = 150

// InSession returns the id of a thread that is kept with the session of another one. If that would
// be too long an id, because the session's is, it is name, and the thread is kept by itself.
func InSession(thread, name string) string {
	if id := SessionOf(thread) + sessionMark + name; len(id) <= MaxID {
		return id
	}
	return name
}

// A ThreadID is the id of a thread, as the key of what is known of it.
type ThreadID string

// Affinity says that a thread is kept with its session.
func (t ThreadID) Affinity() string { return SessionOf(string(t)) }

// Affinity says that a call is kept with the session of its thread.
func (k CallKey) Affinity() string { return SessionOf(k.GroupID) }

// Affinity says that a step of a move is kept with the session of its thread.
func (k moveKey) Affinity() string { return SessionOf(k.GroupID) }
