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

// The default timeouts, for calls and detours that do not set their own.
const (
	DefaultLifetime      = 15 * time.Minute
	DefaultOAuthTimeout  = 10 * time.Minute
	DefaultChoiceTimeout = 24 * time.Hour
)

// Host is the location of a [Program]: the runtime's side of the protocol, partitioned by session. See [SessionOf].
type Host struct{ dataflow.Cluster }

// ProgramOptions are the settings of a [Program].
type ProgramOptions struct {
	// Dispatch posts invocations. It is required.
	Dispatch Dispatch
	// Prompt shows a detour to the user. It returns when [Program.Over] says that the detour is over, or when its context ends,
	// which is when the program ends. In a durable program it is called again after a restart for each open detour;
	// [SurfaceOAuth] and [PromptChoice] are not emitted again. It may be called before the program's Start has returned, and by
	// several goroutines, even for one call: a new detour opens when the previous one is over, but the two calls of Prompt are
	// not ordered. Nil means that nothing is called, and that a prompt does not survive a restart.
	Prompt func(ctx context.Context, prompt *Prompt)
	// Answer delivers the user's choice to the tool. It retries as it sees fit. It returns when the tool has the answer, or when
	// its failure was delivered to the program as [AnswerFailed]. In a durable program it is called again after a restart if it
	// had not returned; the tool recognizes the repetition by the prompt's number. Nil means that nothing is called, and only
	// [AnswerChoice] is emitted.
	Answer func(ctx context.Context, answer *Answer)
	// Watch finds out whether the tool server has lost a call that was acknowledged with [DispatchOutcome].Watch. It returns the
	// reason if so, or "" when the call and its subscription are over or ctx ends. In a durable program it is called again after
	// a restart. It may be called before the program's Start has returned. Nil means that nothing is called.
	Watch func(ctx context.Context, w *Watched) (lost string)
	// Forward passes an input of a call that was moved away with [Program.Commit] to [Program.Relay] of the destination. It
	// retries as it sees fit, and returns when the destination has the input. In a durable program it is called again after a
	// restart if it had not returned. Nil means that such inputs are lost.
	Forward func(ctx context.Context, f *Forwarded)
	// Notify passes a notice to [Program.Notify] of the running program and returns when the notice was accepted. In a durable
	// program that is the program which durable.Start returned, and Notify is called again after a restart if it had not
	// returned. Nil is right for a program in memory: the program that was built then takes the notice itself.
	Notify func(ctx context.Context, n *Notice)
	// Now is the clock that determines the rest of a timer when a call moves. Nil means [time.Now].
	Now func() time.Time
	// Concurrency is how many invocations, and how many answers, are posted at once. Zero means 256.
	Concurrency int
	// Lifetime is how long a call may wait for its result, unless the call says otherwise. Zero means [DefaultLifetime].
	Lifetime time.Duration
	// Flow is the flow that the program is built on. Nil means a new flow. The simulator and a durable flow supply their own.
	Flow *dataflow.Flow
	// Retain is how long a finished call is remembered, with its resolution. A key can be used again as soon as its call is
	// forgotten; see [Call].Incarnation. A closed thread is remembered for Retain, too, and one that moved away for at least
	// seven days. Zero means forever.
	Retain time.Duration
	// Results is how many bytes of large, unread results a thread keeps. A result counts if it has 16 KiB or more, see
	// [Program.Read]. Beyond the limit the oldest results are replaced by a text that gives their size. Zero means
	// [DefaultResults]. Results needs Retain.
	Results int
	// Idle is how long a subscription may be silent before it ends. Zero means forever.
	Idle time.Duration
}

