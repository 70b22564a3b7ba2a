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

// IsFor reports whether a message with that webhook-id may have been made for a purpose: the
// id names it, or is one of a runtime that names none.
func IsFor(id, what string) bool {
	of := purpose.Of(id)
	return of == "" || of == what
}

// Notices are the ids of cancellations, closures and migrations that came lately. A message
// that somebody has captured can be sent again for as long as its signature is good; what is
// known here has no effect a second time.
//
// Ids that name no purpose are not known: a runtime that does not follow that convention may
// have made two messages with one id.
type Notices struct {
	mu   sync.Mutex
	seen memory
}

// NewNotices returns notices of which none has come.
func NewNotices() *Notices { return &Notices{seen: memory{period: rememberNotice}} }

// rememberNotice is longer than a signature is good for: five minutes, from a clock that may
// be five minutes ahead.
const rememberNotice = 10 * time.Minute

// First reports whether the message of a runtime came for the first time.
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
