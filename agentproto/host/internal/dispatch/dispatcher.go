// Package dispatch brings calls and answers to tool servers, and asks them whether they have a call still. A
// [Dispatcher] does what its program wants, and stops when the call is resolved.
package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/subscriptions"
	"github.com/millrace/millrace/agentproto/internal/trail"
)

// A Config has what a dispatcher works with.
type Config struct {
	Peers         *peer.Peers
	Subscriptions *subscriptions.Open
	Trail         *trail.Trail // of what happens to calls
	Tracer        agentproto.Tracer
	Running       <-chan struct{} // closed when the program has started
	Kept          bool            // whether the flow outlasts the process
	AskStatus     bool            // whether tool servers are asked whether they have a call still

	Ack    time.Duration // for one attempt to post a call
	Total  time.Duration // for all attempts
	Answer time.Duration // for one attempt to post an answer
	Status time.Duration // between two questions for a call
	Log    *slog.Logger
}

// A Dispatcher posts calls and answers, and asks for calls, as a program wants: see [agentproto.ProgramOptions].
type Dispatcher struct {
	Config
	attempts *attempts
	program  *agentproto.Program // set by attach
	deliver  func(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error
}

// New returns a dispatcher of a program that has not started.
func New(c Config) *Dispatcher {
	return &Dispatcher{Config: c, attempts: newAttempts()}
}

// Attach says which program has the calls, and how events are given to it.
func (d *Dispatcher) Attach(p *agentproto.Program, deliver func(context.Context, agentproto.CallKey, agentproto.Event) error) {
	d.program, d.deliver = p, deliver
}

// Settle ends what is under way for a call that is resolved, or another host's.
func (d *Dispatcher) Settle(key agentproto.CallKey) { d.attempts.settle(key) }
