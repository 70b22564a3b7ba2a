package peer

import (
	"context"
	"net"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/agentproto/internal/inprocess"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

const (
	MaxManifest = 1 << 20  // bytes of a manifest, decompressed
	MaxReply    = 64 << 10 // bytes of any other answer
)

// Connect makes the client of all requests. Public is the URL of the runtime; guardOf says what it allows.
func (ps *Peers) Connect(public string) { ps.Client = newClient(ps.config, public) }

// newClient returns the client of all requests to tool servers and other hosts. It connects only to allowed addresses, and keeps
// a connection for each request that may be in flight.
func newClient(opts Config, public string) *edge.Client {
	dial := opts.DialContext
	if dial == nil {
		dial = guarded(guardOf(opts, public), opts.AllowPlainHTTP, nil)
	}
	var out http.RoundTripper = edge.Outbound{Dial: dial, TLS: opts.TLS, Connect: opts.Connect, Idle: opts.Concurrency}.Transport()
	if len(opts.Local) > 0 {
		out = &inprocess.Transport{Handlers: opts.Local, Next: out}
	}
	return edge.NewClient(out)
}

// guarded returns a function that connects, with d, to what a policy allows. Unless plain is set, unencrypted requests to public
// addresses are refused, because anyone on the path could read conversations, callback URLs and credentials (threat 11 of
// doc/threats.md).
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

// guardOf returns where requests may go: to public addresses, to those that the operator has written into a URL, and to this
// machine if the runtime itself is reachable only here. See threats 11, 12 and 15 of doc/threats.md.
func guardOf(opts Config, public string) netguard.Policy {
	p := netguard.Policy{Allow: opts.AllowNetworks}
	if u, err := url.Parse(public); err == nil {
		p.AllowLoopback = IsLoopback(u.Hostname())
	}
	for _, origins := range opts.ToolsetOrigins {
		p = p.Trust(origins...)
	}
	return p.Trust(opts.Toolsets...).Trust(opts.AllowOrigins...)
}
