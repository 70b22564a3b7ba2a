package peer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tracing"
	"github.com/millrace/millrace/internal/edge"
)

// ErrStopped says that the runtime was stopped.
var ErrStopped = errors.New("host: stopped")

// Post sends one message to a server once, signed if the two share a secret, and reads up to most bytes of its answer. The caller
// passes the same id for every attempt. Errors contain no URL.
func (ps *Peers) Post(ctx context.Context, s *Server, to, messageID string, body []byte, most int64) (*edge.Answer, error) {
	s.Expect()
	req, err := ps.newPost(ctx, s, to, messageID, body)
	if err != nil {
		return nil, err
	}
	return ps.Client.Do(req, most)
}

// newPost makes the request of Post.
func (ps *Peers) newPost(ctx context.Context, s *Server, to, messageID string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", messageID)
	if s != nil {
		s.Secrets.Sign(req.Header, messageID, body)
	}
	tracing.Inject(ctx, req.Header)
	ps.Introduce(req, s)
	return req, nil
}

// MessageID returns the webhook-id of a message, computed from its purpose and from what is unique to it, including a secret URL.
// The id must be the same for every attempt, also across restarts, so it is computed. It is a hash, because identifiers do not
// belong in headers.
func MessageID(what string, key agentproto.CallKey, secretURL string) string {
	h := sha256.New()
	for _, part := range []string{"webhook-id", key.GroupID, key.ID, secretURL} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return purpose.ID(what, base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]))
}

// FreshID returns the webhook-id of a message that is sent once. A tool server ignores a message whose id it has seen.
func FreshID(what string) string { return purpose.ID(what, rand.Text()) }
