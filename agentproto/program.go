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
	"github.com/millrace/millrace/slice"
)

// The timeouts that hold where a call or a detour does not say otherwise.
const (
	DefaultLifetime      = 15 * time.Minute
	DefaultOAuthTimeout  = 10 * time.Minute
	DefaultChoiceTimeout = 24 * time.Hour
)

// Runtime is the location of a [Program]: the runtime's side of the protocol.
type Runtime struct{ dataflow.Process }

// ProgramOptions are the settings of a [Program].
type ProgramOptions struct {
	// Dispatch posts invocations. It is required.
	Dispatch Dispatch
	// Concurrency is how many invocations are posted at once. Zero means 256.
	Concurrency int
	// Lifetime is how long a call that says nothing else may wait for its result.
	// Zero means [DefaultLifetime].
	Lifetime time.Duration
	// Flow is what the program is built on. Nil means a flow of its own; the
	// simulator gives its own.
	Flow *dataflow.Flow
}

// A Program is the runtime's side of the protocol as a dataflow flow. Invocations
// are a keyed singleton. Whatever happens to them (callbacks, timers, dispatch
// outcomes, cancellations, closures) is merged for each key into one order, and the
// first terminal input resolves the call:
//
//	calls ──┬────────────── started ──────────────┐
//	        ├─ MapAsync(dispatch) ─ outcomes ─────┤
//	        ├─ AfterEach(lifetime) ───────────────┤            ┌─ First ─ resolutions
//	        └─┐                                   ├─ Scan(step)┤
//	closures ─┴─ slice: join with the threads ────┤            └─ effects
//	events ──┬────────────────────────────────────┤
//	         ├─ AfterEach(detour) ────────────────┤
//	         └─ AfterEach(lifetime again) ────────┘
//
// It has no locks and no clock of its own, so that two inputs that race have one
// winner, and a simulator can try every order. Source: protocol part 3 and the rule
// that every invocation yields exactly one tool_result.
type Program struct {
	flow        *dataflow.Flow
	app         *dataflow.App
	calls       *dataflow.EntryInputPort[CallKey, *Call]
	events      *dataflow.KeyedInputPort[CallKey, *Event]
	closures    *dataflow.EntryInputPort[string, struct{}]
	resolutions *dataflow.EntryOutputPort[CallKey, *Resolution]
	effects     *dataflow.OutputPort[Effect]
	seq         atomic.Uint64 // of the last event delivered
}

// A moment names an event of a call, so that each has a timer of its own even if it
// is like another: a tool may use one address twice.
type moment struct {
	call CallKey
	seq  uint64
}

