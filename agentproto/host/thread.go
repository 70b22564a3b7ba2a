package host

import (
	"context"
	"crypto/rand"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// A Thread is a thread of a conversation, open or not. Its methods may be used by any
// number of goroutines, in any process that shares the runtime's state. They return
// [ErrNoModel] where there are no conversations, [conversation.ErrUnknownThread] for a
// thread that was never opened or is no longer kept, [conversation.ErrClosedThread] for one
// that is closed. What is kept of a thread, and how long, is in [conversation.Limits].
type Thread struct {
	rt *Runtime
	id string
}

// Thread returns the thread with an identifier.
func (rt *Runtime) Thread(id string) *Thread { return &Thread{rt, id} }

// ID returns the thread's identifier.
func (t *Thread) ID() string { return t.id }

// Say tells the thread what the user says. It returns when that is kept, not when the
// model has answered. What is going on in the thread is interrupted by it: the model is
// asked anew, and pending calls are cancelled.
func (t *Thread) Say(ctx context.Context, text string) error {
	if err := t.rt.converses(); err != nil {
		return err
	}
	return programError(t.rt.threads.Say(ctx, t.id, text))
}

// SayOnce is Say for a text that is said again when its answer was lost: see [conversation.Program.SayOnce].
func (t *Thread) SayOnce(ctx context.Context, name, text string) (again bool, err error) {
	if err := t.rt.converses(); err != nil {
		return false, err
	}
	again, err = t.rt.threads.SayOnce(ctx, t.id, name, text)
	return again, programError(err)
}

// Interrupt ends what is going on in the thread. It is at rest then until the user says
// something or something comes in.
func (t *Thread) Interrupt(ctx context.Context) error {
	return t.do(ctx, (*conversation.Program).Interrupt)
}

// Close closes the thread and its children: what is pending is resolved, prompts are
// withdrawn, and the tool servers are told, once for each thread. Closing it twice is fine.
func (t *Thread) Close(ctx context.Context) error {
	return t.do(ctx, (*conversation.Program).Close)
}

// OpenChild opens a child thread and returns when it is open. An empty id is a new random
// one, of a thread that is kept with its session: see [agentproto.SessionOf]. If text is not empty, that is what is said in it first.
func (t *Thread) OpenChild(ctx context.Context, id, text string) (*Thread, error) {
	if err := t.rt.converses(); err != nil {
		return nil, err
	}
	if id == "" {
		id = agentproto.InSession(t.id, rand.Text())
	}
	if err := capability.CheckID("child thread", id); err != nil {
		return nil, err
	}
	if err := t.rt.threads.OpenChild(ctx, t.id, id, text); err != nil {
		return nil, programError(err)
	}
	return t.rt.Thread(id), nil
}

// CancelSubscription ends a subscription of the thread, named by the call that opened it.
func (t *Thread) CancelSubscription(ctx context.Context, callID string) error {
	if err := t.rt.converses(); err != nil {
		return err
	}
	return programError(t.rt.threads.CancelSubscription(ctx, t.id, callID))
}

// Status returns what the thread stands at: pending calls, subscriptions, views.
func (t *Thread) Status(ctx context.Context) (conversation.Status, error) {
	if err := t.rt.converses(); err != nil {
		return conversation.Status{}, err
	}
	st, err := t.rt.threads.Status(ctx, t.id)
	return st, programError(err)
}

// History returns the messages of the thread that are kept, what was there before a restart
// included.
func (t *Thread) History(ctx context.Context) ([]conversation.Message, error) {
	if err := t.rt.converses(); err != nil {
		return nil, err
	}
	messages, err := t.rt.threads.History(ctx, t.id, 0)
	return messages, programError(err)
}

// Views returns the latest content of each view of the thread by its type, for who begins
// to look later; what changes from then on, the surface is shown. They survive a restart.
// Cases V01, V03.
func (t *Thread) Views(ctx context.Context) (map[string]jsontext.Value, error) {
	st, err := t.Status(ctx)
	return st.Views, err
}

// Prompts returns the choices that are open in the thread, by their calls: for who begins to
// look later (case U08). [Runtime.Answer] takes the answers.
func (t *Thread) Prompts() []*agentproto.UserChoice { return t.rt.display.ChoicesOf(t.id) }

// do tells the thread something that needs nothing else.
func (t *Thread) do(ctx context.Context, tell func(*conversation.Program, context.Context, string) error) error {
	if err := t.rt.converses(); err != nil {
		return err
	}
	return programError(tell(t.rt.threads, ctx, t.id))
}

// Follow returns the messages of the thread from number from on: those there are, and
// those to come as they come. It ends behind the message that says that the thread is
// closed, and with an error when ctx ends or the runtime stops.
func (t *Thread) Follow(ctx context.Context, from int) iter.Seq2[conversation.Message, error] {
	return func(yield func(conversation.Message, error) bool) {
		if err := t.rt.converses(); err != nil {
			yield(conversation.Message{}, err)
			return
		}
		for m, err := range t.rt.threads.Follow(ctx, t.id, from) {
			if !yield(m, programError(err)) {
				return
			}
		}
	}
}
