package callback

import (
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// refusals limits the logging of refused callbacks: a tool server that repeats a refused message would fill the log.
type refusals struct {
	mu     sync.Mutex
	logged map[refusal]*logged
}

// A refusal is a status with which callbacks of a tool server were refused.
type refusal struct {
	server capability.ServerID
	status int
}

// logged is the state of one kind of refusal.
type logged struct {
	at   time.Time // when it was logged last
	more int       // how many were not logged since
}

// logRefusalsEvery is the interval in which equal refusals are logged once.
const logRefusalsEvery = time.Minute

// note reports whether a refusal is to be logged, and how many were not logged since the last one.
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
