// Package agentinspect has pages of a runtime of agents, for the page of its flow: sessions, threads with their transcripts
// as they come, calls with what happened to them, prompts, which can be answered, tool servers and budgets.
//
//	pages := inspect.Handler(rt.Flow(), inspect.Options{
//		Token: token, Values: true,
//		Sections: []inspect.Section{agentinspect.Section(rt, agentinspect.Options{Answers: true})},
//	})
//
// The pages work without scripts; with them a transcript grows by itself. Without [inspect.Options].Values they show figures and
// tool servers, and nothing that a user, a model or a tool has written. The same is there as JSON, of which fields may be added and
// none is removed or changed:
//
//	agents/v1/status                       figures, budgets, tool servers
//	agents/v1/threads?from=                threads, page by page
//	agents/v1/thread?id=                   one thread
//	agents/v1/messages?id=&from=           its messages that are there, 200 at most
//	agents/v1/calls?state=&thread=&from=   calls, page by page
//	agents/v1/call?thread=&id=             one call, and what happened to it
//	agents/v1/prompts                      what users are asked
//	agents/events?thread=&from=            messages as they come, and where the thread stands: server-sent events, of which
//	                                       a reader that was cut off gets those behind its Last-Event-ID
//
// With [Options].Answers a form that is posted to agents/answers, as that of a prompt is, answers what a user is asked.
//
// What is shown of calls and threads is what this process has of the partitions that it owns, and of messages all.
package agentinspect
