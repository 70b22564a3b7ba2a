package serve

import (
	"net/http"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// A Router is an [http.Handler] that lets requests into a flow and answers them from it.
// It is built with the flow, and is safe for concurrent use after that.
//
// A request that comes before the flow is started waits.
type Router[L dataflow.Location] struct {
	at       L
	requests *requestTable
	mux      *http.ServeMux
	routed   bool      // mux has routes
	rest     *Route[L] // for requests without a route; nil if they are refused
}

// HTTP returns a router and the keyed singleton of its requests, without those that
// [Router.Handle] or [JSON] takes. [Router.Respond] must be called to answer them. The
// name appears in errors, traces and graphs.
func HTTP[L dataflow.Location](
	at L, name string, opts Options,
) (*Router[L], dataflow.KeyedSingleton[RequestID, *Request, L, bounds.BoundedValue]) {
	op := "serve.HTTP " + name
	r := newRouter(at, op, name, opts)
	rest, requests := newRoute(r, "serve.HTTP", "", whole)
	r.rest = rest
	return r, requests
}

// Routes returns a router that has only the routes made by [Router.Handle] and [JSON]. A
// request that matches none of them is answered 404, or 405 if only the method does not
// match, and never reaches the flow.
func Routes[L dataflow.Location](at L, name string, opts Options) *Router[L] {
	return newRouter(at, "serve.Routes "+name, name, opts)
}

const routersAreMade = "routers come from serve.HTTP and serve.Routes"

func newRouter[L dataflow.Location](at L, op, name string, opts Options) *Router[L] {
	placeOf(at, op).Input(op)
	return &Router[L]{at: at, requests: newRequestTable(name, opts.filled(op)), mux: http.NewServeMux()}
}

// Handle returns a route and the keyed singleton of its requests: those that match the
// pattern, which has the syntax of [http.ServeMux], such as "POST /orders/{id}".
// [Route.Respond] must be called to answer them. A pattern that is malformed or conflicts
// with another one panics.
func (r *Router[L]) Handle(pattern string) (*Route[L], dataflow.KeyedSingleton[RequestID, *Request, L, bounds.BoundedValue]) {
	return newRoute(r, "serve.Handle", pattern, whole)
}

// Respond answers the requests that [HTTP] returned with responses; see [Route.Respond].
func (r *Router[L]) Respond(responses dataflow.KeyedSingleton[RequestID, Response, L, bounds.BoundedValue]) {
	if r == nil || r.requests == nil {
		engine.Unmade("serve.Router", routersAreMade)
	}
	if r.rest == nil {
		engine.Misuse("serve.Respond "+r.requests.name, "a router made by Routes has no requests of its own: its routes have")
	}
	r.rest.Respond(responses)
}

// ServeHTTP lets a request into the flow, waits for its response, and writes it.
func (r *Router[L]) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r == nil || r.requests == nil {
		engine.Unmade("serve.Router", routersAreMade)
	}
	if r.rest != nil {
		matched := ""
		if r.routed {
			_, matched = r.mux.Handler(req)
		}
		if matched == "" {
			r.rest.handler(w, req)
			return
		}
	}
	r.mux.ServeHTTP(w, req)
}

// register adds a route to the multiplexer. It prefixes a panic of the multiplexer with
// the operator.
func (r *Router[L]) register(op, pattern string, t *Route[L]) {
	defer func() {
		if p := recover(); p != nil {
			engine.Misuse(op, "%v", p)
		}
	}()
	r.mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) { t.handler(w, req) })
	r.routed = true
}
