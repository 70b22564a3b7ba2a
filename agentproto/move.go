package agentproto

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// ErrMove is returned for a step of a move that is not possible in the thread's present state. The text names that state.
var ErrMove = errors.New("the thread cannot do this step of a move now")

// A moveKey names a step, so that it is done once however often it is requested. A relayed input has a Number instead of a Step.
type moveKey struct {
	GroupID   string
	Migration string
	Step      handover.Step
	ID        string // the call, for a staged call or a relayed input
	Number    uint64
}

// A move holds the data that a step needs.
type move struct {
	Now      time.Time     // of Send and Stage
	Snapshot *CallSnapshot // of Stage; nil for a thread without calls
	Closed   bool          // of Stage: the thread is to be closed when it goes on
	Relayed  *Relayed
}

// A ThreadSnapshot is the part of a thread's state that moves.
type ThreadSnapshot struct {
	GroupID   string
	Migration string
	Calls     []*CallSnapshot // in the order in which they were made
	// Closed says that the thread was closed, before it was frozen or since. It is closed at the destination when it is committed
	// there.
	Closed bool
}

// A CallSnapshot is the complete state of one call. Any codec that keeps fields can encode it, such as that of package durable,
// and it can be staged elsewhere.
type CallSnapshot struct {
	Key       CallKey
	Migration string
	State     State
	Cause     Cause  // of a completed call, so that late messages stay late
	Server    string // of a pending or subscribed call

	// Call is the call as it was put, if it is pending.
	Call *Call
	// Remaining is how much longer the call may stay in its state: the rest of its lifetime, or of the detour's time. Zero ends
	// the state at once.
	Remaining time.Duration
	Detours   uint8       // how many it has opened so far
	Detour    *OpenDetour // nil if none is open

	// Subscribed says that the call has an open subscription. Seen are the digests of its last message ids, oldest first. Left is
	// how many events were dropped and not reported yet, and Gap whether there may be more of them.
	Subscribed bool
	Seen       []uint64
	Left       int
	Gap        bool
	// Incarnation is that of a subscribed call.
	Incarnation uint64
	// Operation is the tool of a subscribed call that keeps its events itself, see [EventsOf]. Heard is how many events it had,
	// and Kept are the texts of the last ones.
	Operation string
	Heard     int
	Kept      []string

	// Held are the inputs that arrived while the call was frozen, in order. They take effect when the thread is committed.
	Held []Relayed
}

// An OpenDetour is what a call asks of its user at present. Its OAuth is as the runtime gave it to the program. If its AuthURL is
// sealed, the source has to open it and the destination has to seal it again before the call is staged.
type OpenDetour struct {
	ID       string
	OAuth    *OAuth
	Choice   *UserChoice
	Values   jsontext.Value `json:",omitzero"` // what the user has filled in so far
	Lifetime time.Duration  // of the event that opened it
}

// A Relayed is an input that one program passes on to another.
type Relayed struct {
	Event   Event
	Outcome DispatchOutcome // of an invocation that was not accepted
}

// Freeze begins to move a thread away. From now on the inputs of its calls, including timers that end, have no effect and are
// held until [Program.Commit] or [Program.Abort]. Freeze returns when that is in force; a runtime answers callbacks 503 from then
// on, so that few inputs are held (doc/protocol.md §10.4).
//
// To move a thread from program S to program D, take these steps in this order:
//
//	S.Freeze(thread, m)            and the tool servers are told to migrate
//	snapshot := S.Export(thread, m)
//	D.Stage(snapshot)              the calls are frozen there
//	D.Commit(thread, m)            they go on at D
//	S.Commit(thread, m)            and are no longer S's
//
// Up to the commit at D, D.Abort makes it forget the thread, and S.Abort takes everything back: nothing is lost, and the held
// inputs take effect at S. Whoever drives the move has to end it the same way at both programs: commit or abort. A step that is
// impossible in the thread's present state, such as an abort after a commit, is refused with [ErrMove].
//
// If both programs are durable, the driver of the move can be killed at any point and repeat its requests: each step of a
// migration is done once, and a repeated request gets the same reply. A second attempt needs another name. Names may begin with a
// number and a dot, see [Program.Stage].
//
// Source and destination together resolve each call once. Inputs that reach S later are forwarded, see [ProgramOptions].Forward.
// While a thread is away, new calls of it are resolved by [ByClosure] and it must not be closed. It can come back, by another
// migration.
func (p *Program) Freeze(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Freeze}, &move{})
	return err
}

// Export returns the state of a frozen thread. From now on the destination may have it.
func (p *Program) Export(ctx context.Context, groupID, migration string) (*ThreadSnapshot, error) {
	r, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Send}, &move{Now: p.now()})
	if err != nil {
		return nil, err
	}
	thread := &ThreadSnapshot{GroupID: groupID, Migration: migration, Closed: r.Closed}
	for _, id := range r.Calls {
		s, err := p.exports.Await(ctx, exportKey{First: migration, Second: CallKey{groupID, id}})
		if err != nil {
			return nil, fmt.Errorf("agentproto: exporting thread %q: call %q: %w", groupID, id, err)
		}
		thread.Calls = append(thread.Calls, s)
	}
	return thread, nil
}

