package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
)

// An apiUser is the [host.Surface] of users who look over the API: it keeps what they
// are asked until that is answered or taken back.
type apiUser struct {
	rt   host.Answerer
	mu   sync.Mutex
	open map[agentproto.CallKey]openPrompt
}

// An openPrompt is an authorization or a choice, and who asks for it.
type openPrompt struct {
	oauth         *agentproto.OAuth
	choice        *agentproto.UserChoice
	toolset, tool string
}

// A promptBody is a prompt as the API gives it.
type promptBody struct {
	ID        string `json:"id"`                  // of the call
	Toolset   string `json:"toolset,omitempty"`   // the tool server that asks
	Operation string `json:"operation,omitempty"` // the tool
	AuthURL   string `json:"auth_url,omitempty"`
	// Host is where AuthURL leads: a name that is not ASCII as punycode, so that it cannot be
	// taken for another one.
	Host    string   `json:"host,omitempty"`
	Prompt  string   `json:"prompt,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Default int      `json:"default,omitempty"`
	// Form is what can be filled in instead of choosing: see package form.
	Form jsontext.Value `json:"form,omitzero"`
}

func newAPIUser() *apiUser { return &apiUser{open: map[agentproto.CallKey]openPrompt{}} }

// asked returns what the user of a thread is asked, in the order of the calls.
func (u *apiUser) asked(thread string) []promptBody {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := []promptBody{}
	for key, p := range u.open {
		body := promptBody{ID: key.ID, Toolset: p.toolset, Operation: p.tool}
		switch {
		case key.GroupID != thread:
			continue
		case p.choice != nil:
			body.Prompt, body.Choices, body.Default, body.Form = p.choice.Prompt, p.choice.Choices, p.choice.Default, p.choice.Form
		default:
			body.AuthURL, body.Host, _ = plain.URL(p.oauth.AuthURL)
		}
		all = append(all, body)
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

// Bind tells the user which runtime asks.
func (u *apiUser) Bind(rt host.Answerer) { u.rt = rt }

func (u *apiUser) set(key agentproto.CallKey, p openPrompt) {
	if rt, ok := u.rt.(*host.Runtime); ok {
		p.toolset, p.tool = rt.ToolsetOf(key), rt.ToolOf(key)
	}
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
