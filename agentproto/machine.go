package agentproto

// The state machine of one call, as a function that a [keyedstream.Scan] runs over
// the inputs of its key in the order in which they arrived. It is pure: what it
// wants done it emits.

// A callState is what is remembered of one call. A resolved call keeps only that.
type callState struct {
	call     *Call // nil until the call was put, and again when it is resolved
	state    State
	cause    Cause  // of the resolution
	detour   string // the open detour: its auth_url or response_url
	opened   uint64 // the event that opened it
	choice   *UserChoice
	epoch    uint64 // the event after which the lifetime started again, 0 at first
	detours  int
	accepted bool
}

// maxDetours bounds how often one call may send its user elsewhere.
const maxDetours = 5

func newCallState() callState { return callState{} }

// step handles one input of a call.
func step(s *callState, e *Event, emit func(Effect)) {
	if e.Kind == started {
		begin(s, e.call, emit)
		return
	}
	if s.call == nil {
		drop(s, e, emit)
		return
	}
	switch e.Kind {
	case ResultArrived:
		resolve(s, ByResult, e.Result, emit)
	case Malformed:
		fail(s, ByMalformed, emit, "the tool server sent a malformed result: %s", e.Reason)
	case dispatched:
		afterDispatch(s, e.outcome, emit)
	case OAuthArrived:
		detour(s, e, OAuthPending, e.OAuth.AuthURL, Effect{Kind: SurfaceOAuth, OAuth: e.OAuth}, emit)
	case ChoiceArrived:
		detour(s, e, ChoicePending, e.Choice.ResponseURL, Effect{Kind: PromptChoice, Choice: e.Choice}, emit)
	case ChoiceAnswered:
		answer(s, e, emit)
	case AnswerFailed:
		fail(s, ByAnswerFailed, emit, "the user's choice could not be delivered to the tool server: %s", e.Reason)
	case detourExpired:
		expireDetour(s, e, emit)
	case lifetimeExpired:
		if s.state == Pending && s.epoch == e.seq {
			fail(s, ByTimeout, emit, "the tool did not answer in time")
			emit(Effect{Kind: CancelCall, State: s.state})
		}
	case Interrupted:
		fail(s, ByInterruption, emit, "Tool call interrupted by user")
		emit(Effect{Kind: CancelCall, State: s.state})
	case threadClosed:
		fail(s, ByClosure, emit, "the thread was closed")
	}
}

func begin(s *callState, call *Call, emit func(Effect)) {
	s.call = call
	if call.Rejected != "" {
		fail(s, ByRejection, emit, "%s", call.Rejected)
	}
}

func afterDispatch(s *callState, o DispatchOutcome, emit func(Effect)) {
	if o.Accepted {
		s.accepted = true
		return
	}
	fail(s, ByDispatch, emit, "%s", o.Reason)
	if o.Ambiguous {
		emit(Effect{Kind: CancelCall, State: s.state})
	}
}

// detour opens a detour, in place of the one that is open if it is another.
func detour(s *callState, e *Event, state State, id string, surface Effect, emit func(Effect)) {
	if s.detour == id {
		emit(Effect{Kind: Drop, State: s.state, Dropped: Repeated, Event: e.Kind})
		return
	}
	if s.detours++; s.detours > maxDetours {
		fail(s, ByMalformed, emit, "the tool server asked the user for more than %d detours", maxDetours)
		emit(Effect{Kind: CancelCall, State: s.state})
		return
	}
	withdraw(s, emit)
	s.state, s.detour, s.opened, s.choice = state, id, e.seq, e.Choice
	surface.State, surface.Detour = state, id
	emit(surface)
}

// answer takes the user's choice to the tool, once for each prompt.
func answer(s *callState, e *Event, emit func(Effect)) {
	if s.state != ChoicePending || s.detour != e.Detour || e.Selected < 0 || e.Selected >= len(s.choice.Choices) {
		emit(Effect{Kind: Drop, State: s.state, Dropped: Repeated, Event: e.Kind})
		return
	}
	resume(s, e, e.Selected, emit)
}

// expireDetour ends the open detour: an authorization in an error, a choice in its default.
func expireDetour(s *callState, e *Event, emit func(Effect)) {
	if s.detour == "" || s.opened != e.seq {
		return
	}
	if s.state == ChoicePending {
		emit(Effect{Kind: Withdraw, State: s.state, Detour: s.detour})
		resume(s, e, s.choice.Default, emit)
		return
	}
	fail(s, ByTimeout, emit, "the user did not authorize the tool in time")
	emit(Effect{Kind: CancelCall, State: s.state})
}

// resume goes on waiting for the result, with a lifetime that starts again.
func resume(s *callState, e *Event, selected int, emit func(Effect)) {
	choice, detour := s.choice, s.detour
	s.state, s.detour, s.choice, s.epoch = Pending, "", nil, e.seq
	emit(Effect{Kind: AnswerChoice, State: Pending, Choice: choice, Detour: detour, Selected: selected})
}

// withdraw takes the open prompt back.
func withdraw(s *callState, emit func(Effect)) {
	if s.detour != "" {
		emit(Effect{Kind: Withdraw, State: s.state, Detour: s.detour})
		s.detour, s.choice = "", nil
	}
}

// fail resolves the call with an error result of the runtime's own.
func fail(s *callState, cause Cause, emit func(Effect), format string, args ...any) {
	resolve(s, cause, ErrorResult(s.call.Key, s.call.Invocation.CallID, format, args...), emit)
}

// resolve ends the call and forgets all but how.
func resolve(s *callState, cause Cause, result *ToolResult, emit func(Effect)) {
	withdraw(s, emit)
	key := s.call.Key
	*s = callState{state: Completed, cause: cause}
	emit(Effect{Kind: Resolve, State: Completed, Resolution: &Resolution{Key: key, Cause: cause, Result: result}})
}

// drop accounts for an input of a call that is resolved or was never put.
func drop(s *callState, e *Event, emit func(Effect)) {
	reason := Late
	switch e.Kind {
	case dispatched, lifetimeExpired, detourExpired, threadClosed:
		return // the program's own inputs: nobody sent anything late
	case ResultArrived:
		if s.cause == ByResult {
			reason = Duplicate
		}
	}
	emit(Effect{Kind: Drop, State: s.state, Dropped: reason, Event: e.Kind})
}
