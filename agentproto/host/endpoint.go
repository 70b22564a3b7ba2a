package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/internal/edge"
)

// listen opens the listener of the callback endpoint, nil for an external one, and determines the public URL.
func (rt *Runtime) listen() (net.Listener, error) {
	public := strings.TrimSuffix(rt.opts.PublicURL, "/")
	if public == "" && rt.opts.External {
		return nil, errors.New("host: an external callback endpoint needs a PublicURL")
	}
	if err := checkPublic(public); err != nil {
		return nil, err
	}
	listener := rt.opts.Listener
	if listener == nil && !rt.opts.External {
		addr := rt.opts.ListenAddr
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		var err error
		if listener, err = net.Listen("tcp", addr); err != nil {
			return nil, fmt.Errorf("host: callback endpoint: %w", err)
		}
	}
	if public == "" {
		public = "http://" + listener.Addr().String()
	}
	rt.publicURL = public
	if u, err := url.Parse(public); err == nil {
		rt.pathPrefix = u.Path
	}
	if rt.opts.PublicURL == "" {
		rt.addressed = edge.Addressed(hostsOf(public, listener)...)
	}
	rt.moves.Listen(rt.publicURL, rt.pathPrefix, rt.callbacks)
	rt.peers.Connect(public)
	return listener, nil
}

// serve starts the callback endpoint.
func (rt *Runtime) serve(listener net.Listener) {
	t := &rt.opts.Timeouts
	rt.endpoint = edge.New(rt.Handler(), edge.Options{
		ReadHeader: t.ReadHeader, Read: t.Read, Write: t.Read + t.Accept + t.Read, Idle: t.Idle,
		Body:        -1, // an oversized body resolves its call: see Handler
		Connections: rt.opts.Bounds.Connections, Log: rt.log,
	})
	go func() {
		if err := rt.endpoint.Serve(listener); err != nil {
			rt.log.Error("callback endpoint failed", "error", err)
		}
	}()
}

// PublicURL returns the address under which tool servers reach the callback endpoint.
func (rt *Runtime) PublicURL() string { return rt.publicURL }

// hostsOf returns the hosts that requests to a listener may name, in addition to the address that their connection comes to: the
// host of callback URLs, and localhost.
func hostsOf(public string, listener net.Listener) []string {
	hosts := []string{listener.Addr().String()}
	if origin, err := peer.Origin(public); err == nil {
		_, host, _ := strings.Cut(origin, "://")
		hosts = append(hosts, host)
	}
	if name, port, err := net.SplitHostPort(hosts[0]); err == nil && peer.IsLoopback(name) {
		hosts = append(hosts, net.JoinHostPort("localhost", port))
	}
	return hosts
}

// fromElsewhere returns the status that refuses a request sent by a page in a browser, or 0 for any other request. A page can let
// a name of its own resolve to this machine and would then have the same origin, but its requests name another host, or contain
// the page's origin (threat 16 of doc/threats.md).
//
// With a PublicURL nothing is refused: a proxy in front of the endpoint may name any host, and the capability alone protects the
// endpoint.
func (rt *Runtime) fromElsewhere(r *http.Request) int {
	switch {
	case rt.addressed == nil:
		return 0
	case len(r.Header.Values("Origin")) > 0:
		return http.StatusForbidden
	case !rt.addressed(r):
		return http.StatusMisdirectedRequest
	}
	return 0
}

