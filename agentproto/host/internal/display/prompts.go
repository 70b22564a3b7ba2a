package display

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// prompts are what users are asked at present: of each call one thing at a time.
//
// What a call asks is shown when its effect comes, behind what happened to the call before.
// After a restart there is no effect of a prompt that was shown by the process before, but
// the program asks again for each one that is open. Whichever comes
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

// ChoiceOf returns the prompt that asks the user to choose for a call, with this
// response_url, or nil.
func (d *Display) ChoiceOf(key agentproto.CallKey, responseURL string) *agentproto.Prompt {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.shown[key].prompt; p != nil && p.Choice != nil && p.Choice.ResponseURL == responseURL {
		return p
	}
	return nil
}

// PromptOf returns what the user is asked for a call, or nil.
func (d *Display) PromptOf(key agentproto.CallKey) *agentproto.Prompt {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.shown[key].prompt
}

// Open returns how many prompts there are.
func (d *Display) Open() int {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.shown)
}

// ChoicesOf returns what users are asked to choose for the calls of a thread, in the order
// of the calls' identifiers.
func (d *Display) ChoicesOf(groupID string) []*agentproto.UserChoice {
	ps := &d.prompts
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

// Ask shows a prompt, unless it is shown. Unless an effect asks for it, behind which what ends
// it comes too, it is shown only if it is not over.
func (d *Display) Ask(p *agentproto.Prompt, byEffect bool) {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if now := ps.shown[p.Key].prompt; now != nil && (!byEffect || now.Number == p.Number) {
		return // or the one before is, and the effects that replace it are on their way
	}
	now := shown{prompt: p, at: time.Now(), detour: p.Detour, over: d.program.IsOver(p)}
	if now.over && !byEffect {
		return
	}
	if p.Choice != nil {
		d.Show(func(ctx context.Context, s Surface) { s.Choice(ctx, p.Key, p.Choice) })
	} else {
		open, err := capability.OpenOAuth(d.sealer, p.OAuth)
		if err != nil {
			d.log.Error("authorization cannot be shown", quote.Call(p.Key), "error", err)
			return
		}
		now.detour = open.AuthURL
		d.Show(func(ctx context.Context, s Surface) { s.OAuth(ctx, p.Key, open) })
	}
	if ps.shown == nil {
		ps.shown = make(map[agentproto.CallKey]shown)
	}
	ps.shown[p.Key] = now
	d.changed(p.Key.GroupID)
}

// End forgets a prompt, and takes it back if the user has not answered.
func (d *Display) End(key agentproto.CallKey, number uint64, withdraw bool) {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := ps.shown[key]
	if now.prompt == nil || now.prompt.Number != number {
		return
	}
	delete(ps.shown, key)
	d.changed(key.GroupID)
	if withdraw || now.over {
		d.Show(func(_ context.Context, s Surface) { s.Withdraw(key, now.detour) })
	}
}

// A Shown is a prompt that the surface was given and that is open.
type Shown struct {
	Prompt *agentproto.Prompt
	At     time.Time // when this process showed it
	Detour string    // as the surface knows it: the auth_url in clear, or the response_url
}

// Shown returns the prompts that are open, in no order.
func (d *Display) Shown() []Shown {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	all := make([]Shown, 0, len(ps.shown))
	for _, now := range ps.shown {
		all = append(all, Shown{now.prompt, now.at, now.detour})
	}
	return all
}
