// Package weburl prepares addresses of web pages to be shown to a person, with the host as a browser looks it up.
package weburl

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/millrace/millrace/internal/plain"
)

// maxHost is the maximum length of a host name, in bytes, according to RFC 1035.
const maxHost = 253

// Show returns an address in the form to show to a person, and its host. The host is in ASCII,
// with other characters as punycode, as a browser looks it up. So a name with letters that
// look like those of another name is recognizably different. Hidden characters in the rest
// are spelled out. The host includes the port if there is one.
//
// Show reports false for an address that a browser would not open, or whose host is unclear:
// one without a host, with a user name, or with an invalid host name.
func Show(raw string) (shown, host string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || strings.Contains(raw, `\`) {
		return plain.Line(raw), "", false
	}
	port := u.Port()
	host, ok = Host(u.Hostname())
	if !ok {
		return plain.Line(raw), "", false
	}
	u.Host = host
	if strings.Contains(host, ":") {
		u.Host = "[" + host + "]"
	}
	if port != "" {
		u.Host += ":" + port
		host = u.Host
	}
	return plain.Line(u.String()), host, true
}

// Host returns the name of a host in ASCII and lower case, as a browser looks it up. It
// reports false for an invalid name.
func Host(name string) (string, bool) {
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", false
		}
		name = ascii
	}
	name = strings.ToLower(name)
	return name, name != "" && len(name) <= maxHost && isASCII(name) && plain.Line(name) == name && !strings.ContainsAny(name, ` "<>\^{|}%/?#@`+"`")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
