package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/millrace/millrace/agentproto"
)

// A Surface connects a [Runtime] to the user. It shows what a call needs from the user, and [Runtime.Answer] takes the answers.
//
// The methods are called one at a time, and for one call in the order in which things happened to it. A method that does not
// return blocks only the surface. All texts and URLs come from the tool server: a surface must escape what its medium could
// misinterpret, and must never open a URL by itself.
type Surface interface {
	// OAuth asks the user to visit the AuthURL. The call goes on when the tool says so; no answer is needed. The URL must be
	// neither kept after it was shown nor logged.
	OAuth(ctx context.Context, key agentproto.CallKey, o *agentproto.OAuth)
	// Choice asks the user to choose.
	Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice)
	// Withdraw takes back a prompt that may still be shown. Detour is its AuthURL or ResponseURL. Withdraw may come after the
	// user's answer.
	Withdraw(key agentproto.CallKey, detour string)
	// Progress reports a change of a call's state. A conversation uses it to tell the model that an authorization is in progress.
	Progress(key agentproto.CallKey, state agentproto.State)
	// View shows the content of a view, in place of its previous content. An empty object clears it.
	View(key agentproto.CallKey, v *agentproto.ViewUpdate)
}

// An Answerer takes the answers of the user. [Runtime] implements it.
type Answerer interface {
	// Answer is documented at [Runtime.Answer].
	Answer(ctx context.Context, key agentproto.CallKey, responseURL string, selected int) error
}

// A Binder is a [Surface] that needs to know where its answers go. Bind is called once, before any other method.
type Binder interface{ Bind(Answerer) }

// Dismiss is the selection for a prompt that the user closed without choosing. It stands for the prompt's default.
const Dismiss = -1

// Answer takes the user's answer to a prompt: an index into its choices, or [Dismiss]. It returns when the answer is accepted,
// not when the tool has it; an answer that cannot be delivered resolves the call with an error. Of several answers to one prompt
// the first counts, and an answer to a prompt that is not open has no effect.
func (rt *Runtime) Answer(ctx context.Context, key agentproto.CallKey, responseURL string, selected int) error {
	prompt := rt.display.ChoiceOf(key, responseURL)
	lifetime := rt.opts.Timeouts.Call
	switch {
	case prompt == nil && selected == Dismiss:
		return nil
	case prompt != nil && selected == Dismiss:
		selected = prompt.Choice.Default
	case selected < 0 || prompt != nil && selected >= len(prompt.Choice.Choices):
		return fmt.Errorf("host: answer %d: %w", selected, ErrBadChoice)
	}
	if prompt != nil {
		lifetime = cmp.Or(prompt.Lifetime, lifetime)
	}
	err := rt.deliver(ctx, key, agentproto.Event{
		Kind: agentproto.ChoiceAnswered, Detour: responseURL, Selected: selected, Lifetime: lifetime,
	})
	if err == nil && prompt != nil {
		rt.trail.Note(key, "answered", choiceOf(prompt.Choice, selected))
	}
	return err
}

// ToolOf returns the name of the tool that asks the user something for a call, or "" if unknown. The name comes from the tool
// server.
func (rt *Runtime) ToolOf(key agentproto.CallKey) string {
	if p := rt.display.PromptOf(key); p != nil {
		return p.Operation
	}
	return ""
}

// ToolsetOf returns the base URL of the tool server that asks the user something for a call, or "" if unknown. Use it to show the
// user whose question it is (threat 31 of doc/threats.md).
func (rt *Runtime) ToolsetOf(key agentproto.CallKey) string {
	p := rt.display.PromptOf(key)
	if p == nil {
		return ""
	}
	s := rt.peers.Named(p.Server)
	if s == nil {
		return ""
	}
	return s.Base
}

// Views returns the latest views of a thread in the order of their types, for a viewer that joins late. Cleared views and those
// of closed threads are not included. Views do not survive a restart: tools send them again. [Bounds] limits their number. See
// doc/protocol.md §5.6.
func (rt *Runtime) Views(groupID string) []*agentproto.ViewUpdate { return rt.display.ViewsOf(groupID) }

// prompt shows a detour until it is over, as [agentproto.ProgramOptions] requires. It is called for every detour, and again for
// open ones when a process takes over.
func (rt *Runtime) prompt(ctx context.Context, p *agentproto.Prompt) {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return
	}
	if err := rt.display.Prompt(ctx, p); err != nil && !rt.stopping.Load() {
		rt.display.End(p.Key, p.Number, true) // another process has the call now
	}
}
