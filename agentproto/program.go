package agentproto

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// The timeouts that hold where a call or a detour does not say otherwise.
const (
	DefaultLifetime      = 15 * time.Minute
	DefaultOAuthTimeout  = 10 * time.Minute
	DefaultChoiceTimeout = 24 * time.Hour
)

// Host is the location of a [Program]: the runtime's side of the protocol, divided by session.
// See [SessionOf].
type Host struct{ dataflow.Cluster }

// ProgramOptions are the settings of a [Program].
type ProgramOptions struct {
	// Dispatch posts invocations. It is required.
	Dispatch Dispatch
	// Prompt sees to it that the user is asked, and returns when [Program.Over] says that
	// this is over, or when its context ends, which is when the program does. Where the
	// history is kept it is called again after a restart for each detour that is open, where
	// there is no [SurfaceOAuth] or [PromptChoice] again. It may be called before the
	// program's Start has returned, and by several goroutines, also for one call: a new
	// detour opens when the one before is over, but the two calls are not ordered. Nil
	// means that nothing is called, and that a prompt does not survive a restart.
	Prompt func(ctx context.Context, prompt *Prompt)
	// Answer delivers the user's choice to the tool. It retries as it sees fit, and returns
	// when the tool has it, or when that it could not be delivered is taken in as
	// [AnswerFailed]. Where the history is kept it is called again after a restart if it
	// had not returned: the tool recognizes the repetition by the prompt's number. Nil
	// means that nothing is called, and [AnswerChoice] is all that is said.
	Answer func(ctx context.Context, answer *Answer)
	// Watch finds out whether a call is lost that was acknowledged with
	// [DispatchOutcome].Watch: it returns why, or "" when the call, and the subscription it
	// opened, is over or ctx ends. Where the history is kept it is called again after a
	// restart. It may be called before the program's Start has returned. Nil means that
	// nothing is called.
	Watch func(ctx context.Context, w *Watched) (lost string)
	// Forward passes on what comes for a call that was moved away with [Program.Commit],
	// to [Program.Relay] of the destination. It retries as it sees fit, and returns when the
	// destination has it. Where the history is kept it is called again after a restart if it
	// had not returned. Nil means that what comes is lost.
	Forward func(ctx context.Context, f *Forwarded)
	// Notify gives a notice to the method of that name of the program that was started, and returns
	// when it was taken: in a flow whose history is kept, that is the one that durable.Start returned,
	// and where the history is kept Notify is called again after a restart if it had not returned. Nil is right
	// for a program in memory, which is the one that was built.
	Notify func(ctx context.Context, n *Notice)
	// Now is the clock for what is left of a timer when a call moves. Nil means [time.Now].
	Now func() time.Time
	// Concurrency is how many invocations, and how many answers, are posted at once. Zero
	// means 256.
	Concurrency int
	// Lifetime is how long a call that says nothing else may wait for its result.
	// Zero means [DefaultLifetime].
	Lifetime time.Duration
	// Flow is what the program is built on. Nil means a flow of its own; the
	// simulator gives its own, and so does a flow whose history is kept.
	Flow *dataflow.Flow
	// Retain is how long a call is remembered when it is over, with its resolution. Its key can be
	// used again as soon as the call is forgotten and was put that long ago, twice that long at
	// most; see [Call].Incarnation. A thread that is closed is remembered for Retain, too, and one that moved
	// away for seven days at least. Zero means for ever.
	Retain time.Duration
	// Results is how many bytes of results a thread keeps that have 16 KiB or more each and that nobody has
	// read, see [Program.Read]. Beyond that the oldest are replaced by a text that says how large they
	// were. Zero means [DefaultResults]. It needs Retain.
	Results int
	// Idle is how long a subscription may be silent before it ends. Zero means for ever.
	Idle time.Duration
}

