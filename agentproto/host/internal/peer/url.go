package peer

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Origin returns scheme, host and port of an http or https URL.
func Origin(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", errors.New("not a URL")
	}
	port := u.Port()
	switch {
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme == "https" && port == "":
		port = "443"
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("not an http or https URL")
	}
	if u.Hostname() == "" {
		return "", errors.New("URL without a host")
	}
	if u.User != nil {
		return "", errors.New("URL with a user name or password")
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}

// ServerOrigin is [Origin] with one name for this machine: a port has one server, whether the URL says localhost, 127.0.0.1 or
// [::1].
func ServerOrigin(raw string) (string, error) {
	origin, err := Origin(raw)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"127.0.0.1", "[::1]"} {
		if scheme, port, ok := strings.Cut(origin, "://"+name+":"); ok {
			return scheme + "://localhost:" + port, nil
		}
	}
	return origin, nil
}

// IsLoopback reports whether a host is this machine without asking a resolver.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
