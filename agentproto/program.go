package agentproto

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
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
	// Forward passes on what comes for a call that was moved away with [Program.Release],
	// to [Program.Relay] of the destination. It retries as it sees fit, and returns when the
	// destination has it. Where the history is kept it is called again after a restart if it
	// had not returned. Nil means that what comes is lost.
	Forward func(ctx context.Context, f *Forwarded)
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
	// FirstEvent is from where events are numbered. Where the history is kept, two
	// processes must not use the same numbers: give each a random one.
	FirstEvent uint64

	prefix string // of the names by which a history knows operators, where two programs are in one flow
}

// A Program is the runtime's side of the protocol as a dataflow flow. Invocations
// are a keyed singleton. Whatever happens to them (callbacks, timers, dispatch
// outcomes, cancellations, closures) is merged for each key into one order, and the
// first terminal input resolves the call:
//
//	calls ──┬────────────── started ──────────────┐
//	        ├─ MapAsync(dispatch) ─ failures ─────┤
//	        ├─ AfterEach(lifetime) ───────────────┤                 ┌─ resolutions
//	        └─┐                                   ├─ ScanFirst(step)┤
//	closures ─┴─ Scan(tell) for each thread ──────┤                 └─ effects
//	events ──┬────────────────────────────────────┤
//	         └─ detours ─┬─ AfterEach(detour) ────┤
//	                     └─ AfterEach(lifetime) ──┘
//
// It has no locks and no clock of its own, so that two inputs that race have one
// winner, and a simulator can try every order. See doc/protocol.md §6: every
// invocation has exactly one tool_result.
type Program struct {
	flow        *dataflow.Flow
	app         *dataflow.App
	calls       *dataflow.EntryInputPort[CallKey, *Call]
	events      *dataflow.SharedKeyedInputPort[CallKey, input] // from handlers of requests, each on a goroutine of its own
	closures    *dataflow.EntryInputPort[ThreadID, struct{}]
	resolutions *dataflow.EntryOutputPort[CallKey, *Resolution]
	effects     *dataflow.OutputPort[dataflow.Entry[CallKey, emission]]
	emitted     emissionsAt
	rare        rareAt
	decided     resolutionsAt
	moves       *dataflow.EntryInputPort[moveKey, *move]
	replies     *dataflow.EntryOutputPort[moveKey, *reply]
	exports     *dataflow.EntryOutputPort[exportKey, *CallSnapshot]
	now         func() time.Time
	lifetime    time.Duration
	over        *dataflow.EntryOutputPort[numbered, bool]
	ending      context.Context // ends when the program is to stop
	end         context.CancelFunc
	seq         atomic.Uint64 // of the last event delivered
}

// A moment names an event of a call, so that each has a timer of its own even if it
// is like another: a tool may use one address twice.
type moment struct {
	Call CallKey
	Seq  uint64
}

