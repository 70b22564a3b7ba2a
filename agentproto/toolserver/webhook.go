package toolserver

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// signers are the webhook secrets of one runtime.
type signers []*standardwebhooks.Webhook

// Standard Webhooks secrets have 24 to 64 bytes. A shorter one could be guessed.
const minSecret, maxSecret = 24, 64

// newSigners parses webhook secrets. It panics if one is invalid, with a message that says which
// one but not its value.
func newSigners(op string, secrets map[string][]Secret) map[string]signers {
	all := make(map[string]signers, len(secrets))
	for runtime, keys := range secrets {
		for i, key := range keys {
			raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key.Reveal(), "whsec_"))
			if err != nil || len(raw) < minSecret || len(raw) > maxSecret {
				panic(fmt.Sprintf("toolserver: %s: secret %d of runtime %q must be the base64 of %d to %d bytes, after whsec_",
					op, i, runtime, minSecret, maxSecret))
			}
			w, err := standardwebhooks.NewWebhookRaw(raw)
			if err != nil {
				panic(fmt.Sprintf("toolserver: %s: secret %d of runtime %q cannot be used", op, i, runtime))
			}
			all[runtime] = append(all[runtime], w)
		}
	}
	return all
}

// sign sets the Standard Webhooks headers on an attempt to send a message: the id, which is the
// same for every attempt, the time of the attempt, and a signature with each secret that the
// runtime shares with the server, if any. A runtime that knows only the old or only the new secret
// can thus verify the message.
func (s *Server) sign(h http.Header, runtime, id string, body []byte) error {
	now := time.Now()
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	keys, ok := s.signers[runtime]
	if !ok {
		keys = s.signers[""]
	}
	var all []string
	for _, w := range keys {
		signature, err := w.Sign(id, now, body)
		if err != nil {
			return err
		}
		all = append(all, signature)
	}
	if all != nil {
		h.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(all, " "))
	}
	return nil
}

var errUnsigned = errors.New("the request is not signed with a secret of a known runtime in the last 5 minutes")

// Signed returns a function for [Options.Authenticate] that accepts requests signed according to
// Standard Webhooks, with one of the secrets of a runtime and at most five minutes ago. The
// function returns the name of that runtime. The secrets are those of [Options.Secrets]; several
// secrets of one runtime allow changing them without a gap. Signed panics if one of them is
// invalid.
//
// A captured request can be repeated within those five minutes. That has no effect: an invocation
// is recognized by its key, a status request changes nothing, and the server remembers the ids of
// cancellations, closures and migrations for ten minutes, in memory.
//
// The signature covers the webhook-id and the body, but not the path. So the id says what a request
// is for: it begins with invoke_, answer_, cancel_, close_, status_ or migrate_, and the server
// answers 401 if the request arrives at another path. The ids of a runtime that follows plain
// Standard Webhooks begin with none of these. They are accepted at every path and not remembered,
// so an attacker who can read a cancellation of such a runtime in transit could close its thread.
func Signed(secrets map[string][]Secret) func(r *http.Request) (runtime string, err error) {
	all := newSigners("Signed", secrets)
	names := slices.Sorted(maps.Keys(all))
	return func(r *http.Request) (string, error) {
		body, err := io.ReadAll(r.Body) // bounded by the server
		if err != nil {
			return "", err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		found, ok := "", false
		for _, name := range names { // all of them, so that the time taken does not reveal the name
			for _, w := range all[name] {
				if w.Verify(body, r.Header) == nil && !ok {
					found, ok = name, true
				}
			}
		}
		if !ok {
			return "", errUnsigned
		}
		return found, nil
	}
}
