package conversation

import (
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/keyedstream"
)

// This file is the state machine of one thread, as the functions of a [keyedstream.CallingMachine]. They are pure: whatever they
// want done they request by calls.

// A machine holds the settings of the step functions.
type machine struct{ limits Limits }

func newState() State { return State{} }

// A doing is what one step of a thread uses to emit, to call and to set timers.
type doing = keyedstream.CallingTurn[agentproto.ThreadID, emission, struct{}, Action]

// idle is the timer that closes a thread without inputs.
const idle keyedstream.Timer = 0

// step handles one input of a thread.
func (m machine) step(s *State, in input, do *doing) {
	t := turn{machine: m, s: s, do: do}
	was := s.over()
	t.take(in)
	switch is := s.over(); {
	case s.Session == nil && !is:
		do.Forget()
	case is && !was:
		do.Stop(idle)
		if t.limits.Retain > 0 {
			if s.Session != nil {
				t.dropAll(t.retention())
			}
			do.ForgetAfter(t.retention())
		}
	case was && !is: // it has come back from elsewhere
		do.ForgetAfter(never)
		fallthrough
	case !is && in.Kind != asked && t.limits.Idle > 0:
		do.After(idle, t.limits.Idle)
	}
}

// never is longer than any history.
const never = 100 * 365 * 24 * time.Hour

// answer handles the outcome of an action.
func (m machine) answer(s *State, a Action, o Outcome, do *doing) {
	m.step(s, input{Kind: done, Action: a.Number, Outcome: &o}, do)
}

// fire closes a thread that was idle for too long, unless it is moving, or an action or a call is still pending.
func (m machine) fire(s *State, _ keyedstream.Timer, do *doing) {
	if s.Move.place().Still() || s.Asking || len(s.Undone)+len(s.Batch)+len(s.Background) > 0 {
		do.After(idle, m.limits.Idle)
		return
	}
	m.step(s, input{Kind: closed}, do)
}

// over reports whether the thread is closed or elsewhere: nothing more happens in it.
func (s *State) over() bool {
	return s.Closed || s.Move.place() == handover.Gone || s.Move.place() == handover.None
}

// retention is how long a thread that is over is kept.
func (t *turn) retention() time.Duration {
	if t.s.Move.place() != handover.Here {
		return max(t.limits.Retain, movedRetention)
	}
	return t.limits.Retain
}

// movedRetention is how long a thread is known at least to have moved away. Callback URLs that were made before the move expire
// earlier (doc/protocol.md §12.1).
const movedRetention = 7 * 24 * time.Hour

// take handles one input of a thread.
func (t *turn) take(in input) {
	s := t.s
	if in.From != "" && s.Session != nil && in.Number <= s.Heard[in.From] {
		return // it was already forwarded
	}
	refused, again := "", t.again(in)
	if in.Kind != moves {
		refused = t.refuses(in)
	}
	switch {
	case in.Kind == moves:
		if refused = t.move(in); refused == "" {
			in.Token = "" // it was answered, or will be
		}
	case s.Session == nil && in.Kind == opened:
		t.open(in)
	case s.Session == nil:
	case in.Kind == done:
		t.done(in)
	case refused != "", s.Closed, s.Move.place() == handover.Gone, in.Kind == asked:
	case s.Move.place().Still():
		held := in
		held.Token = ""
		s.Held = append(s.Held, held)
	default:
		t.handle(in)
	}
	if in.From != "" && s.Session != nil {
		heard := maps.Clone(s.Heard)
		if heard == nil {
			heard = map[string]uint64{}
		}
		heard[in.From] = in.Number
		s.Heard = heard
	}
	if in.Token != "" {
		t.emit(emission{Answer: &answer{Token: in.Token, Status: t.status(refused), Again: again}})
	}
}

// manyOnce is how many names of texts are remembered for [Program.SayOnce].
const manyOnce = 64

// again reports whether an input has a text whose name was used before.
func (t *turn) again(in input) bool {
	return in.Kind == said && in.Once != "" && slices.Contains(t.s.SaidOnce, in.Once)
}

// A turn is one step in progress.
type turn struct {
	machine
	s  *State
	do *doing
}

// emit emits a change of the history or an answer.
func (t *turn) emit(e emission) { t.do.Emit(e) }

// handle handles an input of a thread that is open and not frozen, or an input that is handled in any case.
func (t *turn) handle(in input) {
	switch in.Kind {
	case said:
		if t.again(in) {
			return
		}
		if in.Once != "" {
			t.s.SaidOnce = append(t.s.SaidOnce[max(0, len(t.s.SaidOnce)-manyOnce+1):len(t.s.SaidOnce):len(t.s.SaidOnce)], in.Once)
		}
		t.say(in.Text)
	case interrupted:
		t.interrupt(true)
		t.flush()
	case closed:
		t.close()
	case openChild:
		t.child(in.Thread, in.Text)
	case unsubscribed:
		t.unsubscribe(in.Call)
	case resolved:
		t.resolve(in.Call, in.Resolution)
	case authorizing, resumed:
		if o := find(t.s.Batch, in.Call); o != nil {
			o.Waits = in.Kind == authorizing
			t.advance()
		}
	case happened:
		t.happen(*in.Event)
	case ended:
		t.end(in.Call)
	case viewed:
		t.view(in.View)
	}
}