// A Program is the runtime's side of the protocol as a dataflow flow. Each call is a state machine. Its inputs (callbacks,
// timers, dispatch outcomes, cancellations, closures) have one order, and the first terminal input resolves it.
//
//	calls ─┬─ MapAsync(Dispatch) ─ failures ──────┐
//	       └───┐                                  │
//	words ─────┼─ a machine for each thread ──────┤                             ┌─ resolutions
//	moves ─┬───┘                                  ├─ a machine for each call ───┤
//	       └─ relayed ────────────────────────────┤    │                  ▲     └─ effects
//	events ───────────────────────────────────────┘    └─ Prompt, Answer ─┘
//
// It has no locks: of two inputs that race exactly one wins, and a simulator can try every order. See doc/protocol.md §6: every
// invocation has exactly one tool_result. With [ProgramOptions].Retain nothing is kept forever.
type Program struct {
	flow        *dataflow.Flow
	app         *dataflow.App
	calls       *dataflow.EntryInputPort[CallKey, *Call]
	events      *dataflow.SharedKeyedInputPort[CallKey, input] // from request handlers, each on its own goroutine
	words       *dataflow.SharedKeyedInputPort[ThreadID, word] // to threads
	resolutions *dataflow.EntryOutputPort[CallKey, *Resolution]
	effects     *dataflow.OutputPort[dataflow.Entry[CallKey, emission]]
	emitted     emissionsAt
	kept        Resolutions
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
	callsAt  = dataflow.OrderedKeyedStream[CallKey, *Call, Host]
	wordsAt  = dataflow.UnorderedKeyedStream[ThreadID, word, Host]
	mergedAt = dataflow.UnorderedKeyedStream[CallKey, input, Host]
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
	// Effects are emitted before resolutions. Whoever has awaited a resolution can rely on its effect having been emitted, even
	// if the program ends at that moment.
	var lasting dataflow.KeyedSingleton[CallKey, uint64, Host, bounds.RetainedValue]
	p.emitted, lasting = keyedstream.CallingMachine(inputs, newCallState, m.step, m.fire,
		keyedstream.Calling(p.perform(opts), performed, keyedstream.CallOptions{Concurrency: math.MaxInt32}), // as many as are open
		"the first terminal input wins, and the runtime says which that was: the one it saw first")
	p.answerMoves(said, r)
	p.endings(r) // before the effects: a reader of an effect that ends a detour then finds that IsOver says so
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

// Stop refuses further input, waits until accepted input is handled and running dispatches and answers have returned, and then
// ends the effects. Pending calls stay unresolved, and open prompts are not taken back. The effects must be read while Stop
// waits.
func (p *Program) Stop(ctx context.Context) error {
	p.end()
	return p.app.Stop(ctx)
}

// Done returns a channel that is closed when the program has ended. The program must have been started.
func (p *Program) Done() <-chan struct{} { return p.app.Done() }

// Err returns why the program has ended, nil while it runs and after Stop.
func (p *Program) Err() error { return p.app.Err() }

// App returns the running app of a started program, for inspection. Stop it with [Program.Stop].
func (p *Program) App() *dataflow.App { return p.app }

// Call puts a call. It returns [dataflow.ErrDuplicateKey] if the key was used before:
// a call is never replaced.
func (p *Program) Call(ctx context.Context, call *Call) error {
	return p.calls.Put(ctx, call.Key, call)
}

// Deliver tells the program what happened to a call. An event for a key that was never put is dropped, like a late one. An event
// of an unknown kind, or without a field that its kind requires, is an error.
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
	copied := event{Event: e} // a copy, so that a result, which nearly every call has, is not moved to the heap
	return p.events.Send(ctx, key, input{Event: &copied})
}

// CloseThread resolves every pending call of a thread, and every later one at once. Closing a thread twice has no further effect.
func (p *Program) CloseThread(ctx context.Context, groupID string) error {
	return p.words.Send(ctx, ThreadID(groupID), word{})
}

// Await returns the resolution of a call as soon as it exists. It returns io.EOF if the program ended without one.
func (p *Program) Await(ctx context.Context, key CallKey) (*Resolution, error) {
	return p.resolutions.Await(ctx, key)
}

// Has reports whether a call was put, resolved or not. It knows every [Program.Call] that has returned for at least half of
// [ProgramOptions].Retain, and for Retain at most; see [Program.Lasting] for calls that last longer. See
// [dataflow.EntryInputPort.Has] for its cost. A call that was staged here was put elsewhere; only Lasting finds it.
func (p *Program) Has(ctx context.Context, key CallKey) (bool, error) { return p.calls.Has(ctx, key) }

// Lasting reports whether a call that lasts long exists, and its [Call].Incarnation. It knows the calls whose functions this process
// runs. With [ProgramOptions].Retain, each pending or subscribed call becomes one before [Program.Has] may have forgotten its key, and
// stays one until the call itself is forgotten. A call that came from elsewhere becomes one as soon as it is committed.
func (p *Program) Lasting(key CallKey) (incarnation uint64, lasts bool) { return p.lasting.Get(key) }

// AwaitLasting is like Lasting, but asks the process that owns the call, for as long as ctx allows.
func (p *Program) AwaitLasting(ctx context.Context, key CallKey) (lasts bool) {
	_, err := p.lasting.Await(ctx, key)
	return err == nil
}

// NextEffect returns the next effect. It returns io.EOF when the program has ended. The effects must be read: a program whose
// effects are not read stops making progress.
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

// Resolved returns the resolution of a call if it exists and this process knows it. A process knows those of all calls whose
// functions it runs and whose effects it has.
func (p *Program) Resolved(key CallKey) (*Resolution, bool) { return p.resolutions.Get(key) }
