// Package otelagent records what happens to calls as OpenTelemetry traces. Start with [New].
//
//	tracer := otelagent.New(otel.GetTracerProvider())
//	rt, err := host.Start(ctx, host.Options{Tracer: tracer, …})
//	server, err := toolserver.New(toolserver.Options{Tracer: tracer, …})
//
// A call is one trace, or a part of the one in the context of host.Runtime.Call. Its spans are:
//
//	call                 the runtime makes the call
//	├ dispatch           and posts it
//	│ └ invoke           the tool server takes it
//	│   ├ run            and runs the function
//	│   └ message        and posts what the function says, one span for each attempt
//	│     └ callback     the runtime takes the message
//	├ answer             and posts the answer of the user, if the tool has asked for one
//	└ resolve            and gives the call its result
//
// Runtimes and tool servers exchange the headers traceparent and tracestate of W3C Trace Context. Either side may have no tracer:
// its spans are then missing, and callbacks follow the span of the call. A runtime uses the headers of a callback only if they
// belong to the trace of the call.
//
// The span that later spans follow is stored with the call, so a trace continues in whichever process continues the call: after a
// crash, on another host, in another process that shares the log.
//
// The attributes are gen_ai.tool.name, gen_ai.tool.call.id and gen_ai.conversation.id, which is the thread, as defined by the
// semantic conventions of OpenTelemetry; peer.service, the address of the other side; and millrace.message and millrace.outcome.
// No attribute contains arguments, results or callback URLs.
package otelagent

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/agentproto"
)

// New returns a tracer that makes its spans with a provider. It panics if the provider is nil. The provider decides what is
// sampled; the trace of an unsampled call is still sent to the other side.
func New(provider trace.TracerProvider) agentproto.Tracer {
	if provider == nil {
		panic("otelagent: New needs a provider, such as otel.GetTracerProvider()")
	}
	return tracer{provider.Tracer("github.com/millrace/millrace/agentproto/otelagent")}
}

type tracer struct{ of trace.Tracer }

// w3c reads and writes the headers, independently of the program's global propagator.
var w3c propagation.TraceContext

// The keys that [propagation.TraceContext] uses.
const parent, state = "traceparent", "tracestate"

func (t tracer) Start(ctx context.Context, s agentproto.SpanStart) (context.Context, agentproto.Span) {
	if !s.Parent.IsZero() {
		ctx = w3c.Extract(ctx, propagation.MapCarrier{parent: s.Parent.Parent, state: s.Parent.State})
	}
	name, attributes := s.Name, make([]attribute.KeyValue, 0, 5)
	add := func(key, value string) {
		if value != "" {
			attributes = append(attributes, attribute.String(key, value))
		}
	}
	if s.Operation != "" {
		name += " " + s.Operation
	} else if s.Message != "" {
		name += " " + s.Message
	}
	add("gen_ai.tool.name", s.Operation)
	add("gen_ai.tool.call.id", s.Key.ID)
	add("gen_ai.conversation.id", s.Key.GroupID)
	add("peer.service", s.Peer)
	add("millrace.message", s.Message)
	kind := [...]trace.SpanKind{trace.SpanKindInternal, trace.SpanKindServer, trace.SpanKindClient}[s.Kind]
	ctx, of := t.of.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	return ctx, span{of}
}

type span struct{ of trace.Span }

func (s span) Trace() agentproto.Trace {
	names := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpan(context.Background(), s.of), names)
	return agentproto.Trace{Parent: names[parent], State: names[state]}
}

func (s span) End(outcome string, failed bool) {
	if outcome != "" {
		s.of.SetAttributes(attribute.String("millrace.outcome", outcome))
	}
	if failed {
		s.of.SetStatus(codes.Error, outcome)
	}
	s.of.End()
}