// open creates the thread.
func (t *turn) open(in input) {
	s := t.s
	s.Move.Place = uint8(handover.Here) // also if it was expected here and did not come
	*s = State{Move: s.Move, Session: in.Session, Kept: Kept{First: 1}, Used: map[string]bool{}, Undone: map[uint64]Action{}, Views: map[string]jsontext.Value{}}
	t.write(Message{Kind: Opened, Session: in.Session})
	if in.Text != "" {
		t.say(in.Text)
	}
}

// perform requests an action.
func (t *turn) perform(a Action) uint64 {
	t.s.Actions++
	a.Number = t.s.Actions
	t.s.Undone[a.Number] = a
	t.do.Call(a)
	return a.Number
}

// say handles a message of the user. It interrupts whatever is in progress, and writes the queued events first.
func (t *turn) say(text string) {
	t.interrupt(false)
	t.flush()
	t.write(Message{Kind: User, Text: text})
	t.s.Rounds = 0
	t.ask()
}

// interrupt ends the running round and the pending calls. Calls that wait for an authorization, which the model knows of, go on
// unless all is set.
func (t *turn) interrupt(all bool) {
	t.abandon()
	for i := range t.s.Batch {
		o := &t.s.Batch[i]
		if o.Result == nil {
			o.Result = textResult(o.Call.ID, interruptedText)
			t.perform(Action{Kind: CancelCall, Call: t.callOf(o.Call)})
		}
	}
	t.report()
	if !all {
		return
	}
	for _, o := range t.s.Background {
		t.perform(Action{Kind: CancelCall, Call: t.callOf(o.Call)})
		t.postpone(Event{Call: o.Call, Result: textResult(o.Call.ID, interruptedText)})
	}
	t.s.Background = nil
}

const interruptedText = "Tool call interrupted by user"

// resolve handles the result of a call.
func (t *turn) resolve(id string, r *agentproto.Resolution) {
	s := t.s
	result := resultOf(r.Result, id, s.Session.Images, t.limits.Text)
	subscribes := r.Cause == agentproto.ByResult && r.Result.Subscription
	o, late := find(s.Batch, id), false
	if o == nil || o.Result != nil {
		o, late = find(s.Background, id), true
	}
	if o == nil { // it was interrupted, and the model knows
		if subscribes {
			t.perform(Action{Kind: EndSubscription, Call: t.callOf(Call{ID: id})})
		}
		return
	}
	if subscribes {
		s.Subscriptions = append(s.Subscriptions, Subscription{Call: o.Call})
	}
	if late {
		call := o.Call
		s.Background = slices.DeleteFunc(s.Background, func(o Open) bool { return o.Call.ID == id })
		t.postpone(Event{Call: call, Result: result})
	} else {
		o.Result = result
	}
	t.advance()
}

// advance asks the model again if it has something new: all calls of the last reply are resolved, or the unresolved ones wait for
// the user to authorize them, which the model should know; or events are queued.
func (t *turn) advance() {
	s := t.s
	if s.Asking || s.Move.place().Still() {
		return
	}
	for _, o := range s.Batch {
		if o.Result == nil && !o.Waits {
			return
		}
	}
	reported, flushed := t.report(), t.flush()
	if reported || flushed {
		t.ask()
	}
}

// report writes the results of the batch, in the order of its calls. It reports whether there were any.
func (t *turn) report() bool {
	batch := t.s.Batch
	t.s.Batch = nil
	for _, o := range batch {
		result := o.Result
		if result == nil {
			result = textResult(o.Call.ID, authorizingText)
			t.s.Background = append(t.s.Background, o)
		}
		t.write(Message{Kind: Result, Result: result})
	}
	return len(batch) > 0
}

const authorizingText = "Authorization in progress: the user was asked to authorize this tool first. The result follows as soon as it is there."

// find returns a call, or nil.
func find(calls []Open, id string) *Open {
	i := slices.IndexFunc(calls, func(o Open) bool { return o.Call.ID == id })
	if i < 0 {
		return nil
	}
	return &calls[i]
}

// done handles the outcome of an action.
func (t *turn) done(in input) {
	s := t.s
	a, ok := s.Undone[in.Action]
	if !ok {
		return
	}
	delete(s.Undone, in.Action)
	failure := in.Outcome.Failure
	switch a.Kind {
	case Ask:
		if s.Asking && a.Round == s.Round { // otherwise it was abandoned
			t.answered(in.Outcome)
		}
	case MakeCall:
		if o := find(s.Batch, a.Call.ID); failure != "" && o != nil && o.Result == nil {
			o.Result = textResult(a.Call.ID, "Error: %s", failure)
			t.advance()
		}
	case Forward:
		s.Outgoing = s.Outgoing[1:]
		if len(s.Outgoing) > 0 {
			t.do.Call(s.Undone[s.Outgoing[0]])
		}
	}
	t.exportWanted()
}

// forward passes an input to another thread, after those forwarded before it.
func (t *turn) forward(to string, in input) {
	t.s.Actions++
	in.From, in.Number = t.s.Session.ID, t.s.Actions
	a := Action{Kind: Forward, Number: t.s.Actions, To: to, Input: &in}
	t.s.Undone[a.Number] = a
	if t.s.Outgoing = append(t.s.Outgoing, a.Number); len(t.s.Outgoing) == 1 {
		t.do.Call(a)
	}
}

// notice writes a message for the user that the model does not see.
func (t *turn) notice(format string, args ...any) {
	t.write(Message{Kind: Notice, Text: sprintf(format, args...)})
}

// callOf returns a call with all the data needed to make it.
func (t *turn) callOf(c Call) *ThreadCall {
	return &ThreadCall{Call: c, UserID: t.s.Session.UserID, Ancestors: t.s.Session.Ancestors}
}
