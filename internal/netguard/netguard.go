// Package netguard keeps outgoing connections off networks that are not public.
//
// A side of the agent tool protocol connects to addresses that its peers name:
// callbacks, answers, tool servers, OAuth providers. Such an address must not lead
// into the network of the side itself, whatever it looks like and whatever its
// name resolves to (threats 10 to 15 of doc/threats.md). So a [Policy] checks the
// address that a socket is about to be connected to, after names are resolved: an
// answer of a resolver that changes between a check and its use has no effect.
//
// The transport that uses a policy must have no proxy. A proxy would be what is
// connected to and checked, and would then resolve the name itself.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// ErrBlocked is what every error of a [Policy] wraps.
var ErrBlocked = errors.New("netguard: blocked")

// A Policy says which addresses may be connected to. The zero Policy allows public
// addresses, on the ports 80, 443 and those from 1024. It must not be changed
// while it is in use; then it may be used by several goroutines.
type Policy struct {
	// AllowLoopback also allows 127.0.0.0/8 and ::1, on every port. It is for a
	// side that is itself reachable on this machine only. Nothing that a peer says
	// must decide about it.
	AllowLoopback bool
	// Allow are networks that are allowed on every port although they are not
	// public.
	Allow []netip.Prefix
	// NotPublic refuses public addresses, also trusted ones. It is for connections on which
	// others could read along, and leaves what was allowed besides.
	NotPublic bool
	// Trusted are "host:port" pairs that the operator has configured; see
	// [Policy.Trust]. What is dialed under exactly this name may have every port. If
	// the host is an IP address, or localhost, it need not be public. A name must
	// still resolve to public addresses.
	Trusted []string
}

// extra are blocked addresses that are in no registry of special ones: the
// metadata service of a cloud that has it at a public address.
var extra = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

var guardian = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork(), ssrf.WithDeniedV4Prefixes(extra...))

// Trust returns a policy that also trusts the origins of URLs which the operator
// has configured. What is not an http or https URL with a host is left out.
func (p Policy) Trust(urls ...string) Policy {
	p.Trusted = slices.Clone(p.Trusted)
	for _, raw := range urls {
		if u, err := url.Parse(raw); err == nil {
			if addr := hostPort(u); addr != "" {
				p.Trusted = append(p.Trusted, addr)
			}
		}
	}
	return p
}

// hostPort returns what is dialed for u.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if port == "" || u.Hostname() == "" {
		return ""
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// DialContext returns a function for [net/http.Transport.DialContext] that dials
// with d, or with a zero dialer if d is nil, and connects only to what the policy
// allows. Of a name with several addresses, those that are not allowed are passed
// over. The function's errors about that wrap [ErrBlocked] and name the host, the
// address and the reason; they hold nothing else of a URL. D is not changed, and
// its own control function is still called.
func (p Policy) DialContext(d *net.Dialer) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if d == nil {
		d = new(net.Dialer)
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := p.checkAddr(addr); err != nil {
			return nil, err
		}
		guarded := *d
		guarded.Control = nil
		guarded.ControlContext = func(ctx context.Context, network, connected string, c syscall.RawConn) error {
			if err := p.checkConnected(addr, network, connected); err != nil {
				return err
			}
			switch {
			case d.ControlContext != nil:
				return d.ControlContext(ctx, network, connected, c)
			case d.Control != nil:
				return d.Control(network, connected, c)
			}
			return nil
		}
		return guarded.DialContext(ctx, network, addr)
	}
}

// CheckURL returns an error if it is plain without resolving a name that u cannot
// be connected to: the host is an IP address that is not allowed, a number that
// some take for one, or localhost; or the port is not allowed. It is for telling
// early; what counts is checked when connecting.
func (p Policy) CheckURL(u *url.URL) error {
	addr := hostPort(u)
	if addr == "" {
		return &blocked{reason: "it is not an http or https URL with a host"}
	}
	if err := p.checkAddr(addr); err != nil {
		return err
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return p.checkConnected(addr, "tcp", net.JoinHostPort("127.0.0.1", portOf(addr)))
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return p.checkConnected(addr, "tcp", addr)
	}
	return p.checkPort(addr, portOf(addr), netip.Addr{})
}

