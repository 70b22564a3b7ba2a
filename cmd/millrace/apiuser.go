package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/weburl"
)

// An apiUser is the [host.Surface] of users of the API: it keeps prompts until they are
// answered or withdrawn.
type apiUser struct {
	rt   host.Answerer
	mu   sync.Mutex
	open map[agentproto.CallKey]openPrompt
}

// An openPrompt is an authorization or a choice, with the tool that asks for it.
type openPrompt struct {
	oauth         *agentproto.OAuth
	choice        *agentproto.UserChoice
	toolset, tool string
}

// A promptBody is a prompt in the format of the API.
type promptBody struct {
	ID        string `json:"id"`                  // of the call
	Toolset   string `json:"toolset,omitempty"`   // the tool server that asks
	Operation string `json:"operation,omitempty"` // the tool
	AuthURL   string `json:"auth_url,omitempty"`
	// Host is where AuthURL leads. A name that is not ASCII is written as punycode, so that
	// it cannot be mistaken for another one.
	Host    string   `json:"host,omitempty"`
	Prompt  string   `json:"prompt,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Default int      `json:"default,omitempty"`
	// Form is what the user may fill in instead of choosing: see package form.
	Form jsontext.Value `json:"form,omitzero"`
}

func newAPIUser() *apiUser { return &apiUser{open: map[agentproto.CallKey]openPrompt{}} }

// asked returns the prompts for the user of a thread, in the order of the calls.
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
			body.AuthURL, body.Host, _ = weburl.Show(p.oauth.AuthURL)
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

// Bind sets the runtime that asks.
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

// Withdraw withdraws a prompt, unless another one has replaced it.
func (u *apiUser) Withdraw(key agentproto.CallKey, detour string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.open[key]
	if p.choice != nil && p.choice.ResponseURL == detour || p.oauth != nil && p.oauth.AuthURL == detour {
		delete(u.open, key)
	}
}

// Progress forgets the prompt of a call that continues.
func (u *apiUser) Progress(key agentproto.CallKey, state agentproto.State) {
	if state == agentproto.Pending || state == agentproto.Completed {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.open, key)
	}
}

// View does nothing: views appear in the status of the thread.
func (u *apiUser) View(agentproto.CallKey, *agentproto.ViewUpdate) {}
