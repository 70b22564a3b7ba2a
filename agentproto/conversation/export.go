package conversation

import (
	"context"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// An Export is everything there is of a thread, to be made one elsewhere: its history, its
// subscriptions, what waits, and the numbers and identifiers that were used. It can be
// encoded, as CBOR and as JSON.
//
// A session moves thread by thread, its root and then the children in [State].Children,
// closed ones too. Each migration has a name, as in [agentproto.Program.Freeze]:
//
//  1. [Program.Freeze] at the source. The model is not asked any further, and what
//     happens to calls, subscriptions and users waits.
//  2. [Program.Export], when the calls of the thread are frozen too. From then on the
//     thread refuses what the user says with [ErrMoved].
//  3. [Program.Stage] at the destination, where nothing of the thread goes on, then its
//     calls, then [Program.Commit], which does what waited and asks the model again.
//  4. [Program.Commit] at the source. From then on the thread is unknown there but for
//     its name.
//
// Up to the commit at the destination, [Program.Abort] at both is the way back.
type Export struct {
	Thread   string
	State    *State // its Move names the migration
	Messages []Message
}

// move has a thread make a step of a migration.
func (p *Program) move(ctx context.Context, thread, migration string, step handover.Step) (answer, error) {
	return p.tell(ctx, thread, input{Kind: moves, Step: uint8(step), Migration: migration})
}

// Freeze stops a thread until [Program.Commit] or [Program.Abort]. A frozen thread takes in what happens and
// does nothing about it. Freezing it twice is fine.
func (p *Program) Freeze(ctx context.Context, thread, migration string) error {
	_, err := p.move(ctx, thread, migration, handover.Freeze)
	return err
}

// Export returns a frozen thread as soon as nothing that it wanted done is under way. It
// returns [ErrNotMoving] for another one.
func (p *Program) Export(ctx context.Context, thread, migration string) (*Export, error) {
	a, err := p.move(ctx, thread, migration, handover.Send)
	if err != nil {
		return nil, err
	}
	a.Export.Messages, err = p.read(ctx, thread, a.Export.State.Kept, 0, a.Export.State.Messages)
	return a.Export, err
}

// Stage makes a thread of an export. Nothing of it goes on until [Program.Commit]. Doing it
// twice is fine. A thread that is here already stays as it is, which is an error; one that has moved away
// comes back.
func (p *Program) Stage(ctx context.Context, e *Export) error {
	_, err := p.tell(ctx, e.Thread, input{
		Kind: moves, Step: uint8(handover.Stage), Migration: e.State.Move.Transfer, Import: e.State, Messages: e.Messages,
	})
	return err
}

// Commit ends a migration. At the destination the thread goes on with what waited, in order. At the source what it
// is told is refused with [ErrMoved] from then on, and its history stays readable.
func (p *Program) Commit(ctx context.Context, thread, migration string) error {
	_, err := p.move(ctx, thread, migration, handover.Commit)
	return err
}

// Abort takes a migration back. At the source the thread goes on with what waited, in order, and at the destination it is
// forgotten.
func (p *Program) Abort(ctx context.Context, thread, migration string) error {
	_, err := p.move(ctx, thread, migration, handover.Abort)
	return err
}