type (
	callsAt    = dataflow.KeyedSingleton[CallKey, *Call, Runtime, bounds.BoundedValue]
	threadsAt  = dataflow.KeyedSingleton[string, struct{}, Runtime, bounds.BoundedValue]
	inputsAt   = dataflow.KeyedSingleton[CallKey, *Event, Runtime, bounds.BoundedValue] // one input of each call
	momentsAt  = dataflow.KeyedSingleton[moment, *Event, Runtime, bounds.BoundedValue]
	arrivalsAt = dataflow.KeyedStream[CallKey, *Event, Runtime, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	mergedAt   = dataflow.KeyedStream[CallKey, *Event, Runtime, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
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
	at := dataflow.At[Runtime](p.flow)
	var calls callsAt
	var closures threadsAt
	var arrivals arrivalsAt
	p.calls, calls = keyedsingleton.Input[CallKey, *Call](at, "calls")
	p.closures, closures = keyedsingleton.Input[string, struct{}](at, "closures")
	p.events, arrivals = keyedstream.Input[CallKey, *Event](at, "events")

	valid := keyedsingleton.Filter(calls, func(c *Call) bool { return c.Rejected == "" })
	expired := expiries(arrivals)
	inputs := keyedstream.Merge(arrivals, keyedsingleton.IntoKeyedStream(keyedsingleton.Map(calls, start)))
	inputs = keyedstream.Merge(inputs, keyedsingleton.IntoKeyedStream(dispatches(valid, opts)))
	inputs = keyedstream.Merge(inputs, keyedsingleton.IntoKeyedStream(lifetimes(valid, opts)))
	inputs = keyedstream.Merge(inputs, byCall(expired))
	inputs = keyedstream.Merge(inputs, renewals(arrivals, expired, opts))
	inputs = keyedstream.Merge(inputs, closings(at, calls, closures))

	inOrder := keyedstream.AssumeOrder(inputs, "the first terminal input wins, and the runtime says which that was: the one it saw first")
	effects := keyedstream.MapWithKey(keyedstream.Scan(inOrder, newCallState, step), withKey)
	// The effects come first, so that whoever has awaited a resolution can rely on its
	// effect being out, even if the program ends in that moment.
	p.effects = dataflow.Output(keyedstream.Values(effects), "effects")
	resolved := keyedstream.First(keyedstream.FilterMap(effects, resolution))
	p.resolutions = keyedsingleton.Output(resolved, "resolutions")
	return p
}

// start is the input that puts a call.
func start(call *Call) *Event { return &Event{Kind: started, call: call} }

func withKey(k CallKey, e Effect) Effect {
	e.Key = k
	return e
}

func resolution(e Effect) (*Resolution, bool) { return e.Resolution, e.Kind == Resolve }

// dispatches posts the calls; what came of each is an input.
func dispatches(valid callsAt, opts ProgramOptions) inputsAt {
	return keyedsingleton.MapAsync(valid, func(ctx context.Context, c *Call) *Event {
		return &Event{Kind: dispatched, outcome: opts.Dispatch(ctx, c)}
	}, keyedsingleton.AsyncOptions{Concurrency: opts.Concurrency})
}

// lifetimes says when a call has waited long enough.
func lifetimes(valid callsAt, opts ProgramOptions) inputsAt {
	expired := keyedsingleton.AfterEach(valid,
		func(c *Call) time.Duration { return cmp.Or(c.Lifetime, opts.Lifetime) },
		"a call that has not been answered when its lifetime ends is resolved by that")
	return keyedsingleton.Map(expired, func(*Call) *Event { return &Event{Kind: lifetimeExpired} })
}

// opens says whether an event opens a detour.
func opens(e *Event) bool { return e.Kind == OAuthArrived || e.Kind == ChoiceArrived }

// answers says whether an event answers a choice.
func answers(e *Event) bool { return e.Kind == ChoiceAnswered }

// expiries says when the user has had a detour's time.
func expiries(arrivals arrivalsAt) momentsAt {
	over := keyedsingleton.AfterEach(moments(arrivals, opens), detourTimeout,
		"a detour that the user has not taken when its time is over ends by that")
	return keyedsingleton.Map(over, func(e *Event) *Event {
		return &Event{Kind: detourExpired, seq: e.seq, Choice: e.Choice, Lifetime: e.Lifetime}
	})
}

func detourTimeout(e *Event) time.Duration {
	if e.Kind == OAuthArrived {
		return cmp.Or(e.Timeout, DefaultOAuthTimeout)
	}
	return cmp.Or(e.Timeout, DefaultChoiceTimeout)
}

// renewals says when the lifetime is over that a call has again after its choice was
// answered, by the user or by its expiry.
func renewals(arrivals arrivalsAt, expired momentsAt, opts ProgramOptions) mergedAt {
	lifetime := func(e *Event) time.Duration { return cmp.Or(e.Lifetime, opts.Lifetime) }
	again := func(e *Event) *Event { return &Event{Kind: lifetimeExpired, seq: e.seq} }
	const why = "a call whose choice was answered has a lifetime again, and is resolved by its end"
	answered := keyedsingleton.AfterEach(moments(arrivals, answers), lifetime, why)
	defaulted := keyedsingleton.AfterEach(keyedsingleton.Filter(expired, func(e *Event) bool { return e.Choice != nil }), lifetime, why)
	return keyedstream.Merge(byCall(keyedsingleton.Map(answered, again)), byCall(keyedsingleton.Map(defaulted, again)))
}

// moments returns the events that pick finds, each under a key of its own.
func moments(arrivals arrivalsAt, pick func(*Event) bool) momentsAt {
	found := keyedstream.Entries(keyedstream.Filter(arrivals, pick))
	byMoment := dataflow.Keyed(dataflow.Map(found, func(e dataflow.Entry[CallKey, *Event]) dataflow.Entry[moment, *Event] {
		return dataflow.Entry[moment, *Event]{Key: moment{e.Key, e.Value.seq}, Value: e.Value}
	}))
	return keyedstream.First(keyedstream.AssumeOrder(byMoment, "an event has a number of its own, so each key has one value"))
}

// byCall brings events back to their calls.
func byCall(events momentsAt) mergedAt {
	return dataflow.Keyed(dataflow.Map(keyedsingleton.Entries(events), func(e dataflow.Entry[moment, *Event]) dataflow.Entry[CallKey, *Event] {
		return dataflow.Entry[CallKey, *Event]{Key: e.Key.call, Value: e.Value}
	}))
}

// closings tells each call of a closed thread, whether it came before the closure or
// comes after.
func closings(at Runtime, calls callsAt, closures threadsAt) mergedAt {
	const why = "closure and call find each other whichever is cut first: the later one has the earlier in its snapshot"
	keys := dataflow.AssumeOrder(keyedsingleton.Keys(calls), "the calls of a thread are used as a set")
	threads := keyedstream.Fold(dataflow.KeyBy(keys, func(k CallKey) string { return k.GroupID }),
		func() []CallKey { return nil },
		func(calls *[]CallKey, k CallKey) { *calls = append(*calls, k) })
	closed := keyedstream.Count(keyedsingleton.IntoKeyedStream(closures))

	tick := slice.At(at)
	newClosures := slice.BatchEntries(tick, closures, why)
	newCalls := slice.BatchEntries(tick, calls, why)
	earlier := keyedsingleton.JoinKeyedSingleton(newClosures, slice.SnapshotEntries(tick, threads, why))
	later := keyedsingleton.LookupKeyedSingleton(
		keyedsingleton.MapWithKey(newCalls, func(k CallKey, _ *Call) string { return k.GroupID }),
		slice.SnapshotEntries(tick, closed, why))

	toEarlier := dataflow.FlatMap(keyedsingleton.Values(earlier),
		func(p dataflow.Pair[struct{}, []CallKey], emit func(dataflow.Entry[CallKey, *Event])) {
			for _, k := range p.Second {
				emit(dataflow.Entry[CallKey, *Event]{Key: k, Value: closedEvent})
			}
		})
	toLater := dataflow.FilterMap(keyedsingleton.Entries(later),
		func(e dataflow.Entry[CallKey, dataflow.Pair[string, dataflow.Maybe[int]]]) (dataflow.Entry[CallKey, *Event], bool) {
			return dataflow.Entry[CallKey, *Event]{Key: e.Key, Value: closedEvent}, e.Value.Second.OK
		})
	return dataflow.Keyed(slice.Emit(dataflow.Merge(toEarlier, toLater)))
}

var closedEvent = &Event{Kind: threadClosed}

// Flow returns the flow of the program, for graphs and for its reasons.
func (p *Program) Flow() *dataflow.Flow { return p.flow }

// Start starts the program. It ends when ctx ends or with [Program.Stop].
func (p *Program) Start(ctx context.Context) (err error) {
	p.app, err = dataflow.Start(ctx, p.flow)
	return err
}

// Stop refuses further input, waits until what was accepted is handled and
// dispatches that were begun have returned, and ends the effects. Calls that are
// pending then stay unresolved. Effects must be read while Stop waits.
func (p *Program) Stop(ctx context.Context) error { return p.app.Stop(ctx) }

// Call puts a call. It returns [dataflow.ErrDuplicateKey] if the key was used before:
// a call is never replaced.
func (p *Program) Call(ctx context.Context, call *Call) error {
	return p.calls.Put(ctx, call.Key, call)
}

// Deliver tells the program what happened to a call. An event for a key that was
// never put is dropped, as a late one is.
func (p *Program) Deliver(ctx context.Context, key CallKey, e Event) error {
	e.seq = p.seq.Add(1)
	return p.events.Send(ctx, key, &e)
}

// CloseThread resolves every pending call of a thread, and every later one at once.
// Closing a thread twice is fine.
func (p *Program) CloseThread(ctx context.Context, groupID string) error {
	err := p.closures.Put(ctx, groupID, struct{}{})
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

// NextEffect returns the next thing to do. It returns io.EOF when the program has
// ended. Effects must be read: a runtime that does not stops the program.
func (p *Program) NextEffect(ctx context.Context) (Effect, error) { return p.effects.Next(ctx) }