type (
	callsAt    = dataflow.KeyedSingleton[CallKey, *Call, Host, bounds.BoundedValue]
	inputsAt   = dataflow.KeyedSingleton[CallKey, input, Host, bounds.BoundedValue] // one input of each call
	momentsAt  = dataflow.KeyedSingleton[moment, *event, Host, bounds.BoundedValue]
	arrivalsAt = dataflow.KeyedStream[CallKey, input, Host, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	eventsAt   = dataflow.KeyedStream[CallKey, *event, Host, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	mergedAt   = dataflow.KeyedStream[CallKey, input, Host, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
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
	p.seq.Store(opts.FirstEvent)
	if p.now, p.lifetime = opts.Now, opts.Lifetime; p.now == nil {
		p.now = time.Now
	}
	at := dataflow.At[Host](p.flow)
	var calls callsAt
	var closures threadsAt
	var arrivals arrivalsAt
	p.calls, calls = keyedsingleton.Input[CallKey, *Call](at, "calls")
	p.closures, closures = keyedsingleton.Input[ThreadID, struct{}](at, "closures")
	p.events, arrivals = keyedstream.SharedInput[CallKey, input](at, "events")
	var orders movesAt
	p.moves, orders = keyedsingleton.Input[moveKey, *move](at, "moves")

	valid := keyedsingleton.Filter(calls, func(c *Call) bool { return c.Rejected == "" })
	relayed := relays(orders)
	detours := keyedstream.Merge(keyedstream.FilterMap(relayed, ofDetour), resumedTimers(orders))
	detours = keyedstream.Merge(detours, keyedstream.FilterMap(arrivals, ofDetour))
	said := threads(calls, closures, orders)
	expired := expiries(detours, opts)
	// What is rare is merged first: the later an input, the fewer merges it goes through.
	inputs := keyedstream.Merge(byCall(expired), renewals(detours, expired, opts))
	inputs = keyedstream.Merge(inputs, relayed)
	inputs = keyedstream.Merge(inputs, toCalls(said))
	inputs = keyedstream.Merge(inputs, keyedsingleton.IntoKeyedStream(lifetimes(valid, opts)))
	outcomes := dispatches(valid, opts)
	if opts.Watch != nil {
		inputs = keyedstream.Merge(inputs, keyedsingleton.IntoKeyedStream(p.losses(outcomes, opts.Watch)))
	}
	inputs = keyedstream.Merge(inputs, keyedsingleton.IntoKeyedStream(failures(outcomes)))
	inputs = keyedstream.Merge(inputs, keyedsingleton.IntoKeyedStream(keyedsingleton.Map(calls, start)))
	inputs = keyedstream.Merge(inputs, arrivals)

	inOrder := keyedstream.AssumeOrder(inputs, "the first terminal input wins, and the runtime says which that was: the one it saw first")
	// That each call has one resolution is a promise of the types: whatever step does, the
	// first that it decides is the key's entry. Effects come first, so that whoever has
	// awaited a resolution can rely on its effect being out, even if the program ends in
	// that moment.
	effects, resolutions := keyedstream.ScanFirst(inOrder, newCallState, step)
	p.emitted, p.decided = effects, resolutions
	p.rare = rare(effects)
	p.answerMoves(said, opts)
	p.outbox(opts) // before the effects: who has read that a detour is over finds that IsOver says so
	p.effects = keyedstream.Output(effects, "effects")
	p.resolutions = keyedsingleton.Output(resolutions, "resolutions")
	return p
}

// start is the input that puts a call.
func start(call *Call) input { return input{Call: call} }

// dispatches posts the calls.
func dispatches(valid callsAt, opts ProgramOptions) outcomesAt {
	return keyedsingleton.MapAsync(valid, func(ctx context.Context, c *Call) DispatchOutcome {
		return opts.Dispatch(ctx, c)
	}, keyedsingleton.AsyncOptions{Concurrency: opts.Concurrency})
}

// failures says which calls were not accepted. That one was changes nothing.
func failures(outcomes outcomesAt) inputsAt {
	return keyedsingleton.FilterMap(outcomes, func(o DispatchOutcome) (input, bool) {
		if o.Accepted {
			return input{}, false
		}
		return input{Event: &event{Event: Event{Kind: notAccepted}, Outcome: o}}, true
	})
}

// lifetimes says when a call has waited long enough. What waits is the time and not the
// call, so that a call that is resolved can be forgotten at once.
func lifetimes(valid callsAt, opts ProgramOptions) inputsAt {
	waiting := keyedsingleton.Map(valid, func(c *Call) time.Duration { return cmp.Or(c.Lifetime, opts.Lifetime) })
	expired := keyedsingleton.AfterEach(waiting, func(d time.Duration) time.Duration { return d },
		"a call that has not been answered when its lifetime ends is resolved by that")
	return keyedsingleton.Map(expired, func(time.Duration) input { return lifetimeOver })
}

var lifetimeOver = input{Event: &event{Event: Event{Kind: lifetimeExpired}}}

// ofDetour returns the events that open a detour or answer a choice.
func ofDetour(in input) (*event, bool) {
	return in.Event, in.Event != nil && (opens(in.Event) || answers(in.Event))
}

// opens says whether an event opens a detour.
func opens(e *event) bool { return e.Kind == OAuthArrived || e.Kind == ChoiceArrived }

// answers says whether an event answers a choice.
func answers(e *event) bool { return e.Kind == ChoiceAnswered }

// expiries says when the user has had a detour's time.
func expiries(detours eventsAt, opts ProgramOptions) momentsAt {
	over := keyedsingleton.AfterEach(moments(opts.prefix+"detours-opened", detours, opens), detourTimeout,
		"a detour that the user has not taken when its time is over ends by that")
	return keyedsingleton.Map(over, func(e *event) *event {
		return &event{Event: Event{Kind: detourExpired, Choice: e.Choice, Lifetime: e.Lifetime}, Seq: e.Seq}
	})
}

func detourTimeout(e *event) time.Duration {
	if e.Kind == OAuthArrived {
		return cmp.Or(e.Timeout, DefaultOAuthTimeout)
	}
	return cmp.Or(e.Timeout, DefaultChoiceTimeout)
}

// renewals says when the lifetime is over that a call has again after its choice was
// answered, by the user or by its expiry.
func renewals(detours eventsAt, expired momentsAt, opts ProgramOptions) mergedAt {
	lifetime := func(e *event) time.Duration { return cmp.Or(e.Lifetime, opts.Lifetime) }
	again := func(e *event) *event { return &event{Event: Event{Kind: lifetimeExpired}, Seq: e.Seq} }
	const why = "a call whose choice was answered has a lifetime again, and is resolved by its end"
	answered := keyedsingleton.AfterEach(moments(opts.prefix+"choices-answered", detours, answers), lifetime, why)
	defaulted := keyedsingleton.AfterEach(keyedsingleton.Filter(expired, func(e *event) bool { return e.Choice != nil }), lifetime, why)
	return keyedstream.Merge(byCall(keyedsingleton.Map(answered, again)), byCall(keyedsingleton.Map(defaulted, again)))
}

// moments returns the events that pick finds, each under a key of its own. A history knows them by the
// name.
func moments(name string, detours eventsAt, pick func(*event) bool) momentsAt {
	found := keyedstream.Entries(keyedstream.Filter(detours, pick))
	byMoment := dataflow.Keyed(dataflow.Map(found, func(e dataflow.Entry[CallKey, *event]) dataflow.Entry[moment, *event] {
		return dataflow.Entry[moment, *event]{Key: moment{e.Key, e.Value.Seq}, Value: e.Value}
	}))
	return dataflow.Named(name, keyedstream.First(keyedstream.AssumeOrder(byMoment, "an event has a number of its own, so each key has one value")))
}

// byCall brings events back to their calls.
func byCall(events momentsAt) mergedAt {
	return dataflow.Keyed(dataflow.Map(keyedsingleton.Entries(events), func(e dataflow.Entry[moment, *event]) dataflow.Entry[CallKey, input] {
		return dataflow.Entry[CallKey, input]{Key: e.Key.Call, Value: input{Event: e.Value}}
	}))
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

// Call puts a call. It returns [dataflow.ErrDuplicateKey] if the key was used before:
// a call is never replaced.
func (p *Program) Call(ctx context.Context, call *Call) error {
	if call.Resumed != nil {
		return p.resume(ctx, call.Resumed)
	}
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
		return p.events.Send(ctx, key, input{Result: e.Result})
	}
	if e.At.IsZero() && (e.Kind == OAuthArrived || e.Kind == ChoiceArrived || e.Kind == ChoiceAnswered) {
		e.At = p.now()
	}
	numbered := event{Event: e, Seq: p.seq.Add(1)} // a copy, so that a result, which nearly every call has, is not moved to the heap
	return p.events.Send(ctx, key, input{Event: &numbered})
}

// CloseThread resolves every pending call of a thread, and every later one at once.
// Closing a thread twice is fine.
func (p *Program) CloseThread(ctx context.Context, groupID string) error {
	err := p.closures.Put(ctx, ThreadID(groupID), struct{}{})
	if errors.Is(err, dataflow.ErrDuplicateKey) {
		return nil
	}
	return err
}

// Await returns the resolution of a call as soon as there is one. It returns io.EOF
// if the program ended without one.
func (p *Program) Await(ctx context.Context, key CallKey) (*Resolution, error) {
	return p.resolutions.Await(ctx, key)
}

// Has reports whether a call was put, resolved or not. It sees every [Program.Call] that has
// returned; see [dataflow.EntryInputPort.Has] for what it costs. A call that was resumed was
// put elsewhere.
func (p *Program) Has(ctx context.Context, key CallKey) (bool, error) { return p.calls.Has(ctx, key) }

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
