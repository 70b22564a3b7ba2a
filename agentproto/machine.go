package agentproto

import (
	"cmp"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/keyedstream"
)

// This file is the state machine of one call, as the functions of a [keyedstream.CallingMachine], which handles the inputs of a
// key in the order in which they arrived. The machine is pure: whatever it wants done it emits or requests by a call. Its
// decision is the incarnation of a call that lasts long.

// An input is something that happened to a call. Exactly one of its fields Call, Result and Event is set, except that Call and
// Event are both set for a call that was made in a closed thread. Call and Result, which every call has, are not wrapped in an
// event, to save an allocation.
type input struct {
	Call   *Call       // the call was put
	Result *ToolResult // its result arrived
	Event  *event      // anything else

	Incarnation uint64 // of Result: see Event.Incarnation
}

// kind returns the kind of event. The input must not be the call itself.
func (in input) kind() EventKind {
	if in.Result != nil {
		return ResultArrived
	}
	return in.Event.Kind
}

// incarnation returns the incarnation that the input is about, or zero for any.
func (in input) incarnation() uint64 {
	if in.Event != nil {
		return in.Event.Incarnation
	}
	return in.Incarnation
}

// An emission is an effect on its way out. A resolution, which every call has, is emitted without an Effect around it.
type emission struct {
	Resolution *Resolution // of Resolve
	Effect     *Effect     // anything else

	Result resultChange // for an emission that is no effect: see results.go
}

// of returns the emission as an effect of a call.
func (e emission) of(k CallKey) Effect {
	if e.Resolution != nil {
		return Effect{Kind: Resolve, Key: k, State: Completed, Resolution: e.Resolution}
	}
	effect := *e.Effect
	effect.Key = k
	return effect
}

// said reports whether the emission is for the runtime.
func (e emission) said() bool {
	return e.Result == 0 && (e.Effect == nil || e.Effect.Kind != moves)
}

// A doing is what one step of a call uses to emit, to call and to set timers.
type doing = keyedstream.CallingTurn[CallKey, emission, uint64, request]

// The timers of a call.
const (
	deadline keyedstream.Timer = iota // ends the call's state: its lifetime, a detour, a silent subscription, or its retention
	renewal                           // the call tells its thread that it goes on
	whole                             // its result is no longer kept whole
)

// A machine holds the settings that all calls of a program share.
type machine struct {
	lifetime time.Duration
	retain   time.Duration // how long a finished call is remembered; zero is forever
	idle     time.Duration // how long a subscription may be silent; zero is forever
	results  int           // how many bytes of results a thread keeps
	prompts  bool          // which functions the program calls: see [ProgramOptions]
	answers  bool
	forwards bool
}

// A turn is one step of a call in progress.
type turn struct {
	machine
	s  *callState
	do *doing
}

// ask emits any effect except a resolution.
func (t turn) ask(e Effect) { t.do.Emit(emission{Effect: &e}) }

// arm sets the deadline.
func (t turn) arm(d time.Duration) {
	t.s.Armed++
	t.do.After(deadline, d)
}

// A callState is the state of one call. Of a resolved call little is left.
//
// One exists for every call that is remembered, so the fields that few calls need are behind a pointer.
type callState struct {
	Call    *Call // nil before the call is put and after it is resolved
	More    *more // nil for most calls
	State   State
	Cause   Cause // of the resolution
	Detours uint8
	Place   handover.Place
	Armed   uint32 // how often the deadline was set for a new reason
	Large   *large // nil unless the call is resolved and a large result is kept
	Heard   *heard // nil unless the call opened a subscription and keeps its events itself
}

// A more holds the fields that few calls need.
type more struct {
	Open *openDetour   // nil if the call is in no detour
	Sub  *subscription // nil if no subscription is open
	// Since is when the lifetime started again, zero if it did not. Lifetime is its length; zero means that of the program.
	Since    time.Time
	Lifetime time.Duration

	Moving *moving // nil if the call is not moving and has not moved away
}

// more returns s.More, which it allocates if necessary.
func (s *callState) more() *more {
	if s.More == nil {
		s.More = new(more)
	}
	return s.More
}

// incarnation returns the incarnation of the pending or subscribed call.
func (s *callState) incarnation() uint64 {
	if s.Call != nil {
		return s.Call.Incarnation
	}
	return s.More.Sub.Incarnation
}

