package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// A Sink posts elements to an endpoint. It is a [connect.Sink]. An element has its effect once if the receiver acts only once on
// a key.
//
// Requests without an answer, and those with the statuses 408, 425, 429, 500 and above, or 409 with a Retry-After, are tried
// again after pauses of 100 ms to 30 s, and not before the time in Retry-After, which is limited to an hour. Other statuses of
// 400 and above refuse the element. A redirect is not followed, and ends the drain.
//
// No proxy is used. A Sink connects only to addresses that are public, that URL names as an IP address or as localhost, or that
// are in Networks, whatever a name resolves to. It connects to public addresses only with TLS.
type Sink[T any] struct {
	// URL is the endpoint, http or https. A user and password in it are sent as basic authentication.
	URL string

	// Encode returns the body for an element and its number. Nil means JSON, as encoding/json
	// encodes it. An error ends the drain.
	Encode func(number uint64, x T) ([]byte, error)
	// ContentType is the content type of the bodies. Empty means application/json.
	ContentType string
	// Header contains additional headers of each request, such as Authorization.
	Header http.Header

	// Secrets sign the requests. Each is the base64 of 24 to 64 bytes, after whsec_. While the receiver changes from one secret
	// to another, give both: each request then has a signature of each.
	Secrets []string

	// Parallel is how many requests of a lane are in progress at a time. Zero means one, which keeps the order of the lane.
	Parallel int
	// Timeout is how long a request may take, including its answer. Zero means 30 s.
	Timeout time.Duration
	// Patience is how long an element is tried before the error appears in the status of the lane. Then all elements of the write
	// are sent again, with the same keys, and not before the time in Retry-After either. Zero means a minute.
	Patience time.Duration
	// MaxBody is the maximum size of a body in bytes. Zero means 1 MiB. The sink itself refuses a longer one.
	MaxBody int

	// Refused is called with each element that was refused. If it returns nil, the element counts as written, and may be refused
	// again after a crash. An error ends the drain. With Parallel, several goroutines call it. If Refused is nil, the first
	// refusal ends the drain, and the flow keeps the element.
	Refused func(ctx context.Context, r Refusal[T]) error

	// Networks are networks that are not public but may be connected to.
	Networks []netip.Prefix
	// TLS contains roots and certificates. The minimum version is TLS 1.2 in any case.
	TLS *tls.Config
}

// A Refusal is an element that the receiver does not accept.
type Refusal[T any] struct {
	Lane    connect.Lane
	Number  uint64
	Element T
	Status  int    // 0 if the body is longer than Sink.MaxBody
	Answer  string // the first 4 KiB of the receiver's answer
}

// Format prints the endpoint without secrets.
func (s Sink[T]) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "webhook.Sink(%s)", place(s.URL)) }

// place returns the scheme and host of a URL.
func place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host
}

// Open checks the options. It shuts out no other writer, because two writers send the same keys.
func (s Sink[T]) Open(_ context.Context, l connect.Lane) (connect.Writer[T, connect.Idempotent], uint64, error) {
	w := &writer[T]{s: s, lane: l}
	if err := w.configure(); err != nil {
		return nil, 0, fmt.Errorf("webhook: opening lane %s: %w", l, err)
	}
	return w, 0, nil
}

// configure applies the options. Its errors contain no secrets.
func (w *writer[T]) configure() error {
	s := &w.s
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("Sink.URL is not the URL of an http or https endpoint")
	}
	w.url = u.String()
	for i, secret := range s.Secrets {
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(raw) < leastSecret || len(raw) > mostSecret {
			return fmt.Errorf("Sink.Secrets[%d] is not the base64 of %d to %d bytes, after whsec_", i, leastSecret, mostSecret)
		}
		signer, err := standardwebhooks.NewWebhookRaw(raw)
		if err != nil {
			return fmt.Errorf("Sink.Secrets[%d] cannot be used", i)
		}
		w.signers = append(w.signers, signer)
	}
	s.ContentType = cmp.Or(s.ContentType, "application/json")
	s.Parallel = max(1, s.Parallel)
	s.Timeout, s.Patience = cmp.Or(s.Timeout, 30*time.Second), cmp.Or(s.Patience, time.Minute)
	s.MaxBody = cmp.Or(s.MaxBody, 1<<20)
	if s.Encode == nil {
		s.Encode = func(_ uint64, x T) ([]byte, error) { return json.Marshal(x) }
	}
	policy := netguard.Policy{Allow: s.Networks}.Trust(s.URL)
	encrypted := policy.DialContext(nil)
	policy.NotPublic = true
	plain := policy.DialContext(nil)
	w.client = edge.NewClient(edge.Outbound{TLS: s.TLS, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if edge.IsPlain(ctx) {
			return plain(ctx, network, addr)
		}
		return encrypted(ctx, network, addr)
	}}.Transport())
	return nil
}

// Standard Webhooks secrets have 24 to 64 bytes. A shorter one could be guessed.
const leastSecret, mostSecret = 24, 64
