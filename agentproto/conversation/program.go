package conversation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// ProgramOptions are the settings of a [Program].
type ProgramOptions struct {
	// Do performs what threads want done. It is required.
	Do Do
	// Concurrency is how many actions are performed at once. Zero means 65,536: an
	// action may take as long as a model does, and many wait for nothing else.
	Concurrency int
	// Limits bound what a thread does.
	Limits Limits
}

// A Program is the threads of a runtime as part of the flow of its calls: what is decided
// about a call and what its thread makes of that are one step of one history.
//
//	inputs ────────┐                               ┌─ messages: the history, an entry each
//	posts ─────────┼─ Scan(step) for each thread ──┼─ answers
//	calls.Effects ─┤                               └─ actions ─ MapAsync(Do) ─┐
//	outcomes ◄─────┴──────────────────────────────────────────────────────────┘
//
// It has no locks and no clock, so that a simulator can try every order of what happens.
type Program struct {
	inputs   *dataflow.SharedKeyedInputPort[string, input]
	posts    *dataflow.EntryInputPort[post, input]
	messages *dataflow.EntryOutputPort[position, Message]
	answers  *dataflow.EntryOutputPort[post, answer]
}

// A post names an input that is taken in once, however often it is sent, and the answer
// to an input.
type post struct{ Thread, Token string }

// A position is where a message is.
type position struct {
	Thread string
	N      int
}

// A task names an action.
type task struct {
	Thread string
	Number uint64
}