// isOther reports whether an incarnation belongs to a call other than the pending or subscribed one.
func (s *callState) isOther(incarnation uint64) bool {
	return incarnation != 0 && (s.Call != nil || s.subscribed()) && !sameCall(incarnation, s.incarnation())
}

// sameCall reports whether two incarnations belong to one call, even if it has moved in between.
func sameCall(a, b uint64) bool { return a>>16 == b>>16 }

func newCallState() callState { return callState{} }

// step handles one input of a call.
func (m machine) step(s *callState, in input, do *doing) {
	t := turn{m, s, do}
	t.take(in)
	switch {
	case s.Call != nil || s.subscribed():
	case s.Place == handover.Here && s.State != Completed: // a call that does not exist
		do.Forget()
	}
}

// fire handles a timer of a call.
func (m machine) fire(s *callState, timer keyedstream.Timer, do *doing) {
	t := turn{m, s, do}
	switch {
	case timer == whole:
		t.cut()
	case s.Call == nil && !s.subscribed(): // it is resolved, or has moved away
		switch {
		case timer != deadline || m.retain == 0:
		case s.passing(): // the new owner of the session cannot be reached yet
			do.After(deadline, m.retain)
		default:
			do.Emit(emission{Result: resultGone})
			do.Forget()
		}
	case timer == renewal:
		t.renew()
	case s.Place != handover.Here:
		held := s.More.Moving
		held.Held = append(held.Held, input{Event: &event{Event: Event{Kind: deadlineOver}, Armed: s.Armed}})
	default:
		t.expire()
	}
}

// take handles one input.
func (t turn) take(in input) {
	s := t.s
	switch {
	case in.Event != nil && in.Event.Kind == resultRead:
		t.read()
	case in.Event != nil && in.Event.Kind == resultTooMuch:
		t.cut()
	case in.Event != nil && in.Event.Kind == threadClosed && in.Event.Order != nil:
		t.forwardClosure(in.Event.Order.Key.Migration)
	case s.Place != handover.Here:
		t.elsewhere(in)
	case in.Call != nil:
		t.begin(in)
	case in.Event != nil && in.Event.Order != nil:
		t.follow(in.Event)
	case s.isOther(in.incarnation()):
		t.drop(in.kind())
	case s.Call == nil:
		t.afterwards(in)
	case in.Result != nil:
		t.accept(in.Result)
	default:
		t.happen(in.Event)
	}
}

// begin handles the call itself. A key that the inputs have forgotten may be put again while its call is not over, or was over
// only a short while ago: the first call counts.
func (t turn) begin(in input) {
	s, call := t.s, in.Call
	if s.Call != nil || s.State == Completed {
		t.ask(Effect{Kind: Drop, State: s.State, Dropped: Repeated})
		return
	}
	s.Call = call
	switch {
	case call.Rejected != "":
		t.fail(ByRejection, "%s", call.Rejected)
	case in.Event != nil:
		t.fail(ByClosure, threadWasClosed)
	default:
		t.arm(cmp.Or(call.Lifetime, t.lifetime))
		t.goesOn()
	}
}

// goesOn schedules the next time at which the call says that it is not over: to its thread, and by a decision to those that ask
// for calls whose keys were put long ago. The inputs remember keys for half of retain.
func (t turn) goesOn() {
	if t.retain > 0 {
		t.do.After(renewal, t.retain/4)
	}
}

// renew says that the call is not over.
func (t turn) renew() {
	t.goesOn()
	t.lasts()
	t.do.Call(request{Notice: &Notice{Key: t.do.Key()}})
}

// lasts publishes the call for [Program.Lasting], which also finds calls whose keys the inputs have forgotten.
func (t turn) lasts() { t.do.Decide(t.s.incarnation()) }

const threadWasClosed = "the thread was closed"

