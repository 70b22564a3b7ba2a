package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// An apiUser is the [runtime.Surface] of users who look over the API: it keeps what they
// are asked until that is answered or taken back.
type apiUser struct {
	mu   sync.Mutex
	open map[agentproto.CallKey]openPrompt
}

// An openPrompt is an authorization or a choice.
type openPrompt struct {
	oauth  *agentproto.OAuth
	choice *agentproto.UserChoice
}

// A promptBody is a prompt as the API gives it.
type promptBody struct {
	ID      string   `json:"id"` // of the call
	AuthURL string   `json:"auth_url,omitempty"`
	Prompt  string   `json:"prompt,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Default int      `json:"default,omitempty"`
}

func newAPIUser() *apiUser { return &apiUser{open: map[agentproto.CallKey]openPrompt{}} }

// asked returns what the user of a thread is asked, in the order of the calls.
func (u *apiUser) asked(thread string) []promptBody {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := []promptBody{}
	for key, p := range u.open {
		switch {
		case key.GroupID != thread:
		case p.choice != nil:
			all = append(all, promptBody{ID: key.ID, Prompt: p.choice.Prompt, Choices: p.choice.Choices, Default: p.choice.Default})
		default:
			all = append(all, promptBody{ID: key.ID, AuthURL: p.oauth.AuthURL})
		}
	}
	slices.SortFunc(all, func(a, b promptBody) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// choice returns the open choice of a call, or nil.
func (u *apiUser) choice(key agentproto.CallKey) *agentproto.UserChoice {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open[key].choice
}

func (u *apiUser) set(key agentproto.CallKey, p openPrompt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open[key] = p
}

// OAuth asks the user to authorize a tool.
func (u *apiUser) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	u.set(key, openPrompt{oauth: o})
}

// Choice asks the user to choose.
func (u *apiUser) Choice(_ context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	u.set(key, openPrompt{choice: c})
}

// Withdraw takes back what was asked, unless something else is asked by now.
func (u *apiUser) Withdraw(key agentproto.CallKey, detour string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.open[key]
	if p.choice != nil && p.choice.ResponseURL == detour || p.oauth != nil && p.oauth.AuthURL == detour {
		delete(u.open, key)
	}
}

// Progress forgets what was asked of a call that goes on.
func (u *apiUser) Progress(key agentproto.CallKey, state agentproto.State) {
	if state == agentproto.Pending || state == agentproto.Completed {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, key)
	}
}

// View is seen in the status of the thread.
func (u *apiUser) View(agentproto.CallKey, *agentproto.ViewUpdate) {}
