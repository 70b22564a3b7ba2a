package agentproto

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/weburl"
)

// httpURL says what is wrong with the URL of a peer, or returns "". Whether the address may be connected to is for the caller
// that connects to check.
func httpURL(s string) string {
	return urlReason(s, maxURLBytes, func(u *url.URL) string {
		if u.Scheme != "http" && u.Scheme != "https" {
			return "must be an absolute http or https URL"
		}
		return ""
	})
}

// authURL says what is wrong with a URL that a person is sent to, or returns "". Such a URL must not look like another one: it is
// https, has no user name that could pass for the host, nothing invisible, and no backslash, which browsers treat as a slash.
func authURL(s string) string {
	return urlReason(s, maxAuthURLBytes, func(u *url.URL) string {
		switch {
		case u.Scheme != "https":
			return "must be an https URL"
		case u.User != nil:
			return "must not have a user name"
		case strings.ContainsRune(s, '\\'):
			return "must not have a backslash"
		}
		if _, ok := weburl.Host(u.Hostname()); !ok && u.Hostname() != "" {
			return "must have the name of a host"
		}
		return ""
	})
}

func urlReason(s string, maxBytes int, check func(*url.URL) string) string {
	switch {
	case s == "":
		return "must not be empty"
	case len(s) > maxBytes:
		return "is too long"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.C, unicode.Z) }):
		return "has a blank or invisible character"
	}
	u, err := url.Parse(s)
	if err != nil {
		return "is not a URL" // the parser's error would repeat the URL
	}
	if reason := check(u); reason != "" {
		return reason
	}
	switch port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16); {
	case u.Hostname() == "" || u.Opaque != "":
		return "must have a host"
	case err != nil || port == 0:
		return "must have a port from 1 to 65535"
	}
	return ""
}
