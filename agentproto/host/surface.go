package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/millrace/millrace/agentproto"
)

// A Surface is where the user is: what a call needs of the user is shown there,
// and the answers come back through [Runtime.Answer].
//
// The methods are called one at a time, for one call in the order in which things
// happened to it. A method that does not return holds up the surface and nothing
// else. All texts and URLs are the tool server's: a surface escapes what its
// medium could misread, and never opens a URL by itself.
type Surface interface {
	// OAuth asks the user to visit the AuthURL. The call goes on when the tool
	// says so; there is nothing to answer. The URL is not to be kept after it was
	// shown, nor to be logged.
	OAuth(ctx context.Context, key agentproto.CallKey, o *agentproto.OAuth)
	// Choice asks the user to choose.
	Choice(ctx context.Context, key agentproto.CallKey, c *agentproto.UserChoice)
	// Withdraw takes back what was asked for, if it is shown still: the detour is
	// the AuthURL or the ResponseURL. It may come after the user's answer.
	Withdraw(key agentproto.CallKey, detour string)
	// Progress tells that a call is in another state. A conversation tells the model
	// of an authorization in progress from here.
	Progress(key agentproto.CallKey, state agentproto.State)
	// View shows the content of a view, in place of what it showed before. An
	// empty object clears it.
	View(key agentproto.CallKey, v *agentproto.ViewUpdate)
}

// An Answerer takes the answers of the user. [Runtime] is one.
type Answerer interface {
	// Answer is documented at [Runtime.Answer].
	Answer(ctx context.Context, key agentproto.CallKey, responseURL string, selected int) error
}

// A Binder is a [Surface] that wants to know where its answers go. Bind is called
// once, before anything else.
type Binder interface{ Bind(Answerer) }

// Dismiss stands for a prompt that the user closed without choosing: the prompt's
// default is selected.
const Dismiss = -1

// Answer takes the user's answer to a prompt: an index into its choices, or
// [Dismiss]. It returns when the answer is taken in, not when the tool has it; an
// answer that cannot be delivered resolves the call with an error. Of several
// answers to one prompt the first counts, and an answer to a prompt that is not
// open has no effect.
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

// ToolOf returns the name of the tool that asks the user something for a call, or "" where that
// is not known. The name is the tool server's word.
func (rt *Runtime) ToolOf(key agentproto.CallKey) string {
	if p := rt.display.PromptOf(key); p != nil {
		return p.Operation
	}
	return ""
}

// ToolsetOf returns the base URL of the tool server that asks the user something for a call, or "" where that
// is not known, for who shows the user whose question it is (threat 31 of doc/threats.md).
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

// Views returns the latest views of a thread by their types, for whoever begins to look
// at it later. Views that were cleared are not among them, and neither are those of a
// thread that was closed. They are not kept over a restart: tools send what is to be
// seen. See [Bounds] for how many there are at most. See doc/protocol.md §5.6.
func (rt *Runtime) Views(groupID string) []*agentproto.ViewUpdate { return rt.display.ViewsOf(groupID) }

// prompt keeps a detour open until it is over, as [agentproto.ProgramOptions] asks. It is
// called for every one, and again for those that are open when a process takes over.
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
