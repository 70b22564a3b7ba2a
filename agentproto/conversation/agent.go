package conversation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A Host does for an [Agent] what concerns tool calls. Each method may be called again
// for the same thing, and by any number of goroutines.
type Host interface {
	// Tools returns what the model of a thread may call, with the names by which
	// [Host.MakeCall] knows the tools.
	Tools(ctx context.Context, s *Session) []Tool
	// MakeCall makes a call of a thread. A call that was made already is no error. An
	// error is told to the model in the place of a result; after one of the other methods
	// it is called again a second later.
	MakeCall(ctx context.Context, thread string, c *ThreadCall) error
	// CancelCall ends a call as interrupted by the user. One that was not made yet must
	// not be made any more.
	CancelCall(ctx context.Context, thread string, c *ThreadCall) error
	// EndSubscription ends the subscription that a call opened.
	EndSubscription(ctx context.Context, thread, callID string) error
	// EndThread resolves the calls of a thread and tells the tool servers that it is closed.
	EndThread(ctx context.Context, thread string) error
	// HoldEvents says whether a thread has as many events waiting as may wait, so that tool
	// servers are better asked to send those to come later. What was said with the largest
	// number holds, in whatever order it comes. Another process that goes on with the thread is
	// told by the next event.
	HoldEvents(ctx context.Context, thread string, number uint64, hold bool) error
}

// AgentOptions are the settings of an [Agent].
type AgentOptions struct {
	Model Model // required; a [Models] for several
	Host  Host  // required

	// Retry holds the pauses before the model is asked a second time and every later
	// time, if it fails. Nil means 1, 2, 5, 10, 20 and 30 s; empty means one attempt. Of one that
	// has a fallback, the first two hold; if it says itself that it wants more time, the fallback is asked at once.
	Retry []time.Duration
	// Attempt is how long one attempt may take. Zero means 15 minutes: what the
	// model's service may take to begin and to go on is for the model to bound.
	Attempt time.Duration
	// Concurrency is how many models are asked at once. Zero means 1,024.
	Concurrency int

	// Watch, if not nil, is told what the models write while they are asked. It is called by many
	// goroutines, for one thread by one at a time, and returns soon.
	Watch func(thread string, w Writing)

	Logger *slog.Logger // nil means slog.Default()
}

// A Writing is a step of a round in which a model is asked.
type Writing struct {
	Round   uint64
	Attempt int // the first one is 0; what was written in an earlier one is void
	// Messages is how many there were in the history when the model was asked. Its reply, if it
	// is one, is message number Messages or a later one.
	Messages int
	Stage    Stage
	Delta    Delta // of Writes
}

// A Stage says how far a round is.
type Stage uint8

// The stages of a round, of which each attempt has Begins.
const (
	Begins  Stage = iota + 1 // the model is asked
	Writes                   // it has written Writing.Delta
	Answers                  // it has answered, and the answer is on its way into the history
	Fails                    // the round has no reply: nobody waits for it, or the model has failed
)

// An Agent performs the actions of threads: it asks the model and has the host make
// calls. Its Do is that of [ProgramOptions].
type Agent struct {
	opts  AgentOptions
	slots chan struct{}

	ready   chan struct{} // closed when program is set
	program *Program

	stop context.CancelFunc
	done context.Context // ends when models are no longer asked

	mu     sync.Mutex
	rounds map[string]*round // those under way, by thread
	counts map[string]ModelCounts
}

// A round is a model being asked.
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

// Attach tells the agent which program's actions it performs. It is called once, when the
// program has started; until then actions wait.
func (a *Agent) Attach(p *Program) {
	a.program = p
	close(a.ready)
}

// Stop ends every round that is under way, with a failure. It is for a program that is not
// kept and ends for good: one that is kept asks again after a restart instead.
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
		// Nobody else would do it, so it is done when it can be.
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

// begin makes a context for a round, which ends when the round is abandoned, also if
// that was before.
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

// abandon ends a round and those before it. One that has not begun yet will not. What is
// remembered of that goes with the next round.
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
