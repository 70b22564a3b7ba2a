package callback

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

const (
	// replayWindow is how long a message is recognized at least: as long as its signature is valid, which is five minutes before
	// and after its time.
	replayWindow = 10 * time.Minute
	// maxReplays is how many messages are recognized at least.
	maxReplays = 1 << 15
	// maxMessageID is the length up to which a webhook-id is used unchanged.
	maxMessageID = 128
)

// messageIDOf returns the webhook-id of a message, or "" without one. A long one is replaced by its digest, because it is stored
// with the state of the call.
func messageIDOf(h http.Header) string {
	id := h.Get("webhook-id")
	if len(id) > maxMessageID {
		sum := sha256.Sum256([]byte(id))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return id
}

// A replay identifies a message, to recognize a repetition. The type is part of it because a repetition has the same body: a tool
// server that uses one id for all messages of a call would otherwise lose the result of each call that asked the user something.
type replay struct {
	server  capability.ServerID
	call    agentproto.CallKey
	message string // the type
	id      string // the webhook-id
}

// replays holds the recently accepted messages whose repetition would have an effect: views, and detours that are over. Messages
// without an id are never recognized.
type replays struct {
	mu         sync.Mutex
	young, old map[replay]bool
	since      time.Time // when the first of the young ones was noted
}

func newReplays() *replays { return &replays{young: map[replay]bool{}} }

// seen reports whether a message was noted.
func (r *replays) seen(m replay, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	return m.id != "" && (r.young[m] || r.old[m])
}

// note records that a message was accepted.
func (r *replays) note(m replay, now time.Time) {
	if m.id == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.age(now); len(r.young) == 0 {
		r.since = now
	}
	r.young[m] = true
}

// age makes the young ones old after a time, or when there are too many.
func (r *replays) age(now time.Time) {
	switch late := now.Sub(r.since); {
	case len(r.young) == 0 && late >= replayWindow:
		r.old = nil
	case late >= 2*replayWindow:
		r.young, r.old = map[replay]bool{}, nil
	case late >= replayWindow, len(r.young) >= maxReplays:
		r.young, r.old, r.since = map[replay]bool{}, r.young, now
	}
}
