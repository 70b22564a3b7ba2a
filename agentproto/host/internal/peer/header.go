package peer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// maxHeader bounds the configured headers for one tool server, in bytes.
const maxHeader = 16 << 10

// GreetingHeader proves to another runtime that the sender has the key, so that no one else can make it read a large body.
const GreetingHeader = "Millrace-Greeting"

// reserved are the names of headers that the runtime or the transport sets.
var reserved = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
	"Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", GreetingHeader,
}

// checkHeader returns why a configured header cannot be sent to a tool server. The error contains no value.
func checkHeader(h http.Header) error {
	size := 0
	for name, values := range h {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("%s is not the name of a header", quote.Text(name))
		case slices.Contains(reserved, canonical), strings.HasPrefix(canonical, "Webhook-"):
			return fmt.Errorf("the header %s is set by the runtime itself", canonical)
		case canonical != name:
			return fmt.Errorf("the header %s has to be written %s", quote.Text(name), canonical)
		}
		for _, value := range values {
			if value == "" || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }) {
				return fmt.Errorf("the value of the header %s is empty, or has a character that is not printable ASCII or a blank at an end", canonical)
			}
			size += len(name) + len(value)
		}
	}
	if size > maxHeader {
		return fmt.Errorf("the headers have more than %d bytes", maxHeader)
	}
	return nil
}

// headersOf reads the configured headers by base URL.
func headersOf(opts Config) (map[string]http.Header, error) {
	headers := map[string]http.Header{}
	for base, h := range opts.Headers {
		trimmed := strings.TrimSuffix(base, "/")
		if !slices.ContainsFunc(opts.Toolsets, func(t string) bool { return strings.TrimSuffix(t, "/") == trimmed }) {
			return nil, fmt.Errorf("host: headers of %s: it is not among the toolsets", quote.URL(base))
		}
		if err := checkHeader(h); err != nil {
			return nil, fmt.Errorf("host: headers of %s: %w", quote.URL(base), err)
		}
		headers[trimmed] = h.Clone()
	}
	return headers, nil
}

// Introduce adds the configured headers of a tool server to a request, if the request goes to the server's own origin or to an
// allowed one. It checks this for each request, because the origin in a manifest may have been allowed when a call was made and
// be refused now.
func (ps *Peers) Introduce(req *http.Request, s *Server) {
	if s == nil || len(s.header) == 0 || ps.MayUse(s, req.URL.String()) != nil {
		return
	}
	origin, _ := ServerOrigin(req.URL.String())
	if origin != s.origin && slices.ContainsFunc(ps.All, func(other *Server) bool { return other.origin == origin }) {
		return // another tool server, even if its origin is allowed
	}
	for name, values := range s.header {
		req.Header[name] = slices.Clone(values)
	}
}
