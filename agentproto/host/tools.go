package host

import (
	"context"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
)

// A Tool is a tool that the runtime offers to the model. Its texts are the tool
// server's and not to be trusted; what is hidden in them was taken out, and what is very
// long was cut.
type Tool struct {
	agentproto.Tool
	Toolset string // the name in the manifest
	Server  string // the base URL of the tool server
}

// A Problem is something that keeps a toolset, or one tool, from being offered.
// It is found by discovery and reported by [Runtime.Problems]; it is never fatal,
// because the other toolsets are of use without it.
type Problem struct {
	Toolset string // base URL of the tool server, as configured
	Tool    string // the tool, if the problem is of one tool
	Err     error
}

// Error returns the problem in one line.
func (p Problem) Error() string { return discovery.Problem(p).Error() }

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// Tools returns the tools that were on offer when the runtime started, in the order of
// the configuration. Each session has its own, see [Runtime.ToolsOf].
func (rt *Runtime) Tools() []Tool { return toolsOf(rt.atStart.Tools) }

// Problems returns why toolsets or tools were not on offer when the runtime started.
func (rt *Runtime) Problems() []Problem { return problemsOf(rt.atStart) }

// ToolsOf returns the tools that a session is offered, in the order of the
// configuration, and why others are not. A session is named by its root thread.
//
// A session that is new has all manifests fetched and keeps them for its life, so that a
// conversation does not see its tools change; a manifest that cannot be fetched is
// replaced by the last good one of its server. That takes no longer than
// [Timeouts].Discovery, and a tenth of it for servers that were silent the last time.
// Where there is no good manifest, the session has none of the server's tools for now: the
// manifest is fetched again the next time that the tools are asked for or a call names a
// tool that the session does not have, at most once a second.
// [Bounds].Sessions is how many sessions are remembered: the one that was not used for
// the longest time is new again after that, and so are all after a restart. The error is
// that of ctx, or [ErrStopped]. See doc/protocol.md §3.6, and [Options].Permits for tools that a session may not have.
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

// toolsOf returns tools as the public face has them.
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
