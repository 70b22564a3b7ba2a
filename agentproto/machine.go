package agentproto

import (
	"cmp"
	"time"
)

// The state machine of one call, as a function that a [keyedstream.ScanFirst] runs over
// the inputs of its key in the order in which they arrived. It is pure: what it
// wants done it emits, and what it decides it returns.

// An input is something that happened to a call. One of its fields is set. The two
// that each call has are not wrapped in an event, which would have to be allocated.
type input struct {
	Call   *Call       // it was put
	Result *ToolResult // its result arrived
	Event  *event      // anything else
}

// kind returns what happened, for an input that is not the call itself.
func (in input) kind() EventKind {
	if in.Result != nil {
		return ResultArrived
	}
	return in.Event.Kind
}

// An emission is an effect on its way out. A resolution, which each call has, is an
// effect without anything around it.
type emission struct {
	Resolution *Resolution // of Resolve
	Effect     *Effect     // anything else
}

// of returns what was emitted as the effect of a call.
func (e emission) of(k CallKey) Effect {
	if e.Resolution != nil {
		return Effect{Kind: Resolve, Key: k, State: Completed, Resolution: e.Resolution}
	}
	effect := *e.Effect
	effect.Key = k
	return effect
}

// said reports whether an emission is for the runtime.
func (e emission) said() bool { return e.Effect == nil || e.Effect.Kind != moves }

// An emitter takes what is to be done.
type emitter = func(emission)

// ask emits any effect but a resolution.
func ask(emit emitter, e Effect) { emit(emission{Effect: &e}) }

// A callState is what is remembered of one call. A resolved call keeps only that.
//
// There is one for each call that ever was, so what few calls have is behind a pointer.
type callState struct {
	Call    *Call // nil until the call was put, and again when it is resolved
	More    *more // nil for most
	State   State
	Cause   Cause // of the resolution
	Detours uint8
	Closed  bool // the thread was closed, and the call was not put yet
	Phase   phase
}

// What few calls have.
type more struct {
	Open  *openDetour   // nil if the call is in none
	Sub   *subscription // nil if none is open
	Epoch uint64        // the event after which the lifetime started again, 0 at first
	// Since is when that was, and Lifetime how long it is; zero is the program's.
	Since    time.Time
	Lifetime time.Duration

	Moving *moving // nil if the call is here
}

// more returns what few calls have, of a call that has it from now on.
func (s *callState) more() *more {
	if s.More == nil {
		s.More = new(more)
	}
	return s.More
}

// open returns the open detour, or nil.
func (s *callState) open() *openDetour {
	if s.More == nil {
		return nil
	}
	return s.More.Open
}

// epoch returns the event after which the lifetime started again.
func (s *callState) epoch() uint64 {
	if s.More == nil {
		return 0
	}
	return s.More.Epoch
}

// An openDetour is where a call sent its user.
type openDetour struct {
	ID       string // see Event.Detour
	Event    uint64 // the event that opened it
	OAuth    *OAuth
	Choice   *UserChoice
	Since    time.Time
	Timeout  time.Duration
	Lifetime time.Duration // of that event
}

// detour returns the name of the open detour, or "".
func (s *callState) detour() string {
	if open := s.open(); open != nil {
		return open.ID
	}
	return ""
}

// maxDetours bounds how often one call may send its user elsewhere.
const maxDetours = 5

func newCallState() callState { return callState{} }

// step handles one input of a call. It decides the resolution, if the call is resolved
// by this input.
func step(s *callState, in input, emit emitter) (*Resolution, bool) {
	var r *Resolution
	switch {
	case s.Phase != phaseHere:
		r = elsewhere(s, in, emit)
	case in.Call != nil:
		r = begin(s, in.Call, emit)
	case in.Event != nil && in.Event.Order != nil:
		r = follow(s, in.Event, emit)
	case s.Call == nil:
		afterwards(s, in, emit)
	case in.Result != nil:
		r = accept(s, in.Result, emit)
	default:
		r = happen(s, in.Event, emit)
	}
	return r, r != nil
}

func begin(s *callState, call *Call, emit emitter) *Resolution {
	s.Call = call
	switch {
	case call.Rejected != "":
		return fail(s, ByRejection, emit, "%s", call.Rejected)
	case s.Closed:
		return fail(s, ByClosure, emit, threadWasClosed)
	}
	return nil
}

const threadWasClosed = "the thread was closed"

// happen handles an event of a call that is pending.
func happen(s *callState, e *event, emit emitter) *Resolution {
	switch e.Kind {
	case ResultArrived:
		return accept(s, e.Result, emit)
	case Malformed:
		return fail(s, ByMalformed, emit, "the tool server sent a malformed result: %s", e.Reason)
	case Refused:
		return failAndCancel(s, ByRefusal, emit, "%s", e.Reason)
	case CallLost:
		return fail(s, ByLoss, emit, "the tool server lost the call: %s", e.Reason)
	case SubscriptionEventArrived, SubscriptionCancelled, EventsLeftOut:
		ask(emit, Effect{Kind: Drop, State: s.State, Dropped: Unsubscribed, Event: e.Kind})
	case notAccepted:
		return afterDispatch(s, e.Outcome, emit)
	case OAuthArrived:
		return detour(s, e, OAuthPending, cmp.Or(e.Detour, e.OAuth.AuthURL), emit)
	case ChoiceArrived:
		return detour(s, e, ChoicePending, e.Choice.ResponseURL, emit)
	case ChoiceAnswered:
		answer(s, e, emit)
	case AnswerFailed:
		return fail(s, ByAnswerFailed, emit, "the user's choice could not be delivered to the tool server: %s", e.Reason)
	case detourExpired:
		return expireDetour(s, e, emit)
	case lifetimeExpired:
		if s.State == Pending && s.epoch() == e.Seq {
			return failAndCancel(s, ByTimeout, emit, "the tool did not answer in time")
		}
	case Interrupted:
		return failAndCancel(s, ByInterruption, emit, "Tool call interrupted by user")
	case threadClosed:
		return fail(s, ByClosure, emit, threadWasClosed)
	}
	return nil
}

