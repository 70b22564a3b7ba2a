// Package quote writes strings of somebody else's into texts and logs.
package quote

import (
	"log/slog"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/agentproto"
)

// maxQuoted bounds what is quoted in texts and logs.
const maxQuoted = 256

// Text returns a string of somebody else's as a Go literal in ASCII, so that it
// can break neither a log nor a terminal.
func Text(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// Call is how a call is logged.
func Call(key agentproto.CallKey) slog.Attr {
	return slog.Group("call", slog.String("thread", Text(key.GroupID)), slog.String("id", Text(key.ID)))
}

// URL quotes a configured URL.
func URL(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		raw = u.Redacted()
	}
	return Text(raw)
}
