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

// ErrMove is returned for a step of a move that cannot be made where a thread is. The text
// says where that is.
var ErrMove = errors.New("the thread cannot do this step of a move now")

// A moveKey names a step, so that it is done once however often it is asked for. What is relayed has a Number in place of a step.
type moveKey struct {
	GroupID   string
	Migration string
	Step      handover.Step
	ID        string // of what is staged and relayed: the call
	Number    uint64
}

// A move is what a step needs to know.
type move struct {
	Now      time.Time     // of Send and Stage
	Snapshot *CallSnapshot // of Stage; nil for a thread without calls
	Closed   bool          // of Stage: the thread is closed when it goes on
	Relayed  *Relayed
}

// A ThreadSnapshot is what moves of a thread.
type ThreadSnapshot struct {
	GroupID   string
	Migration string
	Calls     []*CallSnapshot // in the order in which they were made
	// Closed says that the thread was closed, before it was frozen or since: it is closed at the
	// destination when it is committed there.
	Closed bool
}

// A CallSnapshot is one call, complete in itself: it can be encoded by any codec that keeps
// fields, such as that of package durable, and staged elsewhere.
type CallSnapshot struct {
	Key       CallKey
	Migration string
	State     State
	Cause     Cause  // of a call that is completed: what is left of it so that late messages stay late
	Server    string // that of a call that is pending or subscribed

	// Call is what was put, of a call that is pending.
	Call *Call
	// Remaining is how much longer it may be in its state: the rest of its lifetime, or of
	// the detour's time. Zero is over at once.
	Remaining time.Duration
	Detours   uint8       // so far
	Detour    *OpenDetour // nil if none is open

	// Subscribed says that the call has an open subscription. Seen are the digests of its
	// last message ids, the oldest first, and Left and Gap what has to be told of events that
	// were left out: how many, and whether there may be more of them.
	Subscribed bool
	Seen       []uint64
	Left       int
	Gap        bool
	// Incarnation is that of a call that is subscribed.
	Incarnation uint64
	// Operation is the tool of a call that is subscribed and keeps its events itself, see [EventsOf]: how many there
	// were is Heard, and the last ones are Kept.
	Operation string
	Heard     int
	Kept      []string

	// Held is what came while the call was frozen, in order. It has its effect when the
	// thread is committed.
	Held []Relayed
}

// An OpenDetour is what a call asks of its user at present. Its OAuth is as the runtime
// gave it to the program: one whose AuthURL is sealed has to be opened by who sealed it, and
// sealed by the destination, before it is staged.
type OpenDetour struct {
	ID       string
	OAuth    *OAuth
	Choice   *UserChoice
	Values   jsontext.Value `json:",omitzero"` // that the user has filled in so far
	Lifetime time.Duration  // of the event that opened it
}

// A Relayed is an input that one program passes on to another.
type Relayed struct {
	Event   Event
	Outcome DispatchOutcome // of an invocation that was not accepted
}

// Freeze begins to move a thread away. From now on what happens to its calls has no effect
// but is held, timers that end too, until [Program.Commit] or [Program.Abort]. It returns
// when that is so; a runtime answers callbacks 503 from then on, so that little is held
// (doc/protocol.md §10.4).
//
// A move of a thread from program S to program D is, in this order:
//
//	S.Freeze(thread, m)            and the tool servers are told to migrate
//	snapshot := S.Export(thread, m)
//	D.Stage(snapshot)              the calls are frozen there
//	D.Commit(thread, m)            they go on at D
//	S.Commit(thread, m)            and are no longer S's
//
// Up to the commit at D, D.Abort makes it forget what it has, and S.Abort takes everything back: nothing is lost, and what
// was held has its effect at S. Whoever drives the move has to see to it that both programs hear the same of the two. A step that
// a program cannot make where the thread is, such as an abort behind a commit, is refused with [ErrMove].
// So if each program is durable, whoever drives the move can be killed at any point and ask again: each step of a migration is
// done once, and asked for again it has the reply that it had. A second attempt needs another name. Names may begin with
// a number and a dot, see [Program.Stage].
//
// Of source and destination together each call is resolved once. What reaches S later is
// forwarded, see [ProgramOptions].Forward; while a thread is away, new calls of it are
// resolved by [ByClosure] and it must not be closed. It can come back, by another migration.
func (p *Program) Freeze(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Freeze}, &move{})
	return err
}

// Export returns what there is of a frozen thread. From now on the destination may have it.
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

// Stage takes in a thread that another program has exported, with what was held there. Nothing of it goes on before
// [Program.Commit]; its calls are not dispatched, since the source has done that and forwards what came of it.
//
// Where names of migrations begin with a number and a dot, a migration with a larger number takes the place of one that was staged
// and not committed, and one with a smaller number is refused. Among names without numbers the first has to be aborted.
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

// Commit ends a move: at the destination the thread goes on, with what was held, and at the source its calls belong to the
// other program, prompts are withdrawn, and what comes for them is forwarded.
func (p *Program) Commit(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Commit}, &move{})
	return err
}

// Abort takes a move back: at the source the thread goes on, with what was held, and the destination forgets what it has of it.
func (p *Program) Abort(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: handover.Abort}, &move{})
	return err
}

// Relay takes in what another program has forwarded, see [ProgramOptions].Forward. What is
// relayed again, as after a crash of either side, is taken once. An event that is none of a call, or lacks what
// its kind has, is an error, as in [Program.Deliver].
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

// relays are the inputs that were relayed.
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

// step does one step and waits for its reply.
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

// answerMoves makes the outputs in which steps of moves are answered.
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

// A Forwarded is an input of a call that is elsewhere, for [ProgramOptions].Forward.
type Forwarded struct {
	Key       CallKey
	Migration string // the one by which the call went
	Number    uint64 // tells those of a call apart
	Relayed   Relayed
}