// afterDispatch handles that the tool server did not accept the call.
func afterDispatch(s *callState, o DispatchOutcome, emit emitter) *Resolution {
	if o.Ambiguous {
		return failAndCancel(s, ByDispatch, emit, "%s", o.Reason)
	}
	return fail(s, ByDispatch, emit, "%s", o.Reason)
}

// detour opens a detour, in place of the one that is open if it is another.
func detour(s *callState, e *event, state State, id string, emit emitter) *Resolution {
	if s.detour() == id {
		ask(emit, Effect{Kind: Drop, State: s.State, Dropped: Repeated, Event: e.Kind})
		return nil
	}
	if s.Detours++; s.Detours > maxDetours {
		return failAndCancel(s, ByMalformed, emit, "the tool server asked the user for more than %d detours", maxDetours)
	}
	withdraw(s, emit)
	open := &openDetour{
		ID: id, Event: e.Seq, OAuth: e.OAuth, Choice: e.Choice,
		Since: e.At, Timeout: detourTimeout(e), Lifetime: e.Lifetime,
	}
	s.State, s.more().Open = state, open
	surface(s, open, emit)
	return nil
}

// surface shows the open detour to the user.
func surface(s *callState, open *openDetour, emit emitter) {
	kind := SurfaceOAuth
	if open.Choice != nil {
		kind = PromptChoice
	}
	ask(emit, Effect{
		Kind: kind, State: s.State, OAuth: open.OAuth, Choice: open.Choice, Detour: open.ID, Number: open.Event,
		Server: s.Call.Server, Lifetime: open.Lifetime, Operation: s.Call.operation(),
	})
}

// answer takes the user's choice to the tool, once for each prompt.
func answer(s *callState, e *event, emit emitter) {
	if s.State != ChoicePending || s.detour() != e.Detour || e.Selected < 0 || e.Selected >= len(s.open().Choice.Choices) {
		ask(emit, Effect{Kind: Drop, State: s.State, Dropped: Repeated, Event: e.Kind})
		return
	}
	goOn(s, e, e.Selected, e.At, emit)
}

// expireDetour ends the open detour: an authorization in an error, a choice in its default.
func expireDetour(s *callState, e *event, emit emitter) *Resolution {
	open := s.open()
	if open == nil || open.Event != e.Seq {
		return nil
	}
	if s.State != ChoicePending {
		return failAndCancel(s, ByTimeout, emit, "the user did not authorize the tool in time")
	}
	ask(emit, Effect{Kind: Withdraw, State: s.State, Detour: open.ID, Number: open.Event})
	goOn(s, e, open.Choice.Default, open.Since.Add(open.Timeout), emit)
	return nil
}

// goOn goes on waiting for the result, with a lifetime that starts again at a time.
func goOn(s *callState, e *event, selected int, since time.Time, emit emitter) {
	open := s.open()
	s.State, s.More = Pending, &more{Epoch: e.Seq, Since: since, Lifetime: e.Lifetime}
	ask(emit, Effect{
		Kind: AnswerChoice, State: Pending, Choice: open.Choice, Detour: open.ID, Number: open.Event,
		Selected: selected, Server: s.Call.Server,
	})
}

// withdraw takes the open prompt back.
func withdraw(s *callState, emit emitter) {
	if open := s.open(); open != nil {
		ask(emit, Effect{Kind: Withdraw, State: s.State, Detour: open.ID, Number: open.Event})
		s.More.Open = nil
	}
}

// accept resolves the call with the tool's result, and opens its subscription if it says so.
func accept(s *callState, result *ToolResult, emit emitter) *Resolution {
	r := resolve(s, ByResult, result, emit)
	if result.Subscription {
		s.More = &more{Sub: &subscription{Key: r.Key, Server: r.Server}}
	}
	return r
}

// fail resolves the call with an error result of the runtime's own.
func fail(s *callState, cause Cause, emit emitter, format string, args ...any) *Resolution {
	return resolve(s, cause, ErrorResult(s.Call.Key, s.Call.Invocation.CallID, format, args...), emit)
}

// failAndCancel is fail for a call at which the tool server may be working.
func failAndCancel(s *callState, cause Cause, emit emitter, format string, args ...any) *Resolution {
	r := fail(s, cause, emit, format, args...)
	ask(emit, Effect{Kind: CancelCall, State: s.State})
	return r
}

// resolve ends the call and forgets all but how.
func resolve(s *callState, cause Cause, result *ToolResult, emit emitter) *Resolution {
	withdraw(s, emit)
	r := &Resolution{Key: s.Call.Key, Cause: cause, Result: result, Server: s.Call.Server}
	*s = callState{State: Completed, Cause: cause}
	emit(emission{Resolution: r})
	return r
}

// drop accounts for an input of a call that is resolved or was never put.
func drop(s *callState, kind EventKind, emit emitter) {
	reason := Late
	switch kind {
	case threadClosed:
		s.Closed = s.State != Completed
		return
	case notAccepted, lifetimeExpired, detourExpired, ordered:
		return // the program's own inputs: nobody sent anything late
	case SubscriptionEventArrived, SubscriptionCancelled, EventsLeftOut:
		reason = Unsubscribed
	case ResultArrived:
		if s.Cause == ByResult {
			reason = Duplicate
		}
	}
	ask(emit, Effect{Kind: Drop, State: s.State, Dropped: reason, Event: kind})
}