// A Program is the runtime's side of the protocol as a dataflow flow. Each call is a machine:
// whatever happens to it (callbacks, timers, dispatch outcomes, cancellations, closures) is
// in one order, and the first terminal input resolves it.
//
//	calls ─┬─ MapAsync(Dispatch) ─ failures ──────┐
//	       └───┐                                  │
//	words ─────┼─ a machine for each thread ──────┤                             ┌─ resolutions
//	moves ─┬───┘                                  ├─ a machine for each call ───┤
//	       └─ relayed ────────────────────────────┤    │                  ▲     └─ effects
//	events ───────────────────────────────────────┘    └─ Prompt, Answer ─┘
//
// It has no locks, so that two inputs that race have one winner, and a simulator can try
// every order. See doc/protocol.md §6: every invocation has exactly one tool_result. With
// [ProgramOptions].Retain nothing is kept for ever.
type Program struct {
	flow        *dataflow.Flow
	app         *dataflow.App
	calls       *dataflow.EntryInputPort[CallKey, *Call]
	events      *dataflow.SharedKeyedInputPort[CallKey, input] // from handlers of requests, each on a goroutine of its own
	words       *dataflow.SharedKeyedInputPort[ThreadID, word] // to threads
	resolutions *dataflow.EntryOutputPort[CallKey, *Resolution]
	effects     *dataflow.OutputPort[dataflow.Entry[CallKey, emission]]
	emitted     emissionsAt
	kept        resolutionsAt
	lasting     *dataflow.EntryOutputPort[CallKey, uint64]
	moves       *dataflow.EntryInputPort[moveKey, *move]
	replies     *dataflow.EntryOutputPort[moveKey, *reply]
	exports     *dataflow.EntryOutputPort[exportKey, *CallSnapshot]
	now         func() time.Time
	over        *dataflow.EntryOutputPort[numbered, bool]
	ending      context.Context // ends when the program is to stop
	end         context.CancelFunc
}

