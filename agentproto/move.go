package agentproto

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// ErrMove is returned for a step of a move that a thread is not in the phase for. The text
// says which it is in.
var ErrMove = errors.New("the thread cannot do this step of a move now")

// A moveStep is one step of moving a thread.
type moveStep uint8

const (
	stepFreeze moveStep = iota + 1
	stepThaw
	stepExport
	stepRelease
	stepResume
	stepRelay
)

func (s moveStep) String() string {
	return [...]string{"none", "freezing", "thawing", "exporting", "releasing", "resuming", "relaying to"}[s]
}

// A moveKey names a step, so that it is done once however often it is asked for.
type moveKey struct {
	GroupID   string
	Migration string
	Step      moveStep
	ID        string // of stepResume and stepRelay: the call
	Number    uint64 // of stepRelay
}

// A move is what a step needs to know.
type move struct {
	Now      time.Time     // of stepExport and stepResume
	Snapshot *CallSnapshot // of stepResume
	Relayed  *Relayed      // of stepRelay
}

// A ThreadSnapshot is what moves of a thread.
type ThreadSnapshot struct {
	GroupID   string
	Migration string
	Calls     []*CallSnapshot // in the order in which they were made
	// Closed says that the thread was closed, before it was frozen or since: when it is
	// thawed at the destination it has to be closed there.
	Closed bool
}

// A CallSnapshot is one call, complete in itself: it can be encoded by any codec that keeps
// fields, such as that of package durable, and resumed elsewhere by [Call].Resumed.
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

	// Held is what came while the call was frozen, in order. It has its effect when the
	// thread is thawed.
	Held []Relayed
}

// An OpenDetour is what a call asks of its user at present. Its OAuth is as the runtime
// gave it to the program: one whose AuthURL is sealed has to be opened by who sealed it, and
// sealed by the destination, before it is resumed.
type OpenDetour struct {
	ID       string
	OAuth    *OAuth
	Choice   *UserChoice
	Lifetime time.Duration // of the event that opened it
}

// A Relayed is an input that one program passes on to another.
type Relayed struct {
	Event   Event
	Outcome DispatchOutcome // of an invocation that was not accepted
}

// Freeze begins to move a thread away. From now on what happens to its calls has no effect
// but is held, timers that end too, until [Program.Thaw] or [Program.Release]. It returns
// when that is so; a runtime answers callbacks 503 from then on, so that little is held
// (doc/protocol.md §10.4).
//
// A move of a thread from program S to program D is, in this order:
//
//	S.Freeze(thread, m)            and the tool servers are told to migrate
//	snapshot := S.Export(thread, m)
//	D.Call(Call{Resumed: c})       for each of snapshot.Calls; they are frozen there
//	S.Release(thread, m)           the point of no return
//	D.Thaw(thread, m)              the calls go on at D
//
// Up to the release S.Thaw takes everything back: nothing is lost, and what was held has
// its effect at S; D.Release makes D forget what it has resumed. From the release on
// there is only one way, and S.Thaw is refused. So if each program is durable, whoever
// drives the move can be killed at any point and ask again: each step of a migration is
// done once, and asked for again it has the reply that it had. A second attempt needs
// another name.
//
// Of source and destination together each call is resolved once. What reaches S later is
// forwarded, see [ProgramOptions].Forward; while a thread is away, new calls of it are
// resolved by [ByClosure] and it must not be closed. It can come back, by another migration.
func (p *Program) Freeze(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: stepFreeze}, &move{})
	return err
}

// Thaw lets the calls of a frozen thread go on, with what was held: at the source to take a
// migration back, at the destination to complete it. A thread that is not frozen stays as it
// is. It returns when that is so.
func (p *Program) Thaw(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: stepThaw}, &move{})
	return err
}

// Export returns what there is of a frozen thread. It stays frozen, and can be thawed until
// it is released.
func (p *Program) Export(ctx context.Context, groupID, migration string) (*ThreadSnapshot, error) {
	r, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: stepExport}, &move{Now: p.now()})
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

// Release gives up a thread that was exported and that the destination has: its calls are
// not this program's any more, prompts are withdrawn, and what comes for them is forwarded.
// Of a thread that was resumed here and not thawed it makes the program forget what it has.
func (p *Program) Release(ctx context.Context, groupID, migration string) error {
	_, err := p.step(ctx, moveKey{GroupID: groupID, Migration: migration, Step: stepRelease}, &move{})
	return err
}

// Relay takes in what another program has forwarded, see [ProgramOptions].Forward. What is
// relayed again, as after a crash of either side, is taken once. An event that is none of a call, or lacks what
// its kind has, is an error, as in [Program.Deliver].
func (p *Program) Relay(ctx context.Context, f *Forwarded) error {
	if err := f.Relayed.Event.check(notAccepted); err != nil {
		return err
	}
	k := moveKey{GroupID: f.Key.GroupID, Migration: f.Migration, Step: stepRelay, ID: f.Key.ID, Number: f.Number}
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

// resume takes in a call that another program has exported, and what it had held.
func (p *Program) resume(ctx context.Context, s *CallSnapshot) error {
	k := moveKey{GroupID: s.Key.GroupID, Migration: s.Migration, Step: stepResume, ID: s.Key.ID}
	if _, err := p.step(ctx, k, &move{Now: p.now(), Snapshot: s}); err != nil {
		return err
	}
	for i, r := range s.Held {
		if err := p.Relay(ctx, &Forwarded{s.Key, s.Migration, uint64(i + 1), r}); err != nil {
			return err
		}
	}
	return nil
}

// HasResumed reports whether a call was resumed by a migration. It is like [Program.Has].
func (p *Program) HasResumed(ctx context.Context, key CallKey, migration string) (bool, error) {
	return p.moves.Has(ctx, moveKey{GroupID: key.GroupID, Migration: migration, Step: stepResume, ID: key.ID})
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
		return nil, fmt.Errorf("agentproto: %s thread %q for migration %q: %w", k.Step, k.GroupID, k.Migration, err)
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
