// Package quote quotes foreign strings for texts and logs.
package quote

import (
	"log/slog"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/agentproto"
)

// maxQuoted is how many bytes of a string are quoted.
const maxQuoted = 256

// Text returns a foreign string as a Go literal in ASCII, so that it can break neither a log nor a terminal.
func Text(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// Call returns the log attribute of a call.
func Call(key agentproto.CallKey) slog.Attr {
	return slog.Group("call", slog.String("thread", Text(key.GroupID)), slog.String("id", Text(key.ID)))
}

// URL quotes a configured URL, without its password.
func URL(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		raw = u.Redacted()
	}
	return Text(raw)
}
