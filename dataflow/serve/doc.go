// Package serve lets HTTP requests into a flow and answers them from it. A router is an
// [http.Handler]. Its requests are a keyed singleton with one entry for each request, and
// its answers are a keyed singleton of responses under the same keys.
//
//	type Server struct{ dataflow.Process }
//
//	flow := dataflow.New()
//	router, requests := serve.HTTP(dataflow.At[Server](flow), "greetings", serve.Options{})
//	router.Respond(keyedsingleton.Map(requests, func(r *serve.Request) serve.Response {
//		return serve.Text(http.StatusOK, "hello, "+r.Query.Get("name"))
//	}))
//
//	app, err := dataflow.Start(ctx, flow)
//	server := &http.Server{
//		Addr: "localhost:8080", Handler: router, MaxHeaderBytes: 16 << 10,
//		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
//		WriteTimeout: 70 * time.Second, IdleTimeout: time.Minute,
//	}
//	err = server.ListenAndServe()
//
// Without these limits, clients that send slowly can block the server. WriteTimeout must be
// longer than ReadTimeout and [Options].Timeout together; otherwise answers that take that
// long are lost.
//
// Requests are a bounds.BoundedValue: an entry appears when a request comes and never
// changes. Responses must have the same bound. A Map or a MapAsync of the requests has it,
// and so do the entries that a slice emits for a batch of requests and a snapshot of the
// state. A collection that may still change does not compile.
//
// # Routes
//
// [Router.Handle] takes the requests of one method and pattern, with the syntax of
// [http.ServeMux], into a separate collection. [JSON] does the same for requests whose body
// is JSON of one type. A router made by [Routes] has only such routes, and answers all
// other requests itself, with 404 or 405.
//
// # Identity
//
// The key of a request is its id. A client that may have to repeat a request gives it an id
// in the header Idempotency-Key ([Options].Header). A request without an id gets one that
// cannot be guessed and that is larger than those given before.
//
// A repeat, a request with the same id and the same content, is not let in: it gets the
// response of the first, and waits for it if need be. The content is method, host, path,
// query, body and the headers [Options].Same. The same id with other content is answered
// 422. An answer is kept for [Options].Retain. A later repeat is answered 409, since the
// request must not be done again.
//
// The cost is that ids chosen by clients are remembered for as long as the flow runs, in
// some 50 bytes each plus the id. Ids that the router made are forgotten with the answer.
// Operators may remember keys in addition: Map, MapAsync, After and slices remember none, a
// join or a count of keys remembers what its documentation says.
//
// With [Options].Idempotent a router follows draft-ietf-httpapi-idempotency-key-header: an
// id belongs to a route and a caller, POST and PATCH must have one, a repeat of a request
// that is still being handled is answered 409 instead of waiting, and answers are kept for
// 24 hours; see [Idempotency].
//
// # Durable flows
//
// A router runs unchanged in a durable flow: the function that builds the flow makes it,
// and returns it with the other ports.
//
//	app, err := durable.Start(ctx, build, durable.Options{Log: natslog.Embedded("state")})
//	server.Handler = app.Ports.Router
//
// Requests, ids and answers are then part of the flow's history. A request is stored before
// the flow handles it, so it has one effect, whichever process is killed at whatever
// moment. Its repeat gets the answer from any process. A request that was being handled in
// a crash is handled after it, without a repeat.
//
//   - An answer is kept for [Options].Retain of the flow's time, and [Options].Answers does
//     not count. The answer to a request without an id is kept for five minutes at most, also
//     if it was read; then the flow forgets the request.
//   - A repeat with an id that a router made is answered or refused, and never let in. So an
//     id that a client chooses must not look like one: 29 digits and letters from a to v.
//   - A request waits for the log instead of [Options].Patience. A request that was answered
//     503 or 504 may have been stored: a client that gave it an id learns the outcome by a
//     repeat.
//   - Each request is a record of the log, even a GET, with its headers: credentials are stored
//     in the clear. Requests that only read, and may read slightly stale state, can be served
//     without a flow.
//   - If several processes share the log, the owner of a partition drops an answer when it
//     is old. Another process that fetched it may keep it longer.
//
// # Refusals
//
// A request that never reaches the flow, or gets no response in time, is answered with a
// line of fixed text:
//
//	400  the id, or the JSON of a body, is not well formed, or there is no id
//	     where Options.Idempotent wants one
//	409  the id was used before, and its answer is no longer kept
//	409  with Options.Idempotent: the request is still being handled
//	413  the body is larger than Options.Body, or the request larger than a record of a
//	     durable flow can be
//	415  the body of a JSON route has another type
//	422  the id was used before, for another request
//	500  a function of the flow has panicked; the log has the dataflow.StepError
//	503  too many requests are pending, the location's queue is full, or the flow
//	     has ended
//	504  there was no answer within Options.Timeout
//
// 503, 504 and the second 409 come with a Retry-After. 504 also comes with the id, so that
// a repeat with that id gets the late answer.
//
// A client that disconnects does not cancel its request. The request is in the flow, and
// its answer is kept or dropped as if it had been read. After [dataflow.App.Stop], requests
// in the flow are still answered and new ones are refused. To refuse none, shut the
// http.Server down first.
//
// # What is not promised
//
// Under [dataflow.Start] everything is in memory. Ids, answers and requests end with the
// process.
//
// The goroutine of a request runs an idle location, so a slow function also delays the
// refusal of its own request. Give slow work to MapAsync.
//
// If a flow drops a request, for example with a Filter, its client times out. Such a
// request counts as pending for [Options].Retain, and its id is kept for as long as the
// flow runs.
//
// # Simulation
//
// On the goroutine of package sim, ServeHTTP drives the schedule until there is an answer.
// If none can come, the answer is 504 at once. Requests need an id from the header there,
// because generated ids differ from run to run.
package serve
