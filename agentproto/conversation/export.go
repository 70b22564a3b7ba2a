package conversation

import "context"

// An Export is everything there is of a thread, to be made one elsewhere: its history, its
// subscriptions, what waits, and the numbers and identifiers that were used. It can be
// encoded, as CBOR and as JSON.
//
// A session moves thread by thread, its root and then the children in [State].Children,
// closed ones too:
//
//  1. [Program.Freeze] at the source. The model is not asked any further, and what
//     happens to calls, subscriptions and users waits.
//  2. [Program.Export], when the calls of the thread are frozen too. From then on the
//     thread refuses what the user says with [ErrMoved].
//  3. [Program.Import] at the destination, where the thread is frozen still, then its
//     calls, then [Program.Thaw], which does what waited and asks the model again.
//  4. [Program.Moved] at the source. From then on the thread is unknown there but for
//     its name.
//
// Until 4, [Program.Thaw] at the source is the way back.
type Export struct {
	Thread   string
	State    *State
	Messages []Message
}

// Freeze stops a thread until [Program.Thaw]. A frozen thread takes in what happens and
// does nothing about it. Freezing it twice is fine.
func (p *Program) Freeze(ctx context.Context, thread string) error {
	_, err := p.tell(ctx, thread, input{Kind: frozen})
	return err
}

// Thaw lets a frozen thread go on with what waited, in order.
func (p *Program) Thaw(ctx context.Context, thread string) error {
	_, err := p.tell(ctx, thread, input{Kind: thawed})
	return err
}

// Export returns a frozen thread as soon as nothing that it wanted done is under way. It
// returns [ErrNotFrozen] for another one.
func (p *Program) Export(ctx context.Context, thread string) (*Export, error) {
	a, err := p.tell(ctx, thread, input{Kind: exported})
	if err != nil {
		return nil, err
	}
	a.Export.Messages, err = p.read(ctx, thread, a.Export.State.Kept, 0, a.Export.State.Messages)
	return a.Export, err
}

// Import makes a thread of an export. It is frozen until [Program.Thaw]. Importing it
// twice is fine. A thread that is here already stays as it is; one that has moved away
// comes back.
func (p *Program) Import(ctx context.Context, e *Export) error {
	_, err := p.tell(ctx, e.Thread, input{Kind: opened, Import: e.State, Messages: e.Messages})
	return err
}

// Moved says that a frozen thread lives elsewhere now. What it is told is refused with
// [ErrMoved] from then on, and its history stays readable.
func (p *Program) Moved(ctx context.Context, thread string) error {
	_, err := p.tell(ctx, thread, input{Kind: moved})
	return err
}
