package agentproto

import "context"

// A Trace names a span of a distributed trace in the words of W3C Trace Context: Parent is what the
// header traceparent says, and State what tracestate says. The zero Trace names none.
type Trace struct {
	Parent string `json:",omitzero"`
	State  string `json:",omitzero"`
}

// IsZero reports whether a Trace names no span.
func (t Trace) IsZero() bool { return t.Parent == "" }

// A Tracer makes spans of what happens to calls: package otelagent has one for OpenTelemetry. A span of a
// runtime or a tool server is short, one action of one process. What belongs to a call are the
// spans with its trace, whichever process made them: each remembers which span it follows, so a trace
// goes on after a restart. Methods are called by many goroutines.
type Tracer interface {
	// Start begins a span. It returns a context that has it, for what is done within it.
	Start(ctx context.Context, s SpanStart) (context.Context, Span)
}

// A SpanStart says which span begins.
type SpanStart struct {
	Name      string   // one of the Span constants
	Kind      SpanKind // who is at the other end
	Parent    Trace    // the span that it follows; if that is zero, the one in the context, or none
	Key       CallKey
	Operation string // the tool, if it is known
	Peer      string // the base URL, or origin, of the other side, if there is one
	Message   string // the type of the message that is taken in or sent, if there is one
}

// A SpanKind says who is at the other end of a span.
type SpanKind uint8

// The kinds of spans.
const (
	SpanInternal SpanKind = iota // nobody
	SpanServer                   // who has sent a request
	SpanClient                   // who was sent one
)

// The spans of a runtime and of a tool server.
const (
	SpanCall     = "call"     // a runtime makes a call
	SpanDispatch = "dispatch" // it posts the call, with all attempts
	SpanInvoke   = "invoke"   // a tool server takes the call
	SpanRun      = "run"      // it runs the function, or the producer of a subscription
	SpanMessage  = "message"  // it posts a message, one attempt
	SpanCallback = "callback" // a runtime takes the message
	SpanAnswer   = "answer"   // it posts a user's answer, with all attempts
	SpanResolve  = "resolve"  // the call has its result
)

// A Span is a span that has begun.
type Span interface {
	// Trace returns what names the span, for those that follow it. It is zero if nobody records the span's trace.
	Trace() Trace
	// End ends the span. Outcome says in a few words what came of it; it is an error if failed is set.
	End(outcome string, failed bool)
}
