package host

import (
	"context"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// A Tool is a tool that the runtime offers to the model. Its texts come from the tool server and are not trusted; hidden
// characters were removed, and very long texts were cut.
type Tool struct {
	agentproto.Tool
	Toolset string // the name in the manifest
	Server  string // the base URL of the tool server
}

// A Problem keeps a toolset, or one tool, from being offered. Discovery finds it and [Runtime.Problems] reports it. It is never
// fatal, because the other toolsets work without it.
type Problem struct {
	Toolset string // base URL of the tool server, as configured
	Tool    string // the tool, if the problem concerns one tool
	Err     error
}

// Error returns the problem in one line.
func (p Problem) Error() string { return discovery.Problem(p).Error() }

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// Tools returns the tools that were offered when the runtime started, in the order of the configuration. Each session has its own
// tools, see [Runtime.ToolsOf].
func (rt *Runtime) Tools() []Tool { return toolsOf(rt.atStart.Tools) }

// Problems returns why toolsets or tools were not offered when the runtime started.
func (rt *Runtime) Problems() []Problem { return problemsOf(rt.atStart) }

// ToolsOf returns the tools that a session is offered, in the order of the configuration, and the reasons why others are not. A
// session is named by its root thread.
//
// A new session fetches all manifests and keeps them for its life, so that a conversation does not see its tools change. A
// manifest that cannot be fetched is replaced by the last valid one of its server. Fetching takes no longer than
// [Timeouts].Discovery, and a tenth of it for servers that were silent the last time.
//
// Without any valid manifest of a server, the session has none of that server's tools for now. The manifest is fetched again the
// next time that the tools are requested or a call names a tool that the session does not have, but at most once a second.
//
// [Bounds].Sessions sessions are remembered. Beyond that the least recently used session counts as new, and after a restart every
// session does. The error is that of ctx, or [ErrStopped]. See doc/protocol.md §3.6, and [Options].Permits for tools that a
// session may not use.
func (rt *Runtime) ToolsOf(ctx context.Context, session string) ([]Tool, []Problem, error) {
	if err := capability.CheckID("session", session); err != nil {
		return nil, nil, err
	}
	o, err := rt.catalog.OfferOf(ctx, session)
	if err != nil {
		return nil, nil, err
	}
	return toolsOf(rt.catalog.Permitted(session, o.Tools)), problemsOf(o), nil
}

// toolsOf converts tools to the exported type.
func toolsOf(of []discovery.Tool) []Tool {
	tools := make([]Tool, 0, len(of))
	for _, t := range of {
		tools = append(tools, Tool{Tool: t.Tool, Toolset: t.Toolset, Server: t.Server.Base})
	}
	return tools
}

// problemsOf returns the problems of an offer.
func problemsOf(o *discovery.Offer) []Problem {
	var problems []Problem
	for _, p := range o.Problems {
		problems = append(problems, Problem(p))
	}
	return problems
}