type (
	callsAt  = dataflow.KeyedStream[CallKey, *Call, Host, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	wordsAt  = dataflow.KeyedStream[ThreadID, word, Host, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	mergedAt = dataflow.KeyedStream[CallKey, input, Host, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
)

// NewProgram builds the program. It panics without a Dispatch.
func NewProgram(opts ProgramOptions) *Program {
	if opts.Dispatch == nil {
		panic("agentproto: NewProgram: a program without Dispatch cannot post anything")
	}
	opts.Lifetime = cmp.Or(opts.Lifetime, DefaultLifetime)
	opts.Concurrency = cmp.Or(opts.Concurrency, 256)

	p := &Program{flow: opts.Flow}
	if p.flow == nil {
		p.flow = dataflow.New()
	}
	p.ending, p.end = context.WithCancel(context.Background())
	if p.now = opts.Now; p.now == nil {
		p.now = time.Now
	}
	at := dataflow.At[Host](p.flow)
	var arrivals mergedAt
	var words wordsAt
	r := retention{at, opts.Retain}
	calls, inputs := p.putCalls(r, opts)
	moves := putMoves(r, &p.moves)
	p.words, words = keyedstream.SharedInput[ThreadID, word](at, "words")
	p.events, arrivals = keyedstream.SharedInput[CallKey, input](at, "events")

	m := machine{
		lifetime: opts.Lifetime, retain: opts.Retain, idle: opts.Idle, results: cmp.Or(opts.Results, DefaultResults),
		prompts: opts.Prompt != nil, answers: opts.Answer != nil, forwards: opts.Forward != nil,
	}
	said := threads(calls, words, moves, m)
	inputs = keyedstream.Merge(relays(moves), inputs)
	inputs = keyedstream.Merge(keyedstream.Merge(inputs, toCalls(said)), arrivals)
	// Effects come before resolutions, so that whoever has awaited one can rely on its effect
	// being out, even if the program ends in that moment.
	var lasting dataflow.KeyedSingleton[CallKey, uint64, Host, bounds.RetainedValue]
	p.emitted, lasting = keyedstream.CallingMachine(inputs, newCallState, m.step, m.ring,
		keyedstream.Calling(p.perform(opts), performed, keyedstream.CallOptions{Concurrency: math.MaxInt32}), // as many as are open
		"the first terminal input wins, and the runtime says which that was: the one it saw first")
	p.answerMoves(said, r)
	p.endings(r) // before the effects: who has read that a detour is over finds that IsOver says so
	p.effects = keyedstream.Output(p.emitted, "effects")
	p.lasting = keyedsingleton.Output(lasting, "lasting calls")
	p.kept = keepResults(p.emitted)
	p.resolutions = keyedsingleton.Output(p.kept, "resolutions")
	return p
}

// Flow returns the flow of the program, for graphs and for its reasons.
func (p *Program) Flow() *dataflow.Flow { return p.flow }

// Start starts the program. It ends when ctx ends or with [Program.Stop].
func (p *Program) Start(ctx context.Context) (err error) {
	p.app, err = dataflow.Start(ctx, p.flow)
	return err
}

// Stop refuses further input, waits until what was accepted is handled and
// dispatches and answers that were begun have returned, and ends the effects. Calls that
// are pending then stay unresolved, and prompts that are open are not taken back. Effects
// must be read while Stop waits.
func (p *Program) Stop(ctx context.Context) error {
	p.end()
	return p.app.Stop(ctx)
}

// Done is closed when the program has ended. It must have been started.
func (p *Program) Done() <-chan struct{} { return p.app.Done() }

// Err returns why the program has ended, nil while it runs and after Stop.
func (p *Program) Err() error { return p.app.Err() }

// App returns the flow of a program that was started, to look at it. It is stopped by [Program.Stop].
func (p *Program) App() *dataflow.App { return p.app }

// Call puts a call. It returns [dataflow.ErrDuplicateKey] if the key was used before:
// a call is never replaced.
func (p *Program) Call(ctx context.Context, call *Call) error {
	return p.calls.Put(ctx, call.Key, call)
}

// Deliver tells the program what happened to a call. An event for a key that was
// never put is dropped, as a late one is. An event of an unknown kind, or without what its kind
// has, is an error.
func (p *Program) Deliver(ctx context.Context, key CallKey, e Event) error {
	if err := e.check(EventsLeftOut); err != nil {
		return err
	}
	if e.Kind == ResultArrived {
		return p.events.Send(ctx, key, input{Result: e.Result, Incarnation: e.Incarnation})
	}
	if e.At.IsZero() && (e.Kind == OAuthArrived || e.Kind == ChoiceArrived || e.Kind == ChoiceAnswered) {
		e.At = p.now()
	}
	copied := event{Event: e} // so that a result, which nearly every call has, is not moved to the heap
	return p.events.Send(ctx, key, input{Event: &copied})
}

// CloseThread resolves every pending call of a thread, and every later one at once.
// Closing a thread twice is fine.
func (p *Program) CloseThread(ctx context.Context, groupID string) error {
	return p.words.Send(ctx, ThreadID(groupID), word{})
}

// Await returns the resolution of a call as soon as there is one. It returns io.EOF
// if the program ended without one.
func (p *Program) Await(ctx context.Context, key CallKey) (*Resolution, error) {
	return p.resolutions.Await(ctx, key)
}

// Has reports whether a call was put, resolved or not. It sees every [Program.Call] that has
// returned, for half of [ProgramOptions].Retain, and twice that at most: see [Program.Lasting] for calls that
// last longer. See [dataflow.EntryInputPort.Has] for what it costs. A call that was staged was put elsewhere, and is one that lasts.
func (p *Program) Has(ctx context.Context, key CallKey) (bool, error) { return p.calls.Has(ctx, key) }

// Lasting reports whether there is a call that lasts for long, with its [Call].Incarnation, as far as
// this process knows: it knows those whose functions it runs. With [ProgramOptions].Retain, each call that is
// pending or subscribed is one before [Program.Has] may have forgotten its key, until it is
// forgotten itself, and one that came from elsewhere is one as soon as it is committed.
func (p *Program) Lasting(key CallKey) (incarnation uint64, lasts bool) { return p.lasting.Get(key) }

// AwaitLasting is Lasting that asks the process whose call it is, for as long as ctx allows.
func (p *Program) AwaitLasting(ctx context.Context, key CallKey) (lasts bool) {
	_, err := p.lasting.Await(ctx, key)
	return err == nil
}

// NextEffect returns the next thing to do. It returns io.EOF when the program has
// ended. Effects must be read: a runtime that does not stops the program.
func (p *Program) NextEffect(ctx context.Context) (Effect, error) {
	for {
		e, err := p.effects.Next(ctx)
		if err != nil {
			return Effect{}, err
		}
		if e.Value.said() {
			return e.Value.of(e.Key), nil
		}
	}
}

// Resolved returns the resolution of a call if there is one already, as far as this process
// knows: it knows all of the calls whose functions it runs and whose effects it has.
func (p *Program) Resolved(key CallKey) (*Resolution, bool) { return p.resolutions.Get(key) }
