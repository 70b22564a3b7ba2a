package host

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/millrace/millrace/internal/edge"
)

// listen opens the callback endpoint's listener, nil for an external one, and
// settles the public URL.
func (rt *Runtime) listen() (net.Listener, error) {
	public := strings.TrimSuffix(rt.opts.PublicURL, "/")
	if public == "" && rt.opts.External {
		return nil, errors.New("host: an external callback endpoint needs a PublicURL")
	}
	if public != "" {
		if _, err := originOf(public); err != nil || strings.ContainsAny(public, "?#") {
			return nil, fmt.Errorf("host: PublicURL %s is not a plain http or https URL", quoted(public))
		}
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
	rt.client = newClient(rt.opts, public)
	return listener, nil
}

// serve starts the callback endpoint.
func (rt *Runtime) serve(listener net.Listener) {
	t := &rt.opts.Timeouts
	rt.endpoint = edge.New(rt.Handler(), edge.Options{
		ReadHeader: t.ReadHeader, Read: t.Read, Write: t.Read + t.Accept + t.Read, Idle: t.Idle,
		Body:        -1, // what is too large resolves its call: see Handler
		Connections: rt.opts.Bounds.Connections, Log: rt.log,
	})
	go func() {
		if err := rt.endpoint.Serve(listener); err != nil {
			rt.log.Error("callback endpoint failed", "error", err)
		}
	}()
}

// PublicURL returns the address under which tool servers reach the callback
// endpoint.
func (rt *Runtime) PublicURL() string { return rt.publicURL }

// hostsOf returns what requests to a listener may be addressed to, besides the address that
// their connection comes to: what callback URLs say, and localhost.
func hostsOf(public string, listener net.Listener) []string {
	hosts := []string{listener.Addr().String()}
	if origin, err := originOf(public); err == nil {
		_, host, _ := strings.Cut(origin, "://")
		hosts = append(hosts, host)
	}
	if name, port, err := net.SplitHostPort(hosts[0]); err == nil && isLoopback(name) {
		hosts = append(hosts, net.JoinHostPort("localhost", port))
	}
	return hosts
}

// isLoopback reports whether a host is this machine whatever a resolver says.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// fromElsewhere returns the status that refuses a request that a page in a browser sent: a
// page can resolve a name of its own to this machine, and would be of the same origin then,
// but its requests name another host, or say which page they come from (threat 16 of
// doc/threats.md). It returns 0 for any other.
//
// Nothing is refused where there is a PublicURL: a proxy in front of the endpoint names
// whichever host it likes, and what is protected then is protected by the capability alone.
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
