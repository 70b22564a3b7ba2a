package host

import (
	"log/slog"
	"net/url"
	"strconv"

	"github.com/millrace/millrace/agentproto"
)

// maxQuoted bounds what is quoted in texts and logs.
const maxQuoted = 256

// quoted returns a string of somebody else's as a Go literal in ASCII, so that it
// can break neither a log nor a terminal.
func quoted(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// keyAttr is how a call is logged.
func keyAttr(key agentproto.CallKey) slog.Attr {
	return slog.Group("call", slog.String("thread", quoted(key.GroupID)), slog.String("id", quoted(key.ID)))
}

// withoutPassword quotes a configured URL.
func withoutPassword(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		raw = u.Redacted()
	}
	return quoted(raw)
}
