// Package agentinspect provides pages about an agent runtime, as a section of the page of its flow: sessions, threads with live
// transcripts, calls with their events, prompts, which can be answered, tool servers and budgets. Start with [Section].
//
//	pages := inspect.Handler(rt.Flow(), inspect.Options{
//		Token: token, Values: true,
//		Sections: []inspect.Section{agentinspect.Section(rt, agentinspect.Options{Answers: true})},
//	})
//
// The pages work without scripts; with scripts a transcript grows by itself. Without [inspect.Options].Values they show figures
// and tool servers, and nothing that a user, a model or a tool has written. The same data is available as JSON. Fields may be
// added to it, but none is removed or changed:
//
//	agents/v1/status                       figures, budgets, tool servers
//	agents/v1/threads?from=                threads, page by page
//	agents/v1/thread?id=                   one thread
//	agents/v1/messages?id=&from=           its existing messages, at most 200
//	agents/v1/calls?state=&thread=&from=   calls, page by page
//	agents/v1/call?thread=&id=             one call, and what happened to it
//	agents/v1/prompts                      open prompts
//	agents/events?thread=&from=            messages as they arrive, and the state of the thread, as server-sent events;
//	                                       a reader that reconnects gets those after its Last-Event-ID
//
// With [Options].Answers, a form posted to agents/answers, as the pages do, answers a prompt.
//
// Calls and threads are those in the partitions that this process owns. Messages are complete.
package agentinspect
