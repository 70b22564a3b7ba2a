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

// This file describes a runtime for people who inspect it, as on the pages of package agentinspect. It covers the calls and threads
// in this process's own partitions; each process shows its own.

// A CallStanding is the state of a call, with the tool server's address.
type CallStanding struct {
	agentproto.Standing
	Toolset string // base URL of the tool server; empty if unknown
}

// Calls calls do for one page of the calls that this process remembers, pending and resolved: for at most most of them, starting at
// from. It returns where the next page begins, if there is one. See [agentproto.EachCall].
func (rt *Runtime) Calls(ctx context.Context, from dataflow.StatePlace, most int, do func(CallStanding)) (next dataflow.StatePlace, more bool, err error) {
	return agentproto.EachCall(ctx, rt.flow, from, most, func(st agentproto.Standing) { do(CallStanding{st, rt.baseOf(st.Server)}) })
}

// CallStanding returns the state of a call. It reports false if this process does not remember the call. The error is
// [context.DeadlineExceeded] if the flow does not answer within [Timeouts].Accept.
func (rt *Runtime) CallStanding(ctx context.Context, key agentproto.CallKey) (CallStanding, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Accept) // on a full disk a step does not end
	defer cancel()
	st, found, err := agentproto.StandingOf(ctx, rt.flow, key)
	return CallStanding{st, rt.baseOf(st.Server)}, found, err
}

// Resolution returns the resolution of a call, if this process knows it. Unlike [Runtime.Await] it does not wait, and does not
// shorten the time for which a large result is kept.
func (rt *Runtime) Resolution(key agentproto.CallKey) (*agentproto.Resolution, bool) {
	return rt.program.Resolved(key)
}

// Threads calls do with the threads that this process remembers, as [Runtime.Calls] does with calls. It returns [ErrNoModel] if
// the runtime holds no conversations.
func (rt *Runtime) Threads(ctx context.Context, from dataflow.StatePlace, most int, do func(conversation.Standing)) (next dataflow.StatePlace, more bool, err error) {
	if rt.threads == nil {
		return next, false, ErrNoModel
	}
	return conversation.EachThread(ctx, rt.flow, from, most, do)
}

// ThreadStanding returns the state of a thread. It reports false if this process does not remember the thread.
func (rt *Runtime) ThreadStanding(ctx context.Context, id string) (conversation.Standing, bool, error) {
	if rt.threads == nil {
		return conversation.Standing{}, false, ErrNoModel
	}
	return conversation.StandingOf(ctx, rt.flow, id)
}

// baseOf returns the base URL of a tool server by its name in the program, or "".
func (rt *Runtime) baseOf(name string) string {
	if s := rt.peers.Named(name); s != nil {
		return s.Base
	}
	return ""
}

// An OpenPrompt is an open prompt of a call. Either OAuth or Choice is set. All texts and URLs come from the tool server.
type OpenPrompt struct {
	Key       agentproto.CallKey
	Operation string // the tool that asks; empty if unknown
	Toolset   string // base URL of the tool server; empty if unknown
	Since     time.Time
	OAuth     *agentproto.OAuth      // with the auth_url in clear
	Choice    *agentproto.UserChoice // to be answered with [Runtime.Answer]
}

// Prompts returns the open prompts that this process has shown to users, oldest first. Since is when this process showed them.
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
	Why  string // more about it: a cause, a tool server, a reason
}

// History returns what happened to a call since this process started, in order: the first event and the last 31. Lost is how many
// events after the first are missing. History is available for the 5,000 calls that changed most recently. Earlier events are in
// the history of the flow, if it keeps one.
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

// A ToolServer describes a tool server of a runtime.
type ToolServer struct {
	URL     string // base URL, as configured
	Name    string // from the manifest; empty until there was a valid one
	Tools   []Tool // of the last valid manifest
	Failure error  // of the last fetch of the manifest; nil if it succeeded or there was none
	Failed  time.Time
	Command bool  // the runtime runs it as a program
	Down    error // why the program is not up; nil if it is

	InFlight, Slots int // invocations being posted, and their maximum
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
