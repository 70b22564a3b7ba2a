package edge

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hosts are the names to which a request may be addressed.
type hosts map[string]bool // name or name:port

func newHosts(names []string) hosts {
	h := hosts{}
	for _, name := range names {
		host, port := splitHost(name)
		h[join(host, port)] = true
	}
	return h
}

// Addressed returns a function that reports whether a request is addressed to the server that
// received it: to the address of its connection, to localhost if that address is loopback, or
// to one of names, which are as in [Policy].Hosts.
func Addressed(names ...string) func(*http.Request) bool { return newHosts(names).allow }

// allow reports whether a request is addressed to the address of its connection, to localhost
// if that address is loopback, or to one of the names. A page whose name was made to resolve
// to this machine has its own name as the Host.
func (h hosts) allow(r *http.Request) bool {
	if r.URL.Host != "" { // a request for a proxy: the request line has the whole URL
		return false
	}
	host, port := splitHost(r.Host)
	if host == "" {
		return false
	}
	if h[host] || h[join(host, port)] {
		return true
	}
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	local, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return false
	}
	if port == "" {
		port = "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	at, err := netip.ParseAddrPort(net.JoinHostPort(local.Addr().Unmap().WithZone("").String(), port))
	if err != nil || at.Port() != local.Port() {
		return false
	}
	if host == "localhost" {
		return at.Addr().IsLoopback()
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().WithZone("") == at.Addr()
}

// splitHost splits a Host into a name and a port. The name is in lower case, without a dot at
// its end and without the brackets of an address. The port may be "".
func splitHost(text string) (host, port string) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), ""
	}
	return strings.TrimSuffix(strings.ToLower(host), "."), port
}

func join(host, port string) string {
	if port == "" {
		return host
	}
	return net.JoinHostPort(host, port)
}
