package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
)

// A puppet is the model and the user of a runtime under test. It says what the control
// interface tells it, and records the prompts that it receives.
type puppet struct {
	rt       *host.Runtime
	migrates bool
	ahead    atomic.Int64 // of the system clock, in nanoseconds

	mu      sync.Mutex
	turns   map[string]*conversation.Reply // by the text of the user before them
	count   int
	prompts map[agentproto.CallKey]shownPrompt
}

// A shownPrompt is a prompt that the user has not answered.
type shownPrompt struct {
	conform.Prompt
	detour string // identifies it for Withdraw
}

func newPuppet() *puppet {
	return &puppet{turns: map[string]*conversation.Reply{}, prompts: map[agentproto.CallKey]shownPrompt{}}
}

// now returns the time of the runtime's clock.
func (p *puppet) now() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }

// setClock sets the runtime's clock.
func (p *puppet) setClock(r *http.Request) (any, error) {
	var in conform.Clock
	if err := read(r, &in); err != nil {
		return nil, err
	}
	p.ahead.Store(int64(time.Duration(in.AheadMS) * time.Millisecond))
	return done, nil
}

// Reply returns the turn that the user has just asked for, or nothing.
func (p *puppet) Reply(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := &r.Messages[i]
		if m.Kind == conversation.Assistant && !m.Synthetic {
			break // it has answered already
		}
		if turn := p.turns[m.Text]; m.Kind == conversation.User && turn != nil {
			return turn, nil
		}
	}
	return &conversation.Reply{}, nil
}

// calls makes the model take a turn, and returns when the turn is in the history.
func (p *puppet) calls(r *http.Request) (any, error) {
	var in conform.Turn
	if err := read(r, &in); err != nil {
		return nil, err
	}
	turn := &conversation.Reply{Text: in.Text}
	for _, c := range in.Calls {
		args, err := json.Marshal(c.Arguments)
		if err != nil {
			return nil, err
		}
		turn.Calls = append(turn.Calls, conversation.Call{ID: c.ID, CallID: c.CallID, Name: c.Operation, Arguments: string(args)})
	}
	prompt := "It is the model's turn " + rand.Text() + "." // unique across processes
	p.mu.Lock()
	p.turns[prompt] = turn
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.turns, prompt)
	}()
	t := p.of(r)
	status, err := t.Status(r.Context())
	if err != nil {
		return nil, err
	}
	if err := t.Say(r.Context(), prompt); err != nil {
		return nil, err
	}
	said := false
	for m, err := range t.Follow(r.Context(), status.Messages) {
		switch {
		case err != nil:
			return nil, err
		case m.Kind == conversation.User && m.Text == prompt:
			said = true
		case said && m.Kind == conversation.Assistant && !m.Synthetic && (len(m.Calls) > 0 || len(in.Calls) == 0):
			return done, nil
		}
	}
	return nil, errors.New("the thread was closed before the model's turn")
}

// of returns the thread of a request.
func (p *puppet) of(r *http.Request) *host.Thread { return p.rt.Thread(r.PathValue("id")) }

// open opens a session.
func (p *puppet) open(r *http.Request) (any, error) {
	var in conform.SessionRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if _, err := p.rt.OpenSession(r.Context(), host.SessionRequest{ID: in.ID, UserID: in.UserID, Images: in.Images}); err != nil {
		return nil, err
	}
	tools, problems, err := p.rt.ToolsOf(r.Context(), in.ID)
	if err != nil {
		return nil, err
	}
	out := conform.Session{Tools: []string{}, Problems: []conform.ToolsetProblem{}}
	for _, t := range tools {
		out.Tools = append(out.Tools, t.Name)
	}
	for _, x := range problems {
		out.Problems = append(out.Problems, conform.ToolsetProblem{Toolset: x.Toolset, Tool: x.Tool, Error: x.Err.Error()})
	}
	return out, nil
}

// migrate moves a session to another runtime.
func (p *puppet) migrate(r *http.Request) (any, error) {
	var in conform.Migration
	if err := read(r, &in); err != nil {
		return nil, err
	}
	return done, p.rt.Migrate(r.Context(), r.PathValue("id"), in.To)
}

func (p *puppet) child(r *http.Request) (any, error) {
	var in conform.ChildRequest
	if err := read(r, &in); err != nil {
		return nil, err
	}
	_, err := p.of(r).OpenChild(r.Context(), in.ID, "")
	return done, err
}

func (p *puppet) text(r *http.Request) (any, error) {
	var in conform.Text
	if err := read(r, &in); err != nil {
		return nil, err
	}
	return done, p.of(r).Say(r.Context(), in.Text)
}

// answer answers a prompt, if it is open.
func (p *puppet) answer(r *http.Request) (any, error) {
	var in conform.Answer
	if err := read(r, &in); err != nil {
		return nil, err
	}
	p.mu.Lock()
	var key agentproto.CallKey
	var prompt shownPrompt
	for k, x := range p.prompts {
		if x.ID == in.Prompt {
			key, prompt = k, x
		}
	}
	p.mu.Unlock()
	if prompt.ID == "" {
		return done, nil
	}
	selected := host.Dismiss
	if in.Selected != nil {
		selected = *in.Selected
	}
	err := p.rt.Answer(r.Context(), key, prompt.detour, selected)
	if err == nil {
		p.forget(key, prompt.detour)
	}
	return done, err
}

// OAuth shows an authorization.
func (p *puppet) OAuth(_ context.Context, key agentproto.CallKey, o *agentproto.OAuth) {
	p.ask(key, o.AuthURL, conform.Prompt{Kind: "oauth", AuthURL: o.AuthURL})
}

// Choice shows a prompt.
func (p *puppet) Choice(_ context.Context, key agentproto.CallKey, c *agentproto.UserChoice) {
	p.ask(key, c.ResponseURL, conform.Prompt{Kind: "choice", Text: c.Prompt, Choices: c.Choices, Default: c.Default})
}

func (p *puppet) ask(key agentproto.CallKey, detour string, prompt conform.Prompt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	prompt.ID, prompt.Call = fmt.Sprint("prompt-", p.count), key.ID
	p.prompts[key] = shownPrompt{prompt, detour}
}

// Withdraw removes a prompt.
func (p *puppet) Withdraw(key agentproto.CallKey, detour string) { p.forget(key, detour) }

func (p *puppet) forget(key agentproto.CallKey, detour string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prompts[key].detour == detour {
		delete(p.prompts, key)
	}
}

// Progress does nothing: it appears in the thread.
func (p *puppet) Progress(agentproto.CallKey, agentproto.State) {}

// View does nothing: it appears in the thread.
func (p *puppet) View(agentproto.CallKey, *agentproto.ViewUpdate) {}
