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

// prompts holds the open prompts, at most one for each call.
//
// A prompt is shown when its effect arrives, after the earlier effects of the call. After a restart there is no effect for a
// prompt that the previous process showed, but the program requests each open prompt again. Whichever comes first shows the
// prompt.
type prompts struct {
	mu    sync.Mutex
	shown map[agentproto.CallKey]shown
}

// A shown is a prompt that was passed to the surface.
type shown struct {
	prompt *agentproto.Prompt
	at     time.Time // when it was shown
	detour string    // as the surface knows it: the auth_url in the clear, or the response_url
	// over says that the prompt was already over when it was shown, as when the effects of a killed process are repeated. It is
	// then withdrawn although the user has answered.
	over bool
}

// ChoiceOf returns the open choice of a call with this response_url, or nil.
func (d *Display) ChoiceOf(key agentproto.CallKey, responseURL string) *agentproto.Prompt {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.shown[key].prompt; p != nil && p.Choice != nil && p.Choice.ResponseURL == responseURL {
		return p
	}
	return nil
}

// PromptOf returns the open prompt of a call, or nil.
func (d *Display) PromptOf(key agentproto.CallKey) *agentproto.Prompt {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.shown[key].prompt
}

// Open returns the number of open prompts.
func (d *Display) Open() int {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.shown)
}

// ChoicesOf returns the open choices of the calls of a thread, in the order of the calls' identifiers.
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

// Ask shows a prompt, unless it is already shown. A prompt requested by an effect is shown even if it is over, because the effect
// that ends it follows. Other prompts are shown only if they are not over.
func (d *Display) Ask(p *agentproto.Prompt, byEffect bool) {
	ps := &d.prompts
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if now := ps.shown[p.Key].prompt; now != nil && (!byEffect || now.Number == p.Number) {
		return // or the previous prompt is shown, and the effects that replace it follow
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

// End forgets a prompt, and withdraws it if the user has not answered.
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

// A Shown is an open prompt that was passed to the surface.
type Shown struct {
	Prompt *agentproto.Prompt
	At     time.Time // when this process showed it
	Detour string    // as the surface knows it: the auth_url in the clear, or the response_url
}

// Shown returns the open prompts, in no particular order.
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
