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
	// replayWindow is for how long a message is known again at least: as long as its
	// signature may be used, five minutes before and after its time.
	replayWindow = 10 * time.Minute
	// maxReplays is how many messages are known at least, if there are so many.
	maxReplays = 1 << 15
	// maxMessageID is the longest webhook-id that is used as it is.
	maxMessageID = 128
)

// messageIDOf returns the webhook-id of a message, "" for none. A long one is replaced by
// its digest: it is kept with what is known of the call.
func messageIDOf(h http.Header) string {
	id := h.Get("webhook-id")
	if len(id) > maxMessageID {
		sum := sha256.Sum256([]byte(id))
		return base64.RawURLEncoding.EncodeToString(sum[:])
	}
	return id
}

// A replay names a message, for who posts it again.
type replay struct {
	server capability.ServerID
	call   agentproto.CallKey
	id     string // the webhook-id
}

// replays are the messages that were taken in lately and that would have an effect again:
// views, and detours that are over. Messages without an id are never known again.
type replays struct {
	mu         sync.Mutex
	young, old map[replay]bool
	since      time.Time // the first of the young ones came
}

func newReplays() *replays { return &replays{young: map[replay]bool{}} }

// seen reports whether a message was noted.
func (r *replays) seen(m replay, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	return m.id != "" && (r.young[m] || r.old[m])
}

// note remembers that a message was taken in.
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

// age makes the young ones old when it is time, or when there are too many.
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
