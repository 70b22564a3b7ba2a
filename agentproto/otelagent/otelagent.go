// Package otelagent has what happens to calls as traces of OpenTelemetry.
//
//	tracer := otelagent.New(otel.GetTracerProvider())
//	rt, err := host.Start(ctx, host.Options{Tracer: tracer, …})
//	server, err := toolserver.New(toolserver.Options{Tracer: tracer, …})
//
// A call is one trace, or a part of the one in the context of [host.Runtime.Call]. Its spans are
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
// Between a runtime and a tool server go the headers traceparent and tracestate of W3C Trace Context. Either
// may have no tracer: then its spans are missing, and callbacks follow the span of the call. A runtime believes the headers
// of a callback only as far as they are of the trace of the call.
//
// The span that others follow is kept with the call, so a trace goes on in the process that goes on with
// the call: after a crash, on another host, in another process that shares the log.
//
// Attributes are gen_ai.tool.name, gen_ai.tool.call.id and gen_ai.conversation.id, the thread, as the semantic
// conventions of OpenTelemetry have them, peer.service for the address of the other side, and millrace.message and
// millrace.outcome. Arguments, results and callback URLs are in no attribute.
package otelagent

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace/millrace/agentproto"
)

// New returns a tracer whose spans are those of a provider. It panics if that is nil. What is sampled is the
// provider's decision; calls of a trace that is not sampled are named to the other side all the same.
func New(provider trace.TracerProvider) agentproto.Tracer {
	if provider == nil {
		panic("otelagent: New needs a provider, such as otel.GetTracerProvider()")
	}
	return tracer{provider.Tracer("github.com/millrace/millrace/agentproto/otelagent")}
}

type tracer struct{ of trace.Tracer }

// w3c reads and writes the headers, whichever propagator the program has for the rest.
var w3c propagation.TraceContext

// The keys of [propagation.TraceContext].
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
