package plain

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// maxHost is the longest name of a host, in bytes, as of RFC 1035.
const maxHost = 253

// URL returns an address as a person is shown it, and its host: in ASCII, with what is not
// as punycode, as a browser looks it up. So a name of letters that look like those of another
// name is seen not to be that. What is hidden in the rest is spelled out. It reports false
// for what a browser would not open, or where it is not clear which host that is: without a
// host, or with a user name or a name that is none. The port is a part of the host if there
// is one.
func URL(raw string) (shown, host string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || strings.Contains(raw, `\`) {
		return Line(raw), "", false
	}
	port := u.Port()
	host, ok = Host(u.Hostname())
	if !ok {
		return Line(raw), "", false
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
		host = u.Host
	}
	return Line(u.String()), host, true
}

// Host returns the name of a host in ASCII and lower case, as a browser looks it up. It
// reports false for what is none.
func Host(name string) (string, bool) {
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", false
		}
		name = ascii
	}
	name = strings.ToLower(name)
	return name, name != "" && len(name) <= maxHost && isASCII(name) && Line(name) == name && !strings.ContainsAny(name, ` "<>\^{|}%/?#@`+"`")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