type (
	inputsAt  = dataflow.KeyedStream[string, input, agentproto.Host, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	emittedAt = dataflow.KeyedStream[string, emission, agentproto.Host, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	fedAt     = dataflow.Entry[string, input]
)

// NewProgram builds the threads on a program of calls that has not started. It panics
// without a Do.
func NewProgram(calls *agentproto.Program, opts ProgramOptions) *Program {
	if opts.Do == nil {
		panic("conversation: NewProgram: threads without Do cannot ask or call anything")
	}
	if opts.Concurrency == 0 {
		opts.Concurrency = 1 << 16
	}
	at := dataflow.At[agentproto.Host](calls.Flow())
	p := &Program{}
	var inputs inputsAt
	var posts dataflow.KeyedSingleton[post, input, agentproto.Host, bounds.BoundedValue]
	p.inputs, inputs = keyedstream.SharedInput[string, input](at, "threads")
	p.posts, posts = keyedsingleton.Input[post, input](at, "posts")
	loop, outcomes := dataflow.Cycle[fedAt, dataflow.NoOrder](at, "outcomes")

	var all inputsAt = keyedstream.Rekey(keyedsingleton.IntoKeyedStream(posts), func(k post, _ input) string { return k.Thread })
	all = keyedstream.Merge(all, dataflow.Keyed(outcomes))
	all = keyedstream.Merge(all, ofCalls(calls))
	all = keyedstream.Merge(all, inputs)
	inOrder := keyedstream.AssumeOrder(all, "a thread handles what happens to it one by one, in the order in which the runtime sees it")
	m := machine{opts.Limits.withDefaults()}
	emitted := keyedstream.Scan(inOrder, newState, m.step)

	p.messages = keyedsingleton.Output(entries(emitted, messageOf), "history")
	p.answers = keyedsingleton.Output(entries(emitted, answerOf), "answers")
	actions := keyedsingleton.MapWithKey(entries(emitted, actionOf), func(k task, a Action) dataflow.Pair[string, Action] {
		return dataflow.Pair[string, Action]{First: k.Thread, Second: a}
	})
	performed := keyedsingleton.MapAsync(actions, func(ctx context.Context, a dataflow.Pair[string, Action]) Outcome {
		return *opts.Do(ctx, a.First, &a.Second)
	}, keyedsingleton.AsyncOptions{Concurrency: opts.Concurrency})
	loop.Complete(dataflow.Map(keyedsingleton.Entries(performed), func(e dataflow.Entry[task, Outcome]) fedAt {
		return fedAt{Key: e.Key.Thread, Value: input{Kind: done, Action: e.Key.Number, Outcome: &e.Value}}
	}))
	return p
}

// entries returns what pick finds in what the threads emit, each under a key of its own.
func entries[K comparable, V any](emitted emittedAt, pick func(thread string, e emission) (K, V, bool)) dataflow.KeyedSingleton[K, V, agentproto.Host, bounds.BoundedValue] {
	found := dataflow.FilterMap(keyedstream.Entries(emitted), func(e dataflow.Entry[string, emission]) (dataflow.Entry[K, V], bool) {
		k, v, ok := pick(e.Key, e.Value)
		return dataflow.Entry[K, V]{Key: k, Value: v}, ok
	})
	return keyedstream.First(keyedstream.AssumeOrder(dataflow.Keyed(found), "what a thread emits is numbered, so each key has one value"))
}

func messageOf(thread string, e emission) (k position, m Message, ok bool) {
	if e.Message == nil {
		return k, m, false
	}
	return position{thread, e.Message.N}, *e.Message, true
}

func answerOf(thread string, e emission) (k post, a answer, ok bool) {
	if e.Answer == nil {
		return k, a, false
	}
	return post{thread, e.Answer.Token}, *e.Answer, true
}

func actionOf(thread string, e emission) (k task, a Action, ok bool) {
	if e.Action == nil {
		return k, a, false
	}
	return task{thread, e.Action.Number}, *e.Action, true
}

// ofCalls returns what happens to the calls, for their threads.
func ofCalls(calls *agentproto.Program) inputsAt {
	told := keyedstream.FilterMapWithKey(calls.Effects(), ofEffect)
	return keyedstream.Rekey(told, func(k agentproto.CallKey, _ input) string { return k.GroupID })
}

// ofEffect returns what an effect of a call is to its thread.
func ofEffect(k agentproto.CallKey, e agentproto.Effect) (input, bool) {
	switch e.Kind {
	case agentproto.Resolve:
		return input{Kind: resolved, Call: k.ID, Resolution: e.Resolution}, true
	case agentproto.SurfaceOAuth:
		return input{Kind: authorizing, Call: k.ID}, true
	case agentproto.PromptChoice:
		return input{Kind: resumed, Call: k.ID}, true
	case agentproto.DeliverEvent:
		event := e.Subscription
		return input{Kind: happened, Event: &Event{
			Call: Call{ID: k.ID}, Text: event.Text, Inline: event.Associative, Final: event.Final,
		}}, true
	case agentproto.SubscriptionEnded:
		return input{Kind: ended, Call: k.ID}, true
	}
	return input{}, false
}

// The errors of a [Program], besides those of its flow.
var (
	// ErrUnknownThread says that a thread was never opened.
	ErrUnknownThread = errors.New("conversation: there is no such thread")
	// ErrClosedThread says that a thread is closed.
	ErrClosedThread = errors.New("conversation: the thread is closed")
	// ErrMoved says that a thread lives elsewhere, or is on its way.
	ErrMoved = errors.New("conversation: the thread has moved")
	// ErrNotFrozen says that a thread has to be frozen first.
	ErrNotFrozen = errors.New("conversation: the thread is not frozen")
	// ErrNoSubscription says that a thread has no such subscription.
	ErrNoSubscription = errors.New("conversation: the thread has no such subscription")
)

// tell gives a thread an input and returns its answer.
func (p *Program) tell(ctx context.Context, thread string, in input) (answer, error) {
	in.Token = rand.Text()
	if err := p.inputs.Send(ctx, thread, in); err != nil {
		return answer{}, err
	}
	a, err := p.answers.Take(ctx, post{thread, in.Token})
	if err != nil {
		return answer{}, err
	}
	switch a.Status.Refused {
	case "":
	case refusedUnknown:
		err = ErrUnknownThread
	case refusedClosed:
		err = ErrClosedThread
	case refusedMoved, refusedMoving:
		err = ErrMoved
	case refusedThawed:
		err = ErrNotFrozen
	case refusedNoSubscr:
		err = ErrNoSubscription
	}
	if err != nil {
		return a, fmt.Errorf("thread %q: %w", thread, err)
	}
	return a, nil
}

// Open opens a root thread, or finds it open. It returns the session that the thread has,
// which is that of who opened it first.
func (p *Program) Open(ctx context.Context, s Session) (*Session, error) {
	return p.opening(ctx, s.ID, input{Kind: opened, Session: &s})
}

func (p *Program) opening(ctx context.Context, thread string, in input) (*Session, error) {
	if err := p.put(ctx, thread, "open", in); err != nil {
		return nil, err
	}
	m, err := p.messages.Await(ctx, position{thread, 0})
	return m.Session, err
}

// put gives a thread an input that it takes in once.
func (p *Program) put(ctx context.Context, thread, token string, in input) error {
	err := p.posts.Put(ctx, post{thread, token}, in)
	if errors.Is(err, dataflow.ErrDuplicateKey) {
		return nil
	}
	return err
}

// OpenChild opens a child of a thread and returns when it is open. If text is not empty,
// that is what is said in it first. Doing it again changes nothing.
func (p *Program) OpenChild(ctx context.Context, parent, id, text string) error {
	if _, err := p.tell(ctx, parent, input{Kind: openChild, Thread: id, Text: text}); err != nil {
		return err
	}
	_, err := p.messages.Await(ctx, position{id, 0})
	return err
}

// Say tells a thread what the user says. It returns when that is kept, not when the model
// has answered. What was going on in the thread is interrupted.
func (p *Program) Say(ctx context.Context, thread, text string) error {
	_, err := p.tell(ctx, thread, input{Kind: said, Text: strings.ToValidUTF8(text, "\uFFFD")})
	return err
}

// Interrupt ends what is going on in a thread: the model is not asked any further, and
// every pending call is cancelled.
func (p *Program) Interrupt(ctx context.Context, thread string) error {
	_, err := p.tell(ctx, thread, input{Kind: interrupted})
	return err
}

// Close closes a thread and its children. Closing a thread twice is fine.
func (p *Program) Close(ctx context.Context, thread string) error {
	_, err := p.tell(ctx, thread, input{Kind: closed})
	return err
}

// CancelSubscription ends a subscription of a thread, named by the call that opened it.
func (p *Program) CancelSubscription(ctx context.Context, thread, callID string) error {
	_, err := p.tell(ctx, thread, input{Kind: unsubscribed, Call: callID})
	return err
}

// View keeps the content of a view of a thread, in place of the one before. A thread that
// is unknown or closed has none, and it is no error.
func (p *Program) View(ctx context.Context, v *agentproto.ViewUpdate) error {
	return p.inputs.Send(ctx, v.GroupID, input{Kind: viewed, View: v})
}

// Status returns what a thread stands at. Whatever was told to the thread before is in it.
func (p *Program) Status(ctx context.Context, thread string) (Status, error) {
	a, err := p.tell(ctx, thread, input{Kind: asked})
	return a.Status, err
}

// History returns the messages of a thread, from number from on. It is empty for a thread
// that was never opened.
func (p *Program) History(ctx context.Context, thread string, from int) ([]Message, error) {
	st, err := p.Status(ctx, thread)
	if err != nil {
		return nil, err
	}
	return p.read(ctx, thread, from, st.Messages)
}

// read returns the messages from number from up to number to, which are there.
func (p *Program) read(ctx context.Context, thread string, from, to int) ([]Message, error) {
	var all []Message
	for n := from; n < to; n++ {
		m, err := p.messages.Await(ctx, position{thread, n})
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Follow returns the messages of a thread from number from on, those there are and those
// to come. It ends behind the one that says that the thread is closed, with an error, and
// with the error of ctx.
func (p *Program) Follow(ctx context.Context, thread string, from int) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for n := from; ; n++ {
			m, err := p.messages.Await(ctx, position{thread, n})
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(m, err) || err != nil || m.Kind == Closed {
				return
			}
		}
	}
}
