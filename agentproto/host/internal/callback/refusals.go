package callback

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// refusals say when a callback that was refused is logged: a tool server that goes on with
// what is refused would fill the log.
type refusals struct {
	mu     sync.Mutex
	logged map[refusal]*logged
}

// A refusal is a status that callbacks of a tool server were answered.
type refusal struct {
	server capability.ServerID
	status int
}

// logged is what is remembered of a refusal.
type logged struct {
	at   time.Time // when it was logged last
	more int       // that were not logged since
}

// logRefusalsEvery is the time in which refusals that are alike are logged once.
const logRefusalsEvery = time.Minute

// note reports whether a refusal is to be logged, and how many were not since the last one.
func (r *refusals) note(what refusal, now time.Time) (more int, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.logged[what]
	if last == nil {
		if r.logged == nil {
			r.logged = map[refusal]*logged{}
		}
		r.logged[what] = &logged{at: now}
		return 0, true
	}
	if now.Sub(last.at) < logRefusalsEvery {
		last.more++
		return 0, false
	}
	more, last.more, last.at = last.more, 0, now
	return more, true
}
