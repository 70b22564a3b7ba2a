package agentproto

import "context"

// A Trace names a span of a distributed trace as defined by W3C Trace Context: Parent is the value of the header traceparent, and
// State that of tracestate. The zero Trace names none.
type Trace struct {
	Parent string `json:",omitzero"`
	State  string `json:",omitzero"`
}

// IsZero reports whether a Trace names no span.
func (t Trace) IsZero() bool { return t.Parent == "" }

// A Tracer makes spans for what happens to calls; package otelagent has one for OpenTelemetry. A span of a runtime or a tool
// server is short: one action of one process. The spans of a call are those with its trace, whichever process made them. Each
// remembers the span that it follows, so a trace continues after a restart. Methods must be safe for concurrent use.
type Tracer interface {
	// Start begins a span. It returns a context that contains the span, for the work done within it.
	Start(ctx context.Context, s SpanStart) (context.Context, Span)
}

// A SpanStart describes a span that begins.
type SpanStart struct {
	Name      string   // one of the Span constants
	Kind      SpanKind // which side of a request the span is on
	Parent    Trace    // the span that it follows; if zero, the one in the context, or none
	Key       CallKey
	Operation string // the tool, if it is known
	Peer      string // the base URL or origin of the other side, if any
	Message   string // the type of the message that is received or sent, if any
}

// A SpanKind says which side of a request a span is on.
type SpanKind uint8

// The kinds of spans.
const (
	SpanInternal SpanKind = iota // no request
	SpanServer                   // it handles a request
	SpanClient                   // it sends a request
)

// The names of the spans of a runtime and of a tool server.
const (
	SpanCall     = "call"     // a runtime makes a call
	SpanDispatch = "dispatch" // a runtime posts the call, with all attempts
	SpanInvoke   = "invoke"   // a tool server receives the call
	SpanRun      = "run"      // a tool server runs the function, or the producer of a subscription
	SpanMessage  = "message"  // a tool server posts a message, one attempt
	SpanCallback = "callback" // a runtime receives the message
	SpanAnswer   = "answer"   // a runtime posts a user's answer, with all attempts
	SpanResolve  = "resolve"  // the call has its result
)

// A Span is a span that has begun.
type Span interface {
	// Trace returns the name of the span, for spans that follow it. It is zero if the tracer does not name its spans; a span that is
	// not sampled has a name.
	Trace() Trace
	// End ends the span. Outcome describes the result in a few words; it is an error if failed is set.
	End(outcome string, failed bool)
}