// Stage takes in a thread that another program has exported, including the inputs held there. Its calls do not go on before
// [Program.Commit]. They are not dispatched, since the source has done that and forwards the outcome.
//
// If names of migrations begin with a number and a dot, a migration with a larger number replaces one that was staged and not
// committed, and one with a smaller number is refused. With other names the first one has to be aborted.
func (p *Program) Stage(ctx context.Context, t *ThreadSnapshot) error {
	if len(t.Calls) == 0 {
		return p.stage(ctx, t, nil)
	}
	for _, s := range t.Calls {
		if err := p.stage(ctx, t, s); err != nil {
			return err
		}
		for i, r := range s.Held {
			if err := p.Relay(ctx, &Forwarded{s.Key, t.Migration, uint64(i + 1), r}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Program) stage(ctx context.Context, t *ThreadSnapshot, s *CallSnapshot) error {
	k := moveKey{GroupID: t.GroupID, Migration: t.Migration, Step: handover.Stage}
	if s != nil {
		k.ID = s.Key.ID
	}
	_, err := p.step(ctx, k, &move{Now: p.now(), Snapshot: s, Closed: t.Closed})
	return err
}

// Commit ends a move. At the destination the thread goes on, with the held inputs. At the source its calls now belong to the
// other program: their prompts are withdrawn, and their inputs are forwarded.
func (p *Program) Commit(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Commit}, &move{})
	return err
}

// Abort takes a move back. At the source the thread goes on, with the held inputs; the destination forgets the thread.
func (p *Program) Abort(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Abort}, &move{})
	return err
}

// Relay takes in an input that another program has forwarded, see [ProgramOptions].Forward. An input that is relayed again, as
// after a crash of either side, counts once. As in [Program.Deliver], an event of an unknown kind, or without a field that its
// kind requires, is an error.
func (p *Program) Relay(ctx context.Context, f *Forwarded) error {
	if f.Relayed.Event.Kind == threadClosed {
		return p.CloseThread(ctx, f.Key.GroupID)
	}
	if err := f.Relayed.Event.check(notAccepted); err != nil {
		return err
	}
	k := moveKey{GroupID: f.Key.GroupID, Migration: f.Migration, ID: f.Key.ID, Number: f.Number}
	err := p.moves.Put(ctx, k, &move{Relayed: &f.Relayed})
	if errors.Is(err, dataflow.ErrDuplicateKey) {
		return nil
	}
	return err
}

// relays returns the relayed inputs.
func relays(moves orderedAt) mergedAt {
	relayed := keyedstream.FilterMap(moves, func(m *move) (input, bool) {
		switch r := m.Relayed; {
		case r == nil:
			return input{}, false
		case r.Event.Kind == ResultArrived:
			return input{Result: r.Event.Result, Incarnation: r.Event.Incarnation}, true
		default:
			return input{Event: &event{Event: r.Event, Outcome: r.Outcome}}, true
		}
	})
	return keyedstream.Rekey(relayed, func(k moveKey, _ input) CallKey { return CallKey{k.GroupID, k.ID} })
}

// step requests one step and waits for its reply.
func (p *Program) step(ctx context.Context, k moveKey, m *move) (*reply, error) {
	err := p.moves.Put(ctx, k, m)
	if err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
		return nil, err
	}
	r, err := p.replies.Await(ctx, k)
	if err == nil && r.Refused != "" {
		err = fmt.Errorf("%w: %s", ErrMove, r.Refused)
	}
	if err != nil {
		return nil, fmt.Errorf("agentproto: step %s of thread %q for migration %q: %w", k.Step, k.GroupID, k.Migration, err)
	}
	return r, nil
}

type exportKey = dataflow.Pair[string, CallKey] // by migration

// answerMoves makes the outputs that contain the replies to steps of moves.
func (p *Program) answerMoves(said toldAt, r retention) {
	replies := keyedstream.FilterMap(said, func(t told) (*reply, bool) { return t.Reply, t.Reply != nil })
	byKey := keyedstream.Rekey(replies, func(_ ThreadID, r *reply) moveKey { return r.Key })
	p.replies = output(r, keyedstream.AssumeOrder(byKey, "a step has one reply"), "replies", movedRetention, lateMove)

	exports := keyedstream.FilterMapWithKey(p.emitted, func(k CallKey, e emission) (*CallSnapshot, bool) {
		if e.Effect == nil || e.Effect.Kind != moves {
			return nil, false
		}
		s := *e.Effect.Moved.Snapshot
		s.Key = k
		return &s, true
	})
	byMove := keyedstream.PrefixKey(exports, func(_ CallKey, s *CallSnapshot) string { return s.Migration })
	p.exports = output(r, byMove, "exports", movedRetention, lateMove)
}

// A Forwarded is an input of a call that has moved away, for [ProgramOptions].Forward.
type Forwarded struct {
	Key       CallKey
	Migration string // the one that moved the call
	Number    uint64 // distinguishes the forwarded inputs of one call
	Relayed   Relayed
}
