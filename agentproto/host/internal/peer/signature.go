package peer

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// minSecret is the minimum length in bytes of a secret in Standard Webhooks.
const minSecret = 24

// secrets are the secrets that the runtime shares with one tool server: none, one, or several during a change. See
// doc/protocol.md §11.2.
type secrets []*standardwebhooks.Webhook

// secretsOf reads the configured secrets. Errors do not contain any.
func secretsOf(opts Config) (map[string]secrets, error) {
	configured := map[string]bool{}
	for _, base := range opts.Toolsets {
		configured[strings.TrimSuffix(base, "/")] = true
	}
	shared := map[string]secrets{}
	for base, list := range opts.Secrets {
		base = strings.TrimSuffix(base, "/")
		if !configured[base] {
			return nil, fmt.Errorf("host: secrets of %s: it is not among the toolsets", quote.URL(base))
		}
		for i, secret := range list {
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			if err != nil || len(key) < minSecret {
				return nil, fmt.Errorf("host: secret %d of %s is not whsec_ and at least %d bytes in base64", i+1, quote.URL(base), minSecret)
			}
			webhook, err := standardwebhooks.NewWebhookRaw(key)
			if err != nil {
				return nil, fmt.Errorf("host: secret %d of %s cannot be used", i+1, quote.URL(base))
			}
			shared[base] = append(shared[base], webhook)
		}
		if len(shared[base]) == 0 {
			return nil, fmt.Errorf("host: there are no secrets of %s, which is not the same as none being needed", quote.URL(base))
		}
	}
	return shared, nil
}

// Sign signs a message with every secret, because its receiver may know an old or a new one. The time is that of the attempt.
func (s secrets) Sign(h http.Header, id string, body []byte) {
	if len(s) == 0 {
		return
	}
	now := time.Now()
	var signatures []string
	for _, secret := range s {
		if signature, err := secret.Sign(id, now, body); err == nil {
			signatures = append(signatures, signature)
		}
	}
	h.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
}

// Signed reports whether a message is signed with one of the secrets, at most five minutes in the past or the future.
func (s secrets) Signed(h http.Header, body []byte) bool {
	for _, secret := range s {
		if secret.Verify(body, h) == nil {
			return true
		}
	}
	return false
}
