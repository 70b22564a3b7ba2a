package intake

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// IsFor reports whether a message with that webhook-id may be for a purpose: the id names the
// purpose, or names none.
func IsFor(id, what string) bool {
	of := purpose.Of(id)
	return of == "" || of == what
}

// Notices remembers the ids of recent cancellations, closures and migrations. A captured message
// can be sent again while its signature is valid; a remembered one has no effect a second time.
//
// Ids that name no purpose are not remembered: a runtime that does not follow that convention may
// have made two messages with one id.
type Notices struct {
	mu   sync.Mutex
	seen memory
}

// NewNotices returns empty notices.
func NewNotices() *Notices { return &Notices{seen: memory{period: rememberNotice}} }

// rememberNotice is the maximum validity of a signature: five minutes, by a clock that may be five
// minutes ahead.
const rememberNotice = 10 * time.Minute

// First reports whether a runtime's message has arrived for the first time.
func (n *Notices) First(runtime string, r *http.Request) bool {
	id := r.Header.Get(standardwebhooks.HeaderWebhookID)
	if purpose.Of(id) == "" {
		return true
	}
	list, _ := json.Marshal([]string{runtime, id})
	d := sha256.Sum256(list)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen.has(d) {
		return false
	}
	n.seen.add(d)
	return true
}
