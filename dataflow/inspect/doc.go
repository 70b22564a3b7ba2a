// Package inspect shows a running flow on a page of the program itself. [Handler] serves the page, and [Take] returns its
// figures as a [Snapshot].
//
//	app, err := dataflow.Start(ctx, flow)
//	mux.Handle("/debug/flow/", http.StripPrefix("/debug/flow", inspect.Handler(app, inspect.Options{Name: "votes"})))
//
// The page draws the graph and says in a sentence what is wrong: which output is full, since when, and what does not run
// because of it. It shows the figures of each operator, location, port and partition. Its script updates them each
// second; without scripts the page stays as it was loaded. Importing the package registers nothing, and nothing runs
// between requests.
//
// [Handler] answers GET and HEAD at these paths, relative to where it is mounted:
//
//	/             the page; ?fold=0 draws each operator, 1 stretches without branches as one box, 2 calls of the program's functions
//	/v1/graph     the graph, as JSON
//	/v1/graph.svg, /v1/graph.dot, /v1/graph.mmd
//	/keys         what each operator remembers of a key, and entries of an operator
//	/v1/status    a Snapshot, as JSON
//	/v1/keys      ?type=TYPE&key=KEY: what each operator remembers of a key, as JSON
//	/v1/entries   ?operator=N: entries of an operator; state, partition, from and most select them
//	/history      of a durable flow: a step of a partition, what it took and gave, and what operators remembered after it
//	/members      of a durable flow: its partitions and their owners, and what the program could not handle
//	/v1/history   ?partition=P&from=N&most=M: steps that are kept
//	/v1/history/N/state   what step N took and cut; operator, or type and key, and diff=M ask for what was remembered and has changed since step M
//	/v1/history/changes   ?type=TYPE&key=KEY: the steps that changed what is remembered of a key
//	/v1/history/export    ?to=N: the steps up to one, as the command export of package historycmd writes them; as=go the test that reads them
//	/v1/members   what /members shows
//	/livez        200 as long as the process answers
//	/healthz      200, or 503 and each Reason why the flow does not do its work
//
// The senders of requests use /healthz to decide whether to send more. Only [Failed] is a reason to restart the process:
// for example, another process does not read an unread output either.
//
// Packages prominspect and otelinspect export the same figures as metrics of Prometheus and OpenTelemetry.
//
// Fields are added to the JSON, but never removed or changed. An unknown parameter is answered with 400.
//
// # History
//
// The history of a durable flow is read from the log that the process has open. To show a step, the handler repeats the
// steps before it in a separate flow, for at most two seconds, and for one request at a time. A concurrent request is
// answered with 429. If a request takes too long, asking again continues where it stopped. See [durable.App.History].
// Steps before the latest snapshot are available with [durable.Options].KeepFor.
//
// # Access
//
// The page shows the names of locations, operators and ports, places in the source, and the reasons that the program
// gives. It shows keys and values only with [Options].Values.
//
// A request must have the token, if there is one. Its Host must be localhost, a loopback address, or in [Options].Hosts,
// so that the page of another site cannot reach the handler under a name that leads here. The page loads nothing from
// elsewhere, and its content security policy permits nothing else. A POST from the page itself can retry or skip what the
// program could not handle, but only if there is a token. The rest of this package is read-only. /livez and /healthz need neither
// token nor Host, and disclose no names.
package inspect