// happen handles an event of a call that is pending.
func (t turn) happen(e *event) {
	s := t.s
	switch e.Kind {
	case ResultArrived:
		t.accept(e.Result)
	case Malformed:
		t.fail(ByMalformed, "the tool server sent a malformed result: %s", e.Reason)
	case Refused:
		t.failAndCancel(ByRefusal, "%s", e.Reason)
	case CallLost:
		t.fail(ByLoss, "the tool server lost the call: %s", e.Reason)
	case SubscriptionEventArrived, SubscriptionCancelled, EventsLeftOut:
		t.ask(Effect{Kind: Drop, State: s.State, Dropped: Unsubscribed, Event: e.Kind})
	case notAccepted:
		t.afterDispatch(e.Outcome)
	case OAuthArrived:
		t.detour(e, OAuthPending, cmp.Or(e.Detour, e.OAuth.AuthURL))
	case ChoiceArrived:
		t.detour(e, ChoicePending, e.Choice.ResponseURL)
	case ChoiceAnswered:
		t.answered(e)
	case AnswerFailed:
		t.fail(ByAnswerFailed, "the user's choice could not be delivered to the tool server: %s", e.Reason)
	case deadlineOver:
		if e.Armed == s.Armed {
			t.expire()
		}
	case Interrupted:
		t.failAndCancel(ByInterruption, "Tool call interrupted by user")
	case threadClosed:
		t.fail(ByClosure, threadWasClosed)
	}
}

// expire handles the end of the time that the call may spend in its state.
func (t turn) expire() {
	open := t.s.open()
	switch {
	case t.s.subscribed():
		t.silent()
	case t.s.State == Pending:
		t.failAndCancel(ByTimeout, "the tool did not answer in time")
	case t.s.State == OAuthPending:
		t.failAndCancel(ByTimeout, "the user did not authorize the tool in time")
	default:
		t.ask(Effect{Kind: Withdraw, State: t.s.State, Detour: open.ID, Number: open.Number})
		t.goOn(open.Choice.Default, nil, open.Since.Add(open.Timeout), open.Lifetime)
	}
}

// afterDispatch handles a call that the tool server did not accept.
func (t turn) afterDispatch(o DispatchOutcome) {
	if o.Ambiguous {
		t.failAndCancel(ByDispatch, "%s", o.Reason)
		return
	}
	t.fail(ByDispatch, "%s", o.Reason)
}

// accept resolves the call with the tool's result, and opens its subscription if the result says so.
func (t turn) accept(result *ToolResult) {
	call := t.s.Call
	t.resolve(ByResult, result)
	t.keepWhole(call, result)
	if result.Subscription {
		t.s.More = &more{Sub: &subscription{Key: call.Key, Server: call.Server, Incarnation: call.Incarnation}}
		if !call.Told {
			t.s.Heard = &heard{Operation: call.operation()}
		}
		t.listen()
		t.goesOn()
	} else {
		t.over()
	}
}

// fail resolves the call with an error result made by the program.
func (t turn) fail(cause Cause, format string, args ...any) {
	t.resolve(cause, ErrorResult(t.s.Call.Key, t.s.Call.Invocation.CallID, format, args...))
	t.over()
}

// failAndCancel is fail for a call that the tool server may still be running.
func (t turn) failAndCancel(cause Cause, format string, args ...any) {
	t.fail(cause, format, args...)
	t.ask(Effect{Kind: CancelCall, State: t.s.State})
}

// resolve ends the call and forgets everything except the cause.
func (t turn) resolve(cause Cause, result *ToolResult) {
	t.withdraw()
	r := &Resolution{Key: t.s.Call.Key, Cause: cause, Result: result, Server: t.s.Call.Server, Trace: t.s.Call.Trace}
	*t.s = callState{State: Completed, Cause: cause, Armed: t.s.Armed + 1}
	t.do.Emit(emission{Resolution: r})
}

// over schedules the removal of a resolved call. It resets the deadline timer and does not stop it: without Retain the timer
// fires once more, without effect. A simulator then has fewer orders to try.
func (t turn) over() {
	if t.retain > 0 {
		t.do.After(deadline, t.retain)
	}
}

// drop reports an input of a call that is resolved or was never put.
func (t turn) drop(kind EventKind) {
	s := t.s
	reason := Late
	switch kind {
	case notAccepted, deadlineOver, threadClosed, ordered:
		return // the program's own inputs: nobody sent anything late
	case SubscriptionEventArrived, SubscriptionCancelled, EventsLeftOut:
		reason = Unsubscribed
	case ResultArrived:
		if s.Cause == ByResult {
			reason = Duplicate
		}
	}
	t.ask(Effect{Kind: Drop, State: s.State, Dropped: reason, Event: kind})
}