// Handler returns the callback endpoint. The runtime serves it unless [Options].External is set. It answers below the path of the
// public URL, and below the root for a proxy that strips that path:
//
//	200  accepted; also late and repeated messages, so that tools stop sending them
//	400  malformed, with the member that is wrong
//	401  not signed, although the tool server shares a secret: see Options.Secrets
//	403  a message about another call, or of a type the URL is not for
//	404  not a callback URL of this runtime, or an expired one
//	405, 413, 415  not a POST, too large, not plain JSON
//	410  an event of a subscription that ended more than a minute ago, which the tool has missed
//	421  addressed to another host; only without a PublicURL
//	503  not accepted for now, with Retry-After: the program is busy, or stopping, or the
//	     callback URL or the thread exceeds its Bounds
//
// Without a PublicURL it also answers 403 to every request with the header Origin, which browsers send and tools do not. A
// message without a Content-Type is treated as JSON. A message without a Host, as in HTTP/1.0, is accepted: its URL is what
// authorizes it.
//
// Messages that exceed the [Bounds] are answered 503. Exceptions are messages that perhaps nobody can send again: the result of a
// call, five authorizations and choices before it, and the final event of a subscription, each of them once.
//
// Refused messages with a genuine URL are logged at WARN, once a minute for each status and tool server.
//
// Tools do not retry after a 4xx, so 400, 413 and 415 also resolve the call that the URL identifies; otherwise it would stay
// pending until its lifetime ends. A malformed view_update or subscription_event does not resolve the call, because the call can
// still get its result. A message that is too large to verify its signature does not either.
//
// A message with the webhook-id of a recently accepted message is answered 200 and has no effect.
func (rt *Runtime) Handler() http.Handler { return http.HandlerFunc(rt.serveCallback) }

func (rt *Runtime) serveCallback(w http.ResponseWriter, r *http.Request) {
	segments, isCallback := rt.callbackSegments(r.URL.Path)
	status := rt.fromElsewhere(r)
	if status == http.StatusMisdirectedRequest && isCallback && r.Host == "" {
		status = 0 // no browser sends that
	}
	if status == 0 && (r.URL.Path == migration.Path || r.URL.Path == rt.pathPrefix+migration.Path) {
		rt.moves.ServeHTTP(w, r)
		return
	}
	if status == 0 && !isCallback && rt.moves.ServeTunnel(w, r) {
		return
	}
	if status == 0 && !isCallback && rt.opts.Pages != nil {
		pages := rt.opts.Pages
		if strings.HasPrefix(r.URL.Path, rt.pathPrefix+"/") {
			pages = http.StripPrefix(rt.pathPrefix, pages)
		}
		pages.ServeHTTP(w, r)
		return
	}
	if status == 0 && !isCallback {
		callback.Refuse(w, http.StatusNotFound, "not found")
		return
	}
	rt.callbacks.Serve(w, r, segments, status)
}

// callbackSegments returns the secret segments of a callback URL's path. It reports false for any other path.
func (rt *Runtime) callbackSegments(path string) (string, bool) {
	segments, ok := strings.CutPrefix(path, rt.pathPrefix+capability.Path)
	if !ok {
		segments, ok = strings.CutPrefix(path, capability.Path)
	}
	return segments, ok && strings.Count(segments, "/") == 1
}

// callbackFlow passes the content of callbacks to the runtime.
type callbackFlow struct{ rt *Runtime }

// Deliver gives an event to the program.
func (f callbackFlow) Deliver(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error {
	return f.rt.deliver(ctx, key, e)
}

// Resolved returns the resolution of a call, if the program knows it.
func (f callbackFlow) Resolved(key agentproto.CallKey) (*agentproto.Resolution, bool) {
	return f.rt.program.Resolved(key)
}

// Lasts reports whether the program, here or in another process, has a call that lasts long.
func (f callbackFlow) Lasts(ctx context.Context, key agentproto.CallKey) bool {
	ctx, cancel := context.WithTimeout(ctx, askLasting)
	defer cancel()
	return f.rt.program.AwaitLasting(ctx, key)
}

// View passes a view to its thread, if the runtime holds conversations.
func (f callbackFlow) View(ctx context.Context, from agentproto.CallKey, v *agentproto.ViewUpdate) error {
	return f.rt.keepView(ctx, from, v)
}

// checkPublic checks [Options].PublicURL.
func checkPublic(public string) error {
	if public == "" {
		return nil
	}
	if _, err := peer.Origin(strings.TrimSuffix(public, "/")); err != nil || strings.ContainsAny(public, "?#") {
		return fmt.Errorf("host: PublicURL %s is not a plain http or https URL", quote.Text(public))
	}
	return nil
}
