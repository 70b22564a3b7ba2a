package conversation

import (
	"context"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// An Export is the complete state of a thread, from which another host can continue it: its history, its subscriptions, its
// queues, and the numbers and identifiers in use. It can be encoded as CBOR and as JSON.
//
// A session moves thread by thread: its root and then the children in [State].Children, including closed ones. Each migration has
// a name, as in [agentproto.Program.Freeze]:
//
//  1. [Program.Freeze] at the source. The model is no longer asked, and inputs from calls, subscriptions and users wait.
//  2. [Program.Export] at the source, after the calls of the thread are frozen too. From then on the thread refuses what the
//     user says with [ErrMoved].
//  3. [Program.Stage] at the destination, where the thread does not run yet. Then its calls are staged. Then [Program.Commit],
//     which handles the waiting inputs and asks the model again.
//  4. [Program.Commit] at the source. From then on the source knows only the name of the thread.
//
// Up to the commit at the destination, [Program.Abort] at both takes the move back.
type Export struct {
	Thread   string
	State    *State // its Move names the migration
	Messages []Message
}

// move makes a thread do one step of a migration.
func (p *Program) move(ctx context.Context, thread, migration string, step handover.Step) (answer, error) {
	return p.send(ctx, thread, input{Kind: moves, Step: uint8(step), Migration: migration})
}

// Freeze stops a thread until [Program.Commit] or [Program.Abort]. A frozen thread accepts its inputs and holds them. Freezing a
// thread twice has no further effect.
func (p *Program) Freeze(ctx context.Context, thread, migration string) error {
	_, err := p.move(ctx, thread, migration, handover.Freeze)
	return err
}

// Export returns a frozen thread as soon as none of its actions is in progress. It returns [ErrNotMoving] for a thread that is
// not frozen.
func (p *Program) Export(ctx context.Context, thread, migration string) (*Export, error) {
	a, err := p.move(ctx, thread, migration, handover.Send)
	if err != nil {
		return nil, err
	}
	a.Export.Messages, err = p.read(ctx, thread, a.Export.State.Kept, 0, a.Export.State.Messages)
	return a.Export, err
}

// Stage creates a thread from an export. The thread does not run until [Program.Commit]. Staging it twice has no further effect.
// If a thread with that name exists here, Stage leaves it unchanged and returns an error; a thread that has moved away comes
// back.
func (p *Program) Stage(ctx context.Context, e *Export) error {
	_, err := p.send(ctx, e.Thread, input{
		Kind: moves, Step: uint8(handover.Stage), Migration: e.State.Move.Transfer, Import: e.State, Messages: e.Messages,
	})
	return err
}

// Commit ends a migration. At the destination the thread goes on with the inputs that waited, in order. At the source all further
// inputs are refused with [ErrMoved], and the history stays readable.
func (p *Program) Commit(ctx context.Context, thread, migration string) error {
	_, err := p.move(ctx, thread, migration, handover.Commit)
	return err
}

// Abort takes a migration back. At the source the thread goes on with the inputs that waited, in order. At the destination it is
// forgotten.
func (p *Program) Abort(ctx context.Context, thread, migration string) error {
	_, err := p.move(ctx, thread, migration, handover.Abort)
	return err
}
