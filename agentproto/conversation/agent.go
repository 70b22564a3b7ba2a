package conversation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A Host performs the actions of an [Agent] that concern tool calls. Each method may be called again for the same thing, and must
// be safe for concurrent use.
type Host interface {
	// Tools returns the tools that the model of a thread may call, under the names by which [Host.MakeCall] knows them.
	Tools(ctx context.Context, s *Session) []Tool
	// MakeCall makes a call of a thread. If the call was made already, it returns nil. The model gets an error of MakeCall in
	// place of a result. After an error of another method, that method is called again a second later.
	MakeCall(ctx context.Context, thread string, c *ThreadCall) error
	// CancelCall ends a call as interrupted by the user. A call that was not made yet must never be made.
	CancelCall(ctx context.Context, thread string, c *ThreadCall) error
	// EndSubscription ends the subscription that a call opened.
	EndSubscription(ctx context.Context, thread, callID string) error
	// EndThread resolves the calls of a thread and tells the tool servers that the thread is closed.
	EndThread(ctx context.Context, thread string) error
	// HoldEvents says whether the limit of waiting events of a thread is reached, so that tool servers are asked to send further
	// ones later. The call with the largest number counts, in whatever order the calls arrive. If another process takes over the
	// thread, the next event tells it.
	HoldEvents(ctx context.Context, thread string, number uint64, hold bool) error
}

// AgentOptions are the settings of an [Agent].
type AgentOptions struct {
	Model Model // required; a [Models] to choose between several
	Host  Host  // required

	// Retry holds the pauses before the second and every later attempt to ask a failing model. Nil means 1, 2, 5, 10, 20 and 30 s;
	// empty means one attempt. A model that has a fallback gets the first two pauses only. If it asks for a longer pause than
	// these itself, the fallback is asked at once.
	Retry []time.Duration
	// Attempt is how long one attempt may take. Zero means 15 minutes. The model itself bounds how long its service may take to
	// begin and to continue.
	Attempt time.Duration
	// Concurrency is how many models are asked at once. Zero means 1,024.
	Concurrency int

	// Watch, if not nil, receives what the models write while they are asked. It is called by many goroutines, but for one thread
	// by one at a time. It must return quickly.
	Watch func(thread string, w Writing)

	Logger *slog.Logger // nil means slog.Default()
}

// A Writing is an observed step of a round, which is one request to a model.
type Writing struct {
	Round   uint64
	Attempt int // starts at 0; text written in an earlier attempt is void
	// Messages is how many messages the history had when the model was asked. The model's reply, if there is one, has number
	// Messages or a later one.
	Messages int
	Stage    Stage
	Delta    Delta // of Writes
}

// A Stage is the stage of a round.
type Stage uint8

// The stages of a round. Each attempt has its own Begins.
const (
	Begins  Stage = iota + 1 // the model is asked
	Writes                   // the model has written Writing.Delta
	Answers                  // the model has answered; the answer is not in the history yet
	Fails                    // the round has no reply: it is not wanted, or the model has failed
)

// An Agent performs the actions of threads: it asks the model and lets the host make calls. Its Do method is for
// [ProgramOptions].Do.
type Agent struct {
	opts  AgentOptions
	slots chan struct{}

	ready   chan struct{} // closed when program is set
	program *Program

	stop context.CancelFunc
	done context.Context // ends when models are no longer asked

	mu     sync.Mutex
	rounds map[string]*round // running rounds, by thread
	counts map[string]ModelCounts
}

// A round is one request to a model.
type round struct {
	number uint64
	cancel context.CancelFunc // nil if it was abandoned before it began
}

// NewAgent returns an agent. It panics without a Model or a Host.
func NewAgent(opts AgentOptions) *Agent {
	if opts.Model == nil || opts.Host == nil {
		panic("conversation: NewAgent: an agent needs a Model and a Host")
	}
	if opts.Retry == nil {
		opts.Retry = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}
	}
	if opts.Attempt == 0 {
		opts.Attempt = 15 * time.Minute
	}
	if opts.Concurrency == 0 {
		opts.Concurrency = 1024
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	a := &Agent{opts: opts, slots: make(chan struct{}, opts.Concurrency), ready: make(chan struct{}), rounds: map[string]*round{}, counts: map[string]ModelCounts{}}
	a.done, a.stop = context.WithCancel(context.Background())
	return a
}

// Attach sets the program whose actions the agent performs. It is called once, when the program has started; until then actions
// wait.
func (a *Agent) Attach(p *Program) {
	a.program = p
	close(a.ready)
}

// Stop ends every running round with a failure. It is for a program without a stored history that ends for good. A durable
// program asks again after a restart instead.
func (a *Agent) Stop() { a.stop() }

// Do performs an action of a thread.
func (a *Agent) Do(ctx context.Context, thread string, action *Action) *Outcome {
	select {
	case <-a.ready:
	case <-ctx.Done():
		return &Outcome{}
	}
	if action.Kind == Ask {
		return a.ask(ctx, thread, action)
	}
	for {
		err := a.perform(ctx, thread, action)
		switch {
		case err == nil, ctx.Err() != nil, a.done.Err() != nil:
			return &Outcome{}
		case action.Kind == MakeCall:
			return &Outcome{Failure: err.Error()}
		}
		// Nobody else would do it, so it is retried until it succeeds.
		a.opts.Logger.Warn("action of a thread failed", "thread", quoted(thread), "action", action.Kind.String(), "error", err)
		timer := time.NewTimer(time.Second)
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-a.done.Done():
		}
		timer.Stop()
	}
}

// perform performs an action other than Ask, once.
func (a *Agent) perform(ctx context.Context, thread string, action *Action) error {
	host := a.opts.Host
	switch action.Kind {
	case Abandon:
		a.abandon(thread, action.Round)
	case MakeCall:
		return host.MakeCall(ctx, thread, action.Call)
	case CancelCall:
		return host.CancelCall(ctx, thread, action.Call)
	case EndSubscription:
		return host.EndSubscription(ctx, thread, action.Call.ID)
	case EndThread:
		return host.EndThread(ctx, thread)
	case HoldEvents, TakeEvents:
		return host.HoldEvents(ctx, thread, action.Number, action.Kind == HoldEvents)
	case Forward:
		return a.program.inputs.Send(ctx, agentproto.ThreadID(action.To), *action.Input)
	}
	return nil
}

// begin makes a context for a round. The context ends when the round is abandoned, even if that happened before begin.
func (a *Agent) begin(ctx context.Context, thread string, number uint64) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(a.done, cancel)
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.rounds[thread]; r != nil && r.number >= number && r.cancel == nil {
		cancel()
	} else if r == nil || r.number < number {
		a.rounds[thread] = &round{number, cancel}
	}
	return ctx, func() {
		detach()
		cancel()
		a.mu.Lock()
		defer a.mu.Unlock()
		if r := a.rounds[thread]; r != nil && r.number == number {
			delete(a.rounds, thread)
		}
	}
}

// abandon ends a round and all earlier ones. If the round has not begun yet, it will end as soon as it begins. The record of that
// is replaced by the next round.
func (a *Agent) abandon(thread string, number uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.rounds[thread]
	if r != nil && r.number > number {
		return
	}
	if r != nil && r.cancel != nil {
		r.cancel()
	}
	a.rounds[thread] = &round{number: number}
}
