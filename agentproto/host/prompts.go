package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// prompts are what users are asked at present: of each call one thing at a time.
//
// What a call asks is shown when its effect comes, behind what happened to the call before.
// After a restart there is no effect of a prompt that was shown by the process before, but
// the program calls [Runtime.prompt] again for each one that is open. Whichever comes
// first shows it.
type prompts struct {
	mu    sync.Mutex
	shown map[agentproto.CallKey]shown
}

// A shown prompt is one that the surface was given.
type shown struct {
	prompt *agentproto.Prompt
	at     time.Time // when it was shown
	detour string    // as the surface knows it: the auth_url in clear, or the response_url
	// over says that it was over when it was shown, as when the effects of a process that
	// was killed come again. It is taken back then, though the user has answered.
	over bool
}

// choiceOf returns the prompt that asks the user to choose for a call, with this
// response_url, or nil.
func (ps *prompts) choiceOf(key agentproto.CallKey, responseURL string) *agentproto.Prompt {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.shown[key].prompt; p != nil && p.Choice != nil && p.Choice.ResponseURL == responseURL {
		return p
	}
	return nil
}

// promptOf returns what the user is asked for a call, or nil.
func (ps *prompts) promptOf(key agentproto.CallKey) *agentproto.Prompt {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.shown[key].prompt
}

// len returns how many there are.
func (ps *prompts) len() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.shown)
}

// choicesOf returns what users are asked to choose for the calls of a thread, in the order
// of the calls' identifiers.
func (ps *prompts) choicesOf(groupID string) []*agentproto.UserChoice {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var open []*agentproto.UserChoice
	for key, now := range ps.shown {
		if key.GroupID == groupID && now.prompt.Choice != nil {
			open = append(open, now.prompt.Choice)
		}
	}
	slices.SortFunc(open, func(a, b *agentproto.UserChoice) int { return strings.Compare(a.ID, b.ID) })
	return open
}

// prompt keeps a detour open until it is over, as [agentproto.ProgramOptions] asks. It is
// called for every one, and again for those that are open when a process takes over.
func (rt *Runtime) prompt(ctx context.Context, p *agentproto.Prompt) {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return
	}
	rt.ask(p, false)
	if _, err := rt.program.Over(ctx, p); err != nil && !rt.stopping.Load() {
		rt.endPrompt(p.Key, p.Number, true) // another process has the call now
	}
}

// ask shows a prompt, unless it is shown. Unless an effect asks for it, behind which what ends
// it comes too, it is shown only if it is not over.
func (rt *Runtime) ask(p *agentproto.Prompt, byEffect bool) {
	ps := &rt.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if now := ps.shown[p.Key].prompt; now != nil && (!byEffect || now.Number == p.Number) {
		return // or the one before is, and the effects that replace it are on their way
	}
	now := shown{prompt: p, at: time.Now(), detour: p.Detour, over: rt.program.IsOver(p)}
	if now.over && !byEffect {
		return
	}
	if p.Choice != nil {
		rt.show(func(ctx context.Context, s Surface) { s.Choice(ctx, p.Key, p.Choice) })
	} else {
		open, err := rt.openOAuth(p.OAuth)
		if err != nil {
			rt.log.Error("authorization cannot be shown", keyAttr(p.Key), "error", err)
			return
		}
		now.detour = open.AuthURL
		rt.show(func(ctx context.Context, s Surface) { s.OAuth(ctx, p.Key, open) })
	}
	if ps.shown == nil {
		ps.shown = make(map[agentproto.CallKey]shown)
	}
	ps.shown[p.Key] = now
}

// endPrompt forgets a prompt, and takes it back if the user has not answered.
func (rt *Runtime) endPrompt(key agentproto.CallKey, number uint64, withdraw bool) {
	ps := &rt.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := ps.shown[key]
	if now.prompt == nil || now.prompt.Number != number {
		return
	}
	delete(ps.shown, key)
	if withdraw || now.over {
		rt.show(func(_ context.Context, s Surface) { s.Withdraw(key, now.detour) })
	}
}

// Answer takes the user's answer to a prompt: an index into its choices, or
// [Dismiss]. It returns when the answer is taken in, not when the tool has it; an
// answer that cannot be delivered resolves the call with an error. Of several
// answers to one prompt the first counts, and an answer to a prompt that is not
// open has no effect.
func (rt *Runtime) Answer(ctx context.Context, key agentproto.CallKey, responseURL string, selected int) error {
	prompt := rt.prompts.choiceOf(key, responseURL)
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

// answer posts the user's answer to the tool server that asked, as
// [agentproto.ProgramOptions] asks. After a restart it is called for what it had not
// finished, with the same webhook-id.
func (rt *Runtime) answer(ctx context.Context, a *agentproto.Answer) {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return
	}
	settled, end := rt.begin(a.Key)
	defer end()
	select {
	case <-settled:
		return
	default:
	}
	base, s := "the tool server", rt.serverOf(a.Server)
	if s != nil {
		base = s.base
	}
	body, err := agentproto.Encode(&agentproto.ChoiceResponse{ID: a.Key.ID, Selected: a.Selected})
	if err != nil {
		rt.answerFailed(ctx, a, base+" cannot be answered in JSON")
		return
	}
	d := delivery{
		rt: rt, server: s, what: "the answer", to: a.Choice.ResponseURL, body: body,
		id:      messageID(purpose.Answer, a.Key, fmt.Sprintf("%s %d", a.Choice.ResponseURL, a.Number)),
		attempt: rt.opts.Timeouts.Answer, settled: settled,
	}
	ending := d.run(ctx)
	if ending.accepted || ctx.Err() != nil {
		return
	}
	rt.log.Warn("answer not accepted", keyAttr(a.Key), "toolset", base, "failure", ending.failure,
		"attempts", ending.attempts, "error", ending.err)
	rt.answerFailed(ctx, a, base+" "+ending.failure)
}

// answerFailed tells the program that an answer could not be delivered. Where calls are
// kept it does not return before that is taken in: this process or the next one tries
// again.
func (rt *Runtime) answerFailed(ctx context.Context, a *agentproto.Answer, reason string) {
	err := rt.deliverTo(ctx, a.Key, agentproto.Event{
		Kind: agentproto.AnswerFailed, Detour: a.Choice.ResponseURL, Reason: reason,
	})
	if err == nil {
		return
	}
	rt.log.Warn("failed answer not recorded", keyAttr(a.Key), "error", err)
	if rt.opts.State != nil {
		<-ctx.Done()
	}
}

// ToolOf returns the name of the tool that asks the user something for a call, or "" where that
// is not known. The name is the tool server's word.
func (rt *Runtime) ToolOf(key agentproto.CallKey) string {
	if p := rt.prompts.promptOf(key); p != nil {
		return p.Operation
	}
	return ""
}

// ToolsetOf returns the base URL of the tool server that asks the user something for a call, or "" where that
// is not known, for who shows the user whose question it is (threat 31 of doc/threats.md).
func (rt *Runtime) ToolsetOf(key agentproto.CallKey) string {
	p := rt.prompts.promptOf(key)
	if p == nil {
		return ""
	}
	s := rt.serverOf(p.Server)
	if s == nil {
		return ""
	}
	return s.base
}
