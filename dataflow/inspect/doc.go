// Package inspect shows a flow that runs, on a page of the program itself.
//
//	app, err := dataflow.Start(ctx, flow)
//	mux.Handle("/debug/flow/", http.StripPrefix("/debug/flow", inspect.Handler(app, inspect.Options{Name: "votes"})))
//
// The page draws the graph and says what is wrong in a sentence: which output is full, since when, and
// what does not run because of it. It has the figures of each operator, location, port and partition,
// and its script puts new ones in each second; without scripts it is as it was loaded. Nothing is
// registered by importing the package, and nothing runs while nobody asks.
//
// [Handler] answers GET and HEAD at these paths, relative to where it is mounted:
//
//	/             the page; ?fold=0 draws each operator, 1 stretches without branches as one box, 2 calls of the program's functions
//	/v1/graph     the graph, as JSON
//	/v1/graph.svg, /v1/graph.dot, /v1/graph.mmd
//	/keys         what each operator remembers of a key, and entries of an operator
//	/v1/status    a [Snapshot], as JSON
//	/v1/keys      ?type=TYPE&key=KEY: what each operator remembers of a key, as JSON
//	/v1/entries   ?operator=N: entries of an operator; state, partition, from and most say which
//	/history      of a durable flow: a step of a partition, what it took and gave, and what operators remembered after it
//	/members      of a durable flow: its partitions and their owners, and what the program could not handle
//	/v1/history   ?partition=P&from=N&most=M: steps that are kept
//	/v1/history/N/state   what step N took and cut; operator, or type and key, and diff=M ask for what was remembered and has changed since step M
//	/v1/history/changes   ?type=TYPE&key=KEY: the steps that changed what is remembered of a key
//	/v1/history/export    ?to=N: the steps up to one, as the command export of package historycmd writes them; as=go the test that reads them
//	/v1/members   what /members shows
//	/livez        200 as long as the process answers
//	/healthz      200, or 503 and each [Reason] why the flow does not do its work
//
// What /healthz says is for whoever sends requests: to send no more here. Only [Failed] is a reason to
// start the process again; an output that nobody reads is not read by another process either.
//
// Packages prominspect and otelinspect have the same figures as metrics of Prometheus and OpenTelemetry.
//
// Fields of the JSON are added and never removed or changed. A parameter that is not known is
// answered 400.
//
// # History
//
// The history of a durable flow is read from the log that the process has open. To show a step, the steps
// before it are made again in a flow of their own, for two seconds at most and for one request at a time: another
// one is answered 429, and one that took too long goes on from where it came to when it is asked again. See
// [durable.App.History]. Steps before the latest snapshot are there with [durable.Options].KeepFor.
//
// # Who may look
//
// Names of locations, operators and ports are shown, with the places in the source and the reasons
// that the program gives; keys and values only with [Options].Values. A request needs the token, if there is one, and its
// Host must be localhost, an address of this host, or in [Options].Hosts: so a page of somebody else
// cannot reach it by a name that leads here. The page loads nothing from elsewhere, and its content
// security policy permits nothing else. What the program could not handle can be retried and skipped by POST from
// the page itself, and only if there is a token; all else is only looked at. /livez and /healthz need neither token
// nor Host, and say no names.
package inspect
