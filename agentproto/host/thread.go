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

// A Thread is a thread of a conversation, open or not. Its methods are safe for concurrent use, in any process that shares the
// runtime's state. They return [ErrNoModel] if the runtime holds no conversations, [conversation.ErrUnknownThread] for a thread
// that was never opened or is no longer kept, and [conversation.ErrClosedThread] for a closed one. [conversation.Limits] says
// what is kept of a thread and for how long.
type Thread struct {
	rt *Runtime
	id string
}

// Thread returns the thread with an identifier, which need not exist.
func (rt *Runtime) Thread(id string) *Thread { return &Thread{rt, id} }

// ID returns the thread's identifier.
func (t *Thread) ID() string { return t.id }

// Say sends a message of the user to the thread. It returns when the message is stored, not when the model has answered. The
// message interrupts whatever is in progress in the thread: pending calls are cancelled, and the model is asked anew.
func (t *Thread) Say(ctx context.Context, text string) error {
	if err := t.rt.converses(); err != nil {
		return err
	}
	return programError(t.rt.threads.Say(ctx, t.id, text))
}

// SayOnce is like Say, for a text that may be sent again because the answer was lost: see [conversation.Program.SayOnce].
func (t *Thread) SayOnce(ctx context.Context, name, text string) (again bool, err error) {
	if err := t.rt.converses(); err != nil {
		return false, err
	}
	again, err = t.rt.threads.SayOnce(ctx, t.id, name, text)
	return again, programError(err)
}

// Interrupt ends whatever is in progress in the thread. The thread is then idle until the user says something or an event
// arrives.
func (t *Thread) Interrupt(ctx context.Context) error {
	return t.do(ctx, (*conversation.Program).Interrupt)
}

// Close closes the thread and its children: pending calls are resolved, prompts are withdrawn, and the tool servers are notified,
// once for each thread. Closing it twice has no further effect.
func (t *Thread) Close(ctx context.Context) error {
	return t.do(ctx, (*conversation.Program).Close)
}

// OpenChild opens a child thread and returns when it is open. An empty id means a new random one, in the same session: see
// [agentproto.SessionOf]. If text is not empty, it is the first thing the user says in the child.
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

// Status returns the state of the thread: pending calls, subscriptions, views. The error is [context.DeadlineExceeded] if the flow
// does not answer within [Timeouts].Accept.
func (t *Thread) Status(ctx context.Context) (conversation.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, t.rt.opts.Timeouts.Accept) // on a full disk a step does not end
	defer cancel()
	return t.status(ctx)
}

// status is Status without a timeout.
func (t *Thread) status(ctx context.Context) (conversation.Status, error) {
	if err := t.rt.converses(); err != nil {
		return conversation.Status{}, err
	}
	st, err := t.rt.threads.Status(ctx, t.id)
	return st, programError(err)
}

// History returns the messages of the thread that are kept, including those from before a restart.
func (t *Thread) History(ctx context.Context) ([]conversation.Message, error) {
	if err := t.rt.converses(); err != nil {
		return nil, err
	}
	messages, err := t.rt.threads.History(ctx, t.id, 0)
	return messages, programError(err)
}

// Views returns the latest content of each view of the thread by its type, for a viewer that joins late; the surface receives
// later changes. Views survive a restart. Cases V01, V03.
func (t *Thread) Views(ctx context.Context) (map[string]jsontext.Value, error) {
	st, err := t.Status(ctx)
	return st.Views, err
}

// Prompts returns the open choices of the thread, in the order of their calls' identifiers, for a viewer that joins late (case
// U08). [Runtime.Answer] takes the answers.
func (t *Thread) Prompts() []*agentproto.UserChoice { return t.rt.display.ChoicesOf(t.id) }

// do applies a method of the program that needs only the thread's id.
func (t *Thread) do(ctx context.Context, tell func(*conversation.Program, context.Context, string) error) error {
	if err := t.rt.converses(); err != nil {
		return err
	}
	return programError(tell(t.rt.threads, ctx, t.id))
}

// Follow returns the messages of the thread from number from on, first the existing ones and then new ones as they arrive. It
// ends after the message that closes the thread, or with an error when ctx ends or the runtime stops.
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
