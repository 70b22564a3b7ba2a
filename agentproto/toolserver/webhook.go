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

// Secrets of Standard Webhooks have 24 to 64 bytes. A shorter one could be guessed.
const minSecret, maxSecret = 24, 64

// newSigners reads webhook secrets. It panics if one cannot be used; which one is
// said, and not what it is.
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

// sign puts the headers of Standard Webhooks on an attempt to send a message: the
// id, which every attempt has, when it is made, and, if the runtime shares secrets
// with the server, a signature with each of them, so that a runtime that knows the
// old one or the new one only is content.
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

// Signed returns a function for [Options.Authenticate] that lets in what is signed
// as Standard Webhooks says, with one of the secrets of a runtime and not more than
// five minutes ago. It returns the name of that runtime. The secrets are those of
// [Options.Secrets]; several of one runtime are for changing them without a gap. It
// panics if one of them cannot be used.
//
// A request that was captured can be repeated in those five minutes. That has no
// effect: an invocation is known by its key, a question for a status changes nothing, and
// the server remembers the ids of cancellations, closures and migrations for ten minutes,
// in memory.
//
// The signature covers the webhook-id and the body, and not the path. So the id says what a
// request is for: it begins with invoke_, answer_, cancel_, close_, status_ or migrate_, and
// the server answers 401 if it comes to another path. An id of a runtime that follows plain
// Standard Webhooks begins with none of these. It is accepted at every path and is not
// remembered, so who can read a cancellation of such a runtime on its way could have the
// thread of it closed.
func Signed(secrets map[string][]Secret) func(r *http.Request) (runtime string, err error) {
	all := newSigners("Signed", secrets)
	names := slices.Sorted(maps.Keys(all))
	return func(r *http.Request) (string, error) {
		body, err := io.ReadAll(r.Body) // the server bounds it
		if err != nil {
			return "", err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		found, ok := "", false
		for _, name := range names { // all of them: how long it takes does not tell which it is
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
