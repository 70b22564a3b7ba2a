package host

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow"
)

// What people see who look at a runtime: package agentinspect has pages of it. Of calls and threads it is what this process
// has of its own partitions; those of other processes are seen there.

// A CallStanding is where a call stands, with the tool server's address.
type CallStanding struct {
	agentproto.Standing
	Toolset string // base URL of the tool server; empty if it is not known
}

// Calls calls do with calls that this process remembers, pending and resolved ones: so many at most, from a place on. It returns
// where the next page begins, if there is one. See [agentproto.EachCall].
func (rt *Runtime) Calls(ctx context.Context, from dataflow.StatePlace, most int, do func(CallStanding)) (next dataflow.StatePlace, more bool, err error) {
	return agentproto.EachCall(ctx, rt.flow, from, most, func(st agentproto.Standing) { do(CallStanding{st, rt.baseOf(st.Server)}) })
}

// CallStanding returns where a call stands, and reports false if this process does not remember it.
func (rt *Runtime) CallStanding(ctx context.Context, key agentproto.CallKey) (CallStanding, bool, error) {
	st, found, err := agentproto.StandingOf(ctx, rt.flow, key)
	return CallStanding{st, rt.baseOf(st.Server)}, found, err
}

// Resolution returns the resolution of a call, if there is one that this process knows of. Unlike [Runtime.Await] it does not
// wait, and a large result that was looked at is kept no shorter for it.
func (rt *Runtime) Resolution(key agentproto.CallKey) (*agentproto.Resolution, bool) {
	return rt.program.Resolved(key)
}

// Threads calls do with the threads of conversations that this process remembers, as [Runtime.Calls] does with calls. It returns
// [ErrNoModel] where there are none.
func (rt *Runtime) Threads(ctx context.Context, from dataflow.StatePlace, most int, do func(conversation.Standing)) (next dataflow.StatePlace, more bool, err error) {
	if rt.threads == nil {
		return next, false, ErrNoModel
	}
	return conversation.EachThread(ctx, rt.flow, from, most, do)
}

// ThreadStanding returns where a thread stands, and reports false if this process does not remember it.
func (rt *Runtime) ThreadStanding(ctx context.Context, id string) (conversation.Standing, bool, error) {
	if rt.threads == nil {
		return conversation.Standing{}, false, ErrNoModel
	}
	return conversation.StandingOf(ctx, rt.flow, id)
}

// baseOf returns the base URL of a tool server by the name that the program has for it, or "".
func (rt *Runtime) baseOf(name string) string {
	if s := rt.peers.Named(name); s != nil {
		return s.Base
	}
	return ""
}

// An OpenPrompt is what a user is asked for a call. One of OAuth and Choice is set. All texts and URLs are the tool server's.
type OpenPrompt struct {
	Key       agentproto.CallKey
	Operation string // the tool that asks; empty if it is not known
	Toolset   string // base URL of the tool server; empty if it is not known
	Since     time.Time
	OAuth     *agentproto.OAuth      // with the auth_url in clear
	Choice    *agentproto.UserChoice // [Runtime.Answer] takes the answer
}

// Prompts returns what this process has shown to users and what is still open, the oldest first. Since is when this process
// showed it.
func (rt *Runtime) Prompts() []OpenPrompt {
	all := []OpenPrompt{}
	for _, now := range rt.display.Shown() {
		p := OpenPrompt{Key: now.Prompt.Key, Operation: now.Prompt.Operation, Toolset: rt.baseOf(now.Prompt.Server), Since: now.At, Choice: now.Prompt.Choice}
		if now.Prompt.OAuth != nil {
			open := *now.Prompt.OAuth
			open.AuthURL = now.Detour
			p.OAuth = &open
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b OpenPrompt) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key.GroupID, b.Key.GroupID), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return all
}

// A Happening is something that happened to a call.
type Happening struct {
	At   time.Time
	What string // such as "made", "accepted", "resolved"
	Why  string // what more there is to say: a cause, a tool server, a reason
}

// History returns what happened to a call since this process started, in order: the first event and the last 31. Lost is how many
// are missing behind the first. It is remembered of the 5,000 calls to which something happened last. What happened
// before is in the history of the flow, if it keeps one.
func (rt *Runtime) History(key agentproto.CallKey) (all []Happening, lost int) {
	events, lost := rt.trail.Of(key)
	for _, e := range events {
		all = append(all, Happening(e))
	}
	return all, lost
}

// choiceOf returns the text of a choice.
func choiceOf(c *agentproto.UserChoice, selected int) string {
	if c == nil || selected < 0 || selected >= len(c.Choices) {
		return ""
	}
	return c.Choices[selected]
}

// A ToolServer is what a runtime knows of a tool server.
type ToolServer struct {
	URL     string // base URL, as configured
	Name    string // in the manifest; empty until there was a good one
	Tools   []Tool // of the last good manifest
	Failure error  // of the last fetch of the manifest; nil if that was good, or there was none
	Failed  time.Time
	Command bool  // it is a program that the runtime runs
	Down    error // why the program is not up; nil if it is

	InFlight, Slots int // invocations that are being posted, and how many may be
	Counts          Counts
}

// ToolServers returns the tool servers in the order of the configuration.
func (rt *Runtime) ToolServers() []ToolServer {
	var all []ToolServer
	for _, s := range rt.peers.All {
		known := rt.catalog.Standing(s)
		t := ToolServer{
			URL: s.Base, Name: known.Name, Failure: known.Failure, Failed: known.Failed,
			InFlight: len(s.Slots), Slots: cap(s.Slots), Counts: countsOf(&s.Counters), Command: s.Command != nil,
		}
		if known.Tools != nil {
			t.Tools = toolsOf(known.Tools)
		}
		if t.Command {
			t.Down = s.Command.Err()
		}
		all = append(all, t)
	}
	return all
}
