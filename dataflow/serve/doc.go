// Package serve lets HTTP requests into a flow and answers them from it: a router is
// an [http.Handler] whose requests are a keyed singleton, one entry for each request,
// and whose answers are a keyed singleton of responses under the same keys.
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
// A server without these limits can be held up by clients that send slowly.
// WriteTimeout has to be longer than ReadTimeout and [Options].Timeout together, or
// answers that take that long are lost.
//
// Requests are a bounds.BoundedValue: an entry appears when a request comes and never
// changes. Whatever is made of them without a change of that bound is a response:
// a Map, a MapAsync, what a slice made of a batch of requests and a snapshot of the
// state. What may still change is not: it does not compile.
//
// # Routes
//
// [Router.Handle] takes the requests of one method and pattern, as [http.ServeMux]
// knows them, into a collection of their own, [JSON] those whose body is JSON of one
// type. A router made by [Routes] has nothing but such routes and answers everything
// else itself, 404 or 405.
//
// # Identity
//
// The key of a request is its id. A client that may have to repeat a request names it
// in the header Idempotency-Key ([Options].Header); a request that has no name is given
// an id that nobody can guess, and that is larger than those given before.
//
// A repeat, a request with the same id and the same content, is not let in: it gets
// the response of the first, and waits for it if need be. The content is method, host,
// path, query, body and the headers [Options].Same. The same id with another content
// is answered 422. An answer is kept for [Options].Retain; a repeat that comes
// later is answered 409, since the request must not be done again.
//
// That is also what it costs: the ids that clients chose are remembered for as long as
// the flow runs, in some 50 bytes each and their own. Ids that were given here are
// forgotten with the answer. What operators remember of their keys is their own matter:
// Map, MapAsync, After and slices nothing, a join or a count of keys what it says.
//
// With [Options].Idempotent a router keeps to draft-ietf-httpapi-idempotency-key-header:
// an id belongs to a route and a caller, POST and PATCH must have one, a repeat of a
// request that is still being handled is answered 409 instead of waiting, and answers are
// kept for 24 hours; see [Idempotency].
//
// # Durable flows
//
// A router runs in a durable flow as it is: the function that builds the flow makes it, and
// returns it with the other ports.
//
//	app, err := durable.Start(ctx, build, durable.Options{Log: natslog.Embedded("state")})
//	server.Handler = app.Ports.Router
//
// Requests, ids and answers are then part of the flow's history. A request is kept before the
// flow handles it, so it has one effect, whatever is killed at whatever moment; its repeat
// gets the answer, whichever process it comes to. What was being handled in a crash is
// handled after it, without a repeat.
//
//   - An answer is kept for [Options].Retain of the flow's time, and [Options].Answers does
//     not count. The answer to a request without an id is kept for five minutes at most, also
//     when it was read; then the flow forgets the request.
//   - A repeat with an id that was given here is answered or refused, and never let in.
//   - A request waits for the log instead of [Options].Patience. One that was answered 503 or
//     504 may have been kept: a client that named it learns what became of it by a repeat.
//   - Each request is a record of the log, a GET too, with its headers: credentials are stored
//     in the clear. What only reads, and may read a moment late, can be served without a flow.
//   - Where several processes share the log, the owner of a partition drops an answer when it
//     is old. A process that fetched it from there may have it for longer.
//
// # Refusals
//
// What never reaches the flow, or does not come back from it in time, is answered with
// a line of fixed text:
//
//	400  the id, or the JSON of a body, is not well formed, or there is no id
//	     where Options.Idempotent wants one
//	409  the id was used before, and its answer is not kept any more
//	409  with Options.Idempotent: the request is still being handled
//	413  the body is larger than Options.Body
//	415  the body of a JSON route has another type
//	422  the id was used before, for another request
//	500  a function of the flow has panicked; the log has the dataflow.StepError
//	503  too many requests are pending, the location's queue is full, or the flow
//	     has ended
//	504  there was no answer within Options.Timeout
//
// With 503, 504 and the second 409 there is a Retry-After. With 504 there is also the id, so that a
// repeat that names it gets the answer that was late.
//
// A client that goes away takes nothing back. Its request is in the flow, and the
// answer is kept or dropped as if it had been read. After [dataflow.App.Stop] what was
// let in is still answered, and the rest is refused: to refuse nobody, shut the
// http.Server down first.
//
// # What is not promised
//
// Under [dataflow.Start] everything is in memory. Ids, answers and requests end with the
// process.
//
// An idle location is run by the goroutine of the request: a function that takes its
// time delays the refusal of its own request too. Give slow work to MapAsync.
//
// A flow that drops a request, by a Filter on the way, leaves its client to time out.
// Such a request counts as pending for [Options].Retain, and its id is kept for as long
// as the flow runs.
//
// # Simulation
//
// On the goroutine of package sim, ServeHTTP drives the schedule until there is an
// answer; where none can come, 504 is the answer at once. Requests need an id from the
// header there, because one that is made differs each time.
package serve