// checkAddr checks what is asked for, before names are resolved.
func (p Policy) checkAddr(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return &blocked{host: addr, reason: "it is not a host and a port"}
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.Is4In6():
		// The system would connect to the IPv4 address, so what is checked later is
		// not what a reader of the URL has seen.
		return &blocked{host: addr, ip: ip, reason: "an IPv4 address must not be written as an IPv6 address"}
	case err != nil && isNumber(host):
		return &blocked{host: addr, reason: "a number is no host; write an IPv4 address as four decimal numbers"}
	}
	return nil
}

// isNumber reports whether the last label of host is a number. Some resolvers and
// libraries take such names for IPv4 addresses in decimal, octal or hexadecimal
// form: 2130706433, 0177.0.0.1, 0x7f.1.
func isNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// checkConnected checks the address that a socket is about to be connected to.
func (p Policy) checkConnected(asked, network, connected string) error {
	if !strings.HasPrefix(network, "tcp") {
		return &blocked{host: asked, reason: "the network " + strconv.Quote(network) + " is not TCP"}
	}
	ap, err := netip.ParseAddrPort(connected)
	if err != nil {
		return &blocked{host: asked, reason: "what it resolved to is not an IP address"}
	}
	ip := ap.Addr().Unmap()
	switch zoneless := ip.WithZone(""); {
	case p.AllowLoopback && zoneless.IsLoopback(),
		slices.ContainsFunc(p.Allow, func(n netip.Prefix) bool { return n.Contains(zoneless) }),
		p.configured(asked, zoneless) && !(p.NotPublic && guardian.SafeAddr(ip) == nil):
		return nil
	case ip.Zone() != "":
		return &blocked{host: asked, ip: ip, reason: "it is an address of one network interface"}
	}
	if err := guardian.SafeAddr(ip); err != nil {
		return &blocked{host: asked, ip: ip, reason: "it is in the " + kind(ip)}
	}
	if p.NotPublic {
		return &blocked{host: asked, ip: ip, reason: "it is public, and the connection is not encrypted: use https"}
	}
	return p.checkPort(asked, strconv.Itoa(int(ap.Port())), ip)
}

// configured reports whether the operator has named this very address.
func (p Policy) configured(asked string, ip netip.Addr) bool {
	if !p.trusts(asked) {
		return false
	}
	host, _, _ := net.SplitHostPort(asked)
	if strings.EqualFold(host, "localhost") {
		return ip.IsLoopback()
	}
	literal, err := netip.ParseAddr(host)
	return err == nil && literal.WithZone("") == ip
}

func (p Policy) trusts(asked string) bool { return slices.Contains(p.Trusted, strings.ToLower(asked)) }

// checkPort keeps requests off services that do not speak HTTP but might take a
// request for commands of theirs.
func (p Policy) checkPort(asked, port string, ip netip.Addr) error {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || n < 1024 && n != 80 && n != 443 && !p.trusts(asked) {
		return &blocked{host: asked, ip: ip, reason: "the port is none of 80, 443 and 1024 to 65535"}
	}
	return nil
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// kind names the network of an address that is not public.
func kind(ip netip.Addr) string {
	switch {
	case ip.IsLoopback():
		return "loopback network"
	case ip.IsPrivate():
		return "private network"
	case ip.IsLinkLocalUnicast():
		return "link-local network, which holds metadata services"
	case ip.IsMulticast():
		return "multicast range"
	default:
		return "range of addresses that are not public"
	}
}

// blocked is an address that is not connected to.
type blocked struct {
	host   string // host:port as asked for
	ip     netip.Addr
	reason string
}

func (b *blocked) Error() string {
	var text strings.Builder
	text.WriteString("netguard: connection refused")
	if b.host != "" {
		fmt.Fprintf(&text, " to %q", b.host)
	}
	if b.ip.IsValid() {
		fmt.Fprintf(&text, " at %s", b.ip.WithZone(""))
	}
	return text.String() + ": " + b.reason
}

func (b *blocked) Unwrap() error { return ErrBlocked }
