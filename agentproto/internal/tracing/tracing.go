// Package tracing carries traces over HTTP, and leaves out spans where there is no tracer.
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

// maxState bounds what is taken of a tracestate, in bytes. The specification has it that at least so many are passed on.
const maxState = 512

// Start begins a span with a tracer, and does nothing if that is nil. What is sent with the context that
// it returns names the span: see [Inject].
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

// Inject names the span of a context in the header of a request.
func Inject(ctx context.Context, h http.Header) {
	t, _ := ctx.Value(key{}).(agentproto.Trace)
	Put(t, h.Set)
}

// Put gives the headers that name a span, if there is one.
func Put(t agentproto.Trace, set func(name, value string)) {
	if t.IsZero() {
		return
	}
	set(parentHeader, t.Parent)
	if t.State != "" {
		set(stateHeader, t.State)
	}
}

// Extract returns the span that a request names, or zero if it names none as it should.
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

// An ID is what a traceparent says: 16 bytes of the trace, 8 of the span, and one with flags.
type ID [25]byte

// version is how an ID is written, and the one that later versions begin like.
const version, idLength = "00", 55

// Parse reads a traceparent. That of a later version is read like that of the first one.
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

// String writes a traceparent.
func (id ID) String() string {
	return version + "-" + hex.EncodeToString(id[:16]) + "-" + hex.EncodeToString(id[16:24]) + "-" + hex.EncodeToString(id[24:])
}

// Follows reports whether a span belongs to the trace of another one.
func Follows(t, other agentproto.Trace) bool {
	a, ok := Parse(t.Parent)
	b, known := Parse(other.Parent)
	return ok && known && [16]byte(a[:16]) == [16]byte(b[:16])
}
