// Package netguard keeps outgoing connections off networks that are not public.
//
// A side of the agent tool protocol connects to addresses that its peers name: callbacks,
// answers, tool servers, OAuth providers. Such an address must not lead into the side's own
// network, whatever it looks like and whatever its name resolves to (threats 10 to 15 of
// doc/threats.md). So a [Policy] checks the address to which a socket is about to connect,
// after names are resolved: a resolver whose answer changes between a check and its use has
// no effect.
//
// The transport that uses a policy must have no proxy. Otherwise the address of the proxy
// would be checked, and the proxy would resolve the name itself.
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

// ErrBlocked is wrapped by every error of a [Policy].
var ErrBlocked = errors.New("netguard: blocked")

// A Policy says which addresses may be connected to. The zero Policy allows public
// addresses, on the ports 80, 443 and those from 1024. It must not be changed while it is in
// use; several goroutines may then use it.
type Policy struct {
	// AllowLoopback also allows 127.0.0.0/8 and ::1, on every port. It is for a side that
	// is itself reachable only on this machine. It must never depend on what a peer says.
	AllowLoopback bool
	// Allow lists networks that are allowed on every port although they are not public.
	Allow []netip.Prefix
	// NotPublic refuses public addresses, including trusted ones. It is for connections on
	// which others could read along. Other allowed addresses stay allowed.
	NotPublic bool
	// Trusted are "host:port" pairs that the operator has configured; see [Policy.Trust]. A
	// connection to exactly this name may use any port. If the host is an IP address, or
	// localhost, it need not be public. A name must still resolve to public addresses.
	Trusted []string
}

// extra are blocked addresses that are in no registry of special addresses: that of a cloud's
// metadata service, which is at a public address.
var extra = []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")}

var guardian = ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork(), ssrf.WithDeniedV4Prefixes(extra...))

// Trust returns a policy that also trusts the origins of URLs that the operator has
// configured. It ignores anything but http and https URLs with a host.
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

// hostPort returns the address that is dialed for u.
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

// DialContext returns a function for [net/http.Transport.DialContext] that dials with d, or
// with a zero dialer if d is nil, and connects only to addresses that the policy allows. If
// a name has several addresses, it skips those that are not allowed. Errors about blocked
// addresses wrap [ErrBlocked] and name the host, the address and the reason; they contain
// nothing else of a URL. DialContext does not change d, and d's own control function is
// still called.
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

// CheckURL returns an error if it is clear without resolving a name that u cannot be
// connected to: the host is an IP address that is not allowed, a number that some take for
// an IP address, or localhost; or the port is not allowed. It serves to report errors
// early; the check that matters is made when connecting.
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

// checkAddr checks the requested address before names are resolved.
func (p Policy) checkAddr(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return &blocked{host: addr, reason: "it is not a host and a port"}
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.Is4In6():
		// The system would connect to the IPv4 address, so the address that is checked
		// later would not be the one that a reader of the URL has seen.
		return &blocked{host: addr, ip: ip, reason: "an IPv4 address must not be written as an IPv6 address"}
	case err != nil && isNumber(host):
		return &blocked{host: addr, reason: "a number is no host; write an IPv4 address as four decimal numbers"}
	}
	return nil
}

// isNumber reports whether the last label of host is a number. Some resolvers and libraries
// take such names for IPv4 addresses in decimal, octal or hexadecimal form: 2130706433,
// 0177.0.0.1, 0x7f.1.
func isNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// checkConnected checks the address to which a socket is about to connect.
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

// configured reports whether the operator has configured exactly this address.
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

// checkPort keeps requests away from services that do not speak HTTP but might interpret a
// request as commands.
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

// blocked is the error for an address that is not allowed.
type blocked struct {
	host   string // host:port as requested
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
