package mcptools

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/millrace/millrace/agentproto/internal/mcptasks"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// outside connects to a server with a URL, and to the servers that it names.
type outside struct {
	origin   string
	header   http.Header
	to       *http.Transport // to the server
	strange  *http.Transport // to others; the server's URL gives no permission here
	metadata *http.Client    // for metadata of the server itself
	others   *http.Client    // for metadata of servers that it names
}

// metadataTime limits the time of a request for metadata, and maxMetadata the bytes that are read.
const (
	metadataTime = 15 * time.Second
	maxMetadata  = 1 << 20
)

// outbound makes the transports for the URL of a server.
func (m *member) outbound(o Options) error {
	u, err := url.Parse(m.server.URL)
	if err != nil {
		return err // it was parsed before
	}
	policy := netguard.Policy{Allow: o.AllowNetworks}
	transport := func(p netguard.Policy) *http.Transport {
		return edge.Outbound{Dial: p.DialContext(nil), TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs}, Most: 64}.Transport()
	}
	out := &outside{origin: originOf(u), header: http.Header{}, to: transport(policy.Trust(m.server.URL)), strange: transport(policy)}
	for name, secret := range m.server.Header {
		out.header.Set(name, secret.Reveal())
	}
	client := func(t http.RoundTripper) *http.Client {
		c := edge.NewClient(t).Standard(maxMetadata, metadataTime)
		c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
			if r.Method != http.MethodGet || originOf(r.URL) != originOf(via[0].URL) || len(via) > 3 {
				return errors.New("the redirect is not followed")
			}
			return nil
		}
		return c
	}
	out.metadata, out.others = client(out.to), client(out.strange)
	m.outside = out
	return nil
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// client returns the HTTP client of a link, for MCP.
func (o *outside) client(l *link) *http.Client {
	t := mcptasks.RoundTripper{RoundTripper: &requests{o, l}, Most: int(l.m.bounds.Result)}
	return edge.NewClient(t).Standard(0, 0) // a stream of events has no end
}

// closeIdle closes idle connections.
func (o *outside) closeIdle() {
	o.to.CloseIdleConnections()
	o.strange.CloseIdleConnections()
}

// errNotSent is in the errors of requests that the server has not carried out: there was no connection, or the
// server said so. The SDK does not distinguish these from requests whose answer was lost.
var errNotSent = errors.New("the request was not carried out")

// A challenge is an answer which says that a token is missing. The request was not carried out.
type challenge struct {
	status int
	bearer string // the token that was sent
	params map[string]string
}

// Error implements error.
func (c *challenge) Error() string {
	return fmt.Sprintf("%d %s", c.status, http.StatusText(c.status))
}

// challengeIn returns the challenge in an error, if there is one.
func challengeIn(err error) (*challenge, bool) { return errors.AsType[*challenge](err) }

// challengeOf returns the challenge in an answer, or nil. An answer with status 403 counts only if it asks for
// scopes.
func challengeOf(res *http.Response, bearer string) *challenge {
	if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		return nil
	}
	c := &challenge{status: res.StatusCode, bearer: bearer}
	all, err := oauthex.ParseWWWAuthenticate(res.Header.Values("WWW-Authenticate"))
	for _, one := range all {
		if one.Scheme == "bearer" {
			c.params = one.Params
			break
		}
	}
	if res.StatusCode == http.StatusForbidden && (err != nil || c.params["error"] != "insufficient_scope") {
		return nil
	}
	return c
}

// requests adds headers to requests to one origin, and marks errors with errNotSent if the server has not
// carried the request out.
type requests struct {
	*outside
	link *link
}

// RoundTrip implements [http.RoundTripper].
func (q *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	var reached atomic.Bool
	bearer := ""
	r = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { reached.Store(false) }, // called again only if nothing was written: a POST is not sent twice otherwise
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	}))
	if originOf(r.URL) == q.origin {
		for name, values := range q.header {
			r.Header[name] = values
		}
		if t := q.link.bearer.Load(); t != nil {
			bearer = *t
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
	}
	res, err := q.to.RoundTrip(r)
	if r.Header.Get("Mcp-Method") == "subscriptions/listen" { // the SDK does not report its end
		if err == nil && res.StatusCode == http.StatusOK {
			res.Body = &listened{res.Body, r.Context(), q.link}
		} else if r.Context().Err() == nil {
			why := errStreamEnded
			if err == nil {
				if c := q.challenged(r, res, bearer); c != nil {
					why = c
				}
			}
			q.link.watchEnded(why)
		}
	}
	switch {
	case err != nil && !reached.Load():
		return nil, fmt.Errorf("%w: %w", errNotSent, edge.WithoutURL(err))
	case err != nil || r.Method != http.MethodPost:
		return res, err
	}
	refused := turnedAwayBy(res)
	if refused == nil {
		return res, nil
	}
	res.Body.Close()
	if c := q.challenged(r, res, bearer); c != nil {
		if r.Header.Get("Mcp-Method") == "server/discover" {
			q.link.refused.Store(c)
		}
		return nil, fmt.Errorf("%w: %w", errNotSent, c)
	}
	return nil, fmt.Errorf("%w: %w", errNotSent, refused)
}

// challenged returns the challenge in the answer to a request, or nil if there is none that a user's token may answer.
func (q *requests) challenged(r *http.Request, res *http.Response, bearer string) *challenge {
	if q.header.Get("Authorization") != "" || !private(r.URL) {
		return nil
	}
	return challengeOf(res, bearer)
}

// A listened stream of changes notifies the link when the server has ended it.
type listened struct {
	io.ReadCloser
	ctx  context.Context
	link *link
}

// Read implements [io.Reader].
func (l *listened) Read(b []byte) (int, error) {
	n, err := l.ReadCloser.Read(b)
	if err != nil && l.ctx.Err() == nil {
		l.link.watchEnded(errStreamEnded)
	}
	return n, err
}

// watchEnded notifies the live session that a stream of changes of the link has ended, and why.
func (l *link) watchEnded(why error) {
	l.m.mu.Lock()
	s := l.live
	l.m.mu.Unlock()
	if s != nil {
		s.endUpdates(why)
	}
}

// private reports whether a request to a URL cannot be read on the network.
func private(u *url.URL) bool {
	return u.Scheme == "https" || u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}
