// Package dispatch posts calls and answers to tool servers, and asks these whether they still have a call. A [Dispatcher] works
// for a program and stops when the call is resolved.
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

// A Config holds what a dispatcher needs.
type Config struct {
	Peers         *peer.Peers
	Subscriptions *subscriptions.Open
	Trail         *trail.Trail // of what happens to calls
	Tracer        agentproto.Tracer
	Running       <-chan struct{} // closed when the program has started
	Kept          bool            // whether the flow is durable
	AskStatus     bool            // whether tool servers are asked whether they still have a call

	Ack    time.Duration // the timeout for one attempt to post a call
	Total  time.Duration // the timeout for all attempts
	Answer time.Duration // the timeout for one attempt to post an answer
	Status time.Duration // the interval between two status requests for a call
	Log    *slog.Logger
}

// A Dispatcher posts calls and answers, and watches calls, for a program: see [agentproto.ProgramOptions].
type Dispatcher struct {
	Config
	attempts *attempts
	program  *agentproto.Program // set by Attach
	deliver  func(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error
}

// New returns a dispatcher for a program that has not started.
func New(c Config) *Dispatcher {
	return &Dispatcher{Config: c, attempts: newAttempts()}
}

// Attach sets the program that has the calls, and the function that passes events to it.
func (d *Dispatcher) Attach(p *agentproto.Program, deliver func(context.Context, agentproto.CallKey, agentproto.Event) error) {
	d.program, d.deliver = p, deliver
}

// Settle ends the work in progress for a call that is resolved.
func (d *Dispatcher) Settle(key agentproto.CallKey) { d.attempts.settle(key) }
