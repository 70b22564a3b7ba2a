package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

const (
	maxManifest = 1 << 20  // bytes of a manifest, decompressed
	maxReply    = 64 << 10 // bytes of any other answer
)

// newClient returns the client of all requests to tool servers and other hosts: it connects only to
// where it may, and keeps a connection for each request that may be in flight.
func newClient(opts Options, public string) *edge.Client {
	dial := opts.DialContext
	if dial == nil {
		dial = guarded(guardOf(opts, public), opts.AllowPlainHTTP, nil)
	}
	return edge.NewClient(edge.Outbound{Dial: dial, TLS: opts.TLS, Connect: opts.Timeouts.Connect, Idle: opts.Concurrency}.Transport())
}

// guarded returns a function that connects with d to what a policy allows. Unless plain is set, requests that are
// not encrypted do not go to public addresses: who is on the way would read conversations, callback URLs
// and credentials (threat 11 of doc/threats.md).
func guarded(p netguard.Policy, plain bool, d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	encrypted := p.DialContext(d)
	p.NotPublic = !plain
	open := p.DialContext(d)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if edge.IsPlain(ctx) {
			return open(ctx, network, addr)
		}
		return encrypted(ctx, network, addr)
	}
}

// guardOf returns where requests may go: to public addresses, to those that the operator
// has written into a URL, and to this machine if the runtime itself is to be reached here
// only. See threats 11, 12 and 15 of doc/threats.md.
func guardOf(opts Options, public string) netguard.Policy {
	p := netguard.Policy{Allow: opts.AllowNetworks}
	if u, err := url.Parse(public); err == nil {
		p.AllowLoopback = isLoopback(u.Hostname())
	}
	for _, origins := range opts.ToolsetOrigins {
		p = p.Trust(origins...)
	}
	return p.Trust(opts.Toolsets...).Trust(opts.AllowOrigins...)
}

// post sends one message to a server once, signed if the two share a secret, and reads up to most bytes
// of its answer. The id is the same for every attempt. Errors contain no URL.
func (rt *Runtime) post(ctx context.Context, s *server, to, messageID string, body []byte, most int64) (*edge.Answer, error) {
	s.expect()
	req, err := rt.newPost(ctx, s, to, messageID, body)
	if err != nil {
		return nil, err
	}
	return rt.client.Do(req, most)
}

// newPost makes the request of post.
func (rt *Runtime) newPost(ctx context.Context, s *server, to, messageID string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", messageID)
	if s != nil {
		s.secrets.sign(req.Header, messageID, body)
	}
	rt.introduce(req, s)
	return req, nil
}

// messageID makes the webhook-id of a message from what it is for and what is unique to it,
// with a secret URL among that. It has to be the same for every attempt, across restarts
// too, so it is computed; and identifiers do not belong into headers, so it is a
// hash.
func messageID(what string, key agentproto.CallKey, secretURL string) string {
	h := sha256.New()
	for _, part := range []string{"webhook-id", key.GroupID, key.ID, secretURL} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return purpose.ID(what, base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18]))
}

// freshID makes the webhook-id of a message that is sent once. A tool server has no effect
// for one that it has seen.
func freshID(what string) string { return purpose.ID(what, rand.Text()) }
