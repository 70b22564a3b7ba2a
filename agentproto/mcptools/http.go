package mcptools

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// outbound makes the client for the URL of a server.
func (m *member) outbound(o Options) error {
	u, err := url.Parse(m.server.URL)
	if err != nil {
		return err // it was parsed before
	}
	policy := netguard.Policy{Allow: o.AllowNetworks}.Trust(m.server.URL)
	header := http.Header{}
	for name, secret := range m.server.Header {
		header.Set(name, secret.Reveal())
	}
	out := edge.Outbound{Dial: policy.DialContext(nil), TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Most: 64}.Transport()
	m.http = edge.NewClient(&requests{u.Scheme + "://" + u.Host, header, out}).Standard(0, 0) // a stream of events has no end
	return nil
}

// errNotSent is in errors of requests that the server has not carried out: there was no connection, or it
// said so. The SDK does not tell these from requests whose answer got lost.
var errNotSent = errors.New("the request was not carried out")

// requests adds headers to requests to one origin, and says of those that fail whether the server may have had
// them.
type requests struct {
	origin string
	header http.Header
	next   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (q *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	var reached atomic.Bool
	r = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }}))
	if r.URL.Scheme+"://"+r.URL.Host == q.origin {
		for name, values := range q.header {
			r.Header[name] = values
		}
	}
	res, err := q.next.RoundTrip(r)
	switch {
	case err != nil && !reached.Load():
		return nil, fmt.Errorf("%w: %w", errNotSent, edge.WithoutURL(err))
	case err != nil || r.Method != http.MethodPost:
		return res, err
	}
	refused := false
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		refused = true
	case http.StatusServiceUnavailable:
		refused = res.Header.Get("Retry-After") != ""
	}
	if refused {
		res.Body.Close()
		return nil, fmt.Errorf("%w: %d %s", errNotSent, res.StatusCode, http.StatusText(res.StatusCode))
	}
	return res, nil
}
