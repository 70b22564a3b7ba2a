package runtime

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
		return nil, errors.New("runtime: an external callback endpoint needs a PublicURL")
	}
	if public != "" {
		if _, err := originOf(public); err != nil || strings.ContainsAny(public, "?#") {
			return nil, fmt.Errorf("runtime: PublicURL %s is not a plain http or https URL", quoted(public))
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
			return nil, fmt.Errorf("runtime: callback endpoint: %w", err)
		}
	}
	if public == "" {
		public = "http://" + listener.Addr().String()
	}
	rt.publicURL = public
	if u, err := url.Parse(public); err == nil {
		rt.pathPrefix = u.Path
	}
	rt.hosts = localHosts(public, listener)
	rt.http = newHTTPClient(rt.opts, public)
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

// localHosts returns the hosts, with ports, that requests to an endpoint on this machine
// may be addressed to, nil for an endpoint that is not. A page in a browser can resolve a
// name of its own to this machine, and would be the same origin then: its requests name
// another host (protocol part 7, threat 16).
func localHosts(public string, listener net.Listener) map[string]bool {
	origin, err := originOf(public)
	if err != nil {
		return nil
	}
	_, host, _ := strings.Cut(origin, "://")
	name, port, _ := net.SplitHostPort(host)
	local := isLoopback(name)
	hosts := map[string]bool{host: true}
	if listener != nil {
		if at, p, err := net.SplitHostPort(listener.Addr().String()); err == nil && isLoopback(at) {
			local, port = true, p
			hosts[net.JoinHostPort(at, p)] = true
		}
	}
	if !local {
		return nil
	}
	hosts[net.JoinHostPort("localhost", port)] = true
	return hosts
}

// isLoopback reports whether a host is this machine whatever a resolver says.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// fromElsewhere returns the status that refuses a request to an endpoint on this machine
// that a browser was made to send: it is addressed to another host, or says which page it
// comes from. It returns 0 for any other.
func (rt *Runtime) fromElsewhere(r *http.Request) int {
	switch host := strings.ToLower(r.Host); {
	case rt.hosts == nil:
		return 0
	case r.Header.Get("Origin") != "":
		return http.StatusForbidden
	case rt.hosts[host], rt.hosts[host+":80"], rt.hosts[host+":443"]: // a proxy may be in front
		return 0
	}
	return http.StatusMisdirectedRequest
}
