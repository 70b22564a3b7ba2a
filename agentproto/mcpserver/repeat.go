package mcpserver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
)

// idempotencyKey is the member of _meta that identifies a repeated tools/call.
const idempotencyKey = "io.millrace/idempotency-key"

// repeatablePrefix begins the id of a call that has an idempotency key. The ids that a runtime chooses are shorter than those
// that begin with it here, so the id alone says whether a call can be repeated.
const repeatablePrefix = "k"

// repeatableID returns the id of the call of a request that has an idempotency key, and "" if it has none.
func repeatableID(p *mcp.CallToolParamsRaw) (string, error) {
	given, ok := p.Meta[idempotencyKey]
	if !ok {
		return "", nil
	}
	text, ok := given.(string)
	if !ok || text == "" || len(text) > 64 {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: idempotencyKey + " must be a string of 1 to 64 bytes"}
	}
	sum := sha256.Sum256([]byte(p.Name + "\x00" + text))
	return repeatablePrefix + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// isRepeatable reports whether a call has an idempotency key. A later round of its request need not have the key, so the call is
// asked and not the request.
func isRepeatable(key agentproto.CallKey) bool {
	return strings.HasPrefix(key.ID, repeatablePrefix) && len(key.ID) == len(repeatablePrefix)+base64.RawURLEncoding.EncodedLen(sha256.Size)
}

// isGivenUp reports whether the call of a request that has ended without a result should be cancelled. A client that has lost
// its connection may repeat a request that has an idempotency key, so only notifications/cancelled gives up such a call, and
// only if no repetition waits for its result.
func (w *waiting) isGivenUp(ctx context.Context) bool {
	return !isRepeatable(w.now.Key) || isCancelledByClient(ctx) && w.leave()
}

// perConnectionKey is the context key of a request over HTTP that has a connection of its own and no session. Such a request is
// not reached by notifications/cancelled: its context ends only with the connection.
type perConnectionKey struct{}

// isCancelledByClient reports whether notifications/cancelled has ended the context of a request. The SDK ends the context
// without a cause then, and with the error of the transport if the transport has failed.
func isCancelledByClient(ctx context.Context) bool {
	return ctx.Value(perConnectionKey{}) == nil && context.Cause(ctx) == context.Canceled
}

// repeatedCalls counts the requests that wait for each call that has an idempotency key. The zero value is ready for use.
type repeatedCalls struct {
	mu      sync.Mutex
	waiting map[agentproto.CallKey]int
}

// enter counts a request. The returned function ends its wait, and reports whether no other request waits for the call.
func (r *repeatedCalls) enter(key agentproto.CallKey) (leave func() (last bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[agentproto.CallKey]int{}
	}
	r.waiting[key]++
	return func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting[key]--
		if r.waiting[key] > 0 {
			return false
		}
		delete(r.waiting, key)
		return true
	}
}
