package serve

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// A Route is a subset of a router's requests, with its own responses.
type Route[L dataflow.Location] struct {
	_        [0]func(L)
	name     string // of the router, and the pattern
	op       *engine.Op
	location *engine.Location
	out      *dataflow.EntryOutputPort[RequestID, Response] // nil until Respond
	handler  http.HandlerFunc

	// In a durable flow, contents has the content of each request whose response is kept or
	// still to come, from Respond on; expire makes it. Else both are nil.
	contents *dataflow.EntryOutputPort[RequestID, content]
	expire   func(*engine.KeyedNode[RequestID, Response], *port.EntryOutput[RequestID, Response]) *dataflow.EntryOutputPort[RequestID, content]
}

// newRoute adds a route to a router. The flow receives each request in the form that accept
// returns.
func newRoute[V any, L dataflow.Location](
	r *Router[L], verb, pattern string, accept func(*Request) (V, error),
) (*Route[L], dataflow.KeyedSingleton[RequestID, V, L, bounds.BoundedValue]) {
	if r == nil || r.requests == nil {
		engine.Unmade("serve.Router", routersAreMade)
	}
	name, all := r.requests.name, verb == "serve.HTTP"
	if !all {
		name += " " + pattern
	}
	op := verb + " " + name
	location := placeOf(r.at, op).Input(op)
	t := &Route[L]{name: name, location: location, op: engine.NewOp(location, op, "")}
	if !all {
		r.register(t.op.Name, pattern, t)
	}
	var send func(context.Context, RequestID, content, V) error
	var n *engine.KeyedNode[RequestID, V]
	if location.Graph.Kept() {
		send, n, t.expire = newHistoryInput[V](location, t.op, r.requests.opts)
	} else {
		// The table ensures that no key comes twice. Unlike an input that accepts each key
		// once, it need not remember the keys that it made.
		var in *port.KeyedInput[RequestID, V]
		in, n = port.NewKeyedInput[RequestID, V](location, t.op)
		send = func(ctx context.Context, id RequestID, _ content, v V) error { return in.Send(ctx, id, v) }
	}
	operators.Inspect(operators.Constant(location, nil, []struct{}{{}}), t.op, func(struct{}) { t.check() })
	t.handler = func(w http.ResponseWriter, req *http.Request) {
		t.check()
		r.requests.handle(w, req, endpoint{pattern, func(req *Request, c content) (func(context.Context) error, error) {
			v, err := accept(req)
			return func(ctx context.Context) error { return send(ctx, req.ID, c, v) }, err
		}, t.out, t.contents})
	}
	return t, newKeyedSingleton[RequestID, V, L, bounds.BoundedValue](n)
}

// whole accepts every request as it is.
func whole(r *Request) (*Request, error) { return r, nil }

// check panics if the route has no responses. It is called when the flow starts, which then
// fails, and for requests that come before.
func (t *Route[L]) check() {
	if t.out == nil {
		engine.Misuse(t.op.Name, "nobody answers the requests: call Respond before the flow is started")
	}
}

// Respond answers each request of the route with the response that appears under its id. It
// must be called once, before the start. A second call panics, and a flow that is started
// without one fails at once.
//
// A response must not change, because a response that was sent cannot be taken back. If
// values change, use a slice: the entries that it emits for a batch of requests and a
// snapshot do not change.
func (t *Route[L]) Respond(responses dataflow.KeyedSingleton[RequestID, Response, L, bounds.BoundedValue]) {
	if t == nil || t.op == nil {
		engine.Unmade("serve.Route", "routes come from Handle of a router, and serve.JSON")
	}
	name := "serve.Respond " + t.name
	n := engine.Made(engine.KeyedNodeOf(responses), name)
	switch {
	case t.out != nil:
		engine.Misuse(name, "the requests have responses already")
	case n.Location() != t.location:
		engine.Misuse(name, "the responses live at %s of another flow", n.Location().Name)
	}
	op := engine.NewOp(t.location, name, "")
	out := port.NewEntryOutput(n, op)
	if t.out = newEntryOutputPort(out); t.expire != nil {
		t.contents = t.expire(n, out)
	}
}
