// Package tracing carries traces over HTTP. Without a tracer it makes no spans.
package tracing

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/millrace/millrace/agentproto"
)

// The headers of W3C Trace Context.
const (
	parentHeader = "Traceparent"
	stateHeader  = "Tracestate"
)

// maxState is the maximum length of an accepted tracestate in bytes. The specification requires passing on at least this
// much.
const maxState = 512

// Start starts a span with a tracer, or does nothing if the tracer is nil. Requests that are sent with the returned
// context name the span: see [Inject].
func Start(ctx context.Context, t agentproto.Tracer, s agentproto.SpanStart) (context.Context, agentproto.Span) {
	if t == nil {
		return ctx, none{}
	}
	ctx, span := t.Start(ctx, s)
	if name := span.Trace(); !name.IsZero() {
		ctx = context.WithValue(ctx, key{}, name)
	}
	return ctx, span
}

type key struct{}

type none struct{}

func (none) Trace() agentproto.Trace { return agentproto.Trace{} }
func (none) End(string, bool)        {}

// Inject adds the headers that name the span of a context to a request.
func Inject(ctx context.Context, h http.Header) {
	t, _ := ctx.Value(key{}).(agentproto.Trace)
	Put(t, h.Set)
}

// Put calls set with the headers that name a span, if there is one.
func Put(t agentproto.Trace, set func(name, value string)) {
	if t.IsZero() {
		return
	}
	set(parentHeader, t.Parent)
	if t.State != "" {
		set(stateHeader, t.State)
	}
}

// Extract returns the span that a request names, or zero if it names none or the header is invalid.
func Extract(h http.Header) (t agentproto.Trace) {
	parents := h.Values(parentHeader)
	if len(parents) != 1 {
		return t
	}
	id, ok := Parse(strings.TrimSpace(parents[0]))
	if !ok {
		return t
	}
	t.Parent = id.String()
	if state := strings.Join(h.Values(stateHeader), ","); len(state) <= maxState && !strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.State = state
	}
	return t
}

// An ID is the content of a traceparent: 16 bytes for the trace, 8 for the span, and one with flags.
type ID [25]byte

// version is the version in which an ID is written, and idLength its length. Later versions begin the same way.
const version, idLength = "00", 55

// Parse parses a traceparent. A later version is parsed like the first one.
func Parse(text string) (id ID, ok bool) {
	if len(text) < idLength || len(text) > idLength && (text[:2] == version || text[idLength] != '-') || text[:2] == "ff" || !isHex(text[:2]) {
		return id, false
	}
	if text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return id, false
	}
	digits := text[3:35] + text[36:52] + text[53:55]
	if !isHex(digits) {
		return id, false
	}
	b, _ := hex.DecodeString(digits)
	copy(id[:], b)
	return id, [16]byte(id[:16]) != [16]byte{} && [8]byte(id[16:24]) != [8]byte{}
}

func isHex(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// String formats a traceparent.
func (id ID) String() string {
	return version + "-" + hex.EncodeToString(id[:16]) + "-" + hex.EncodeToString(id[16:24]) + "-" + hex.EncodeToString(id[24:])
}

// Follows reports whether two spans belong to the same trace.
func Follows(t, other agentproto.Trace) bool {
	a, ok := Parse(t.Parent)
	b, known := Parse(other.Parent)
	return ok && known && [16]byte(a[:16]) == [16]byte(b[:16])
}
