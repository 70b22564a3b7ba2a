package conversation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// ProgramOptions are the settings of a [Program].
type ProgramOptions struct {
	// Do performs the actions of threads. It is required.
	Do Do
	// Concurrency is how many actions are performed at once. Zero means 65,536: an action may take as long as a model takes, and
	// most of them only wait.
	Concurrency int
	// Limits bound the resources of a thread.
	Limits Limits
}

// A Program is the threads of a runtime as part of the flow of its calls: the decision about a call and its effect on the thread
// are one step of one history.
//
//	inputs ────────┐                               ┌─ messages: the history, an entry each
//	calls.Effects ─┴─ a machine for each thread ───┼─ answers
//	                    │ actions ▲ outcomes       └─ emissions
//	                    └── Do ───┘
//
// It has no locks, so that a simulator can try every order of inputs. The state is bounded: see [Limits].
type Program struct {
	inputs   *dataflow.SharedKeyedInputPort[agentproto.ThreadID, input]
	messages *dataflow.EntryOutputPort[position, Message]
	answers  *dataflow.EntryOutputPort[request, answer]
}

// A request identifies an input whose sender waits for an answer.
type request struct{ Thread, Token string }

// A position identifies a message.
type position struct {
	Thread string
	N      int
}

// Affinity returns the session of the thread, which partitions the answer.
func (r request) Affinity() string { return agentproto.SessionOf(r.Thread) }

// Affinity returns the session of the thread, which partitions the message.
func (p position) Affinity() string { return agentproto.SessionOf(p.Thread) }

type (
	inputsAt  = dataflow.UnorderedKeyedStream[agentproto.ThreadID, input, agentproto.Host]
	emittedAt = dataflow.OrderedKeyedStream[agentproto.ThreadID, emission, agentproto.Host]
)

// NewProgram builds the threads on a program of calls that has not started. It panics without a Do.
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
	p.inputs, inputs = keyedstream.SharedInput[agentproto.ThreadID, input](at, "threads")
	m := machine{opts.Limits.withDefaults()}
	emitted, _ := keyedstream.CallingMachine(keyedstream.Merge(ofCalls(calls), inputs), newState, m.step, m.fire,
		keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[agentproto.ThreadID, Action]) Outcome {
			return *opts.Do(ctx, string(c.Key), &c.Request)
		}, m.answer, keyedstream.CallOptions{Concurrency: opts.Concurrency}),
		"a thread handles what happens to it one by one, in the order in which the runtime sees it")
	p.messages = keyedsingleton.Output(histories(emitted), "history")
	p.answers = keyedsingleton.Output(answers(emitted), "answers")
	return p
}

// histories returns the messages of the threads, each for as long as its thread keeps it.
func histories(emitted emittedAt) dataflow.KeyedSingleton[position, Message, agentproto.Host, bounds.RetainedValue] {
	type turn = keyedstream.TimedTurn[position, struct{}, Message]
	lines := ordered(emitted, lineOf, "a message is written before it is dropped")
	_, kept := keyedstream.TimedMachine(lines, func() struct{} { return struct{}{} }, func(_ *struct{}, l line, do *turn) {
		switch {
		case l.Message == nil && l.Keep == 0:
			do.Forget()
		case l.Message == nil:
			do.ForgetAfter(l.Keep)
		case l.Back: // cancels an earlier timer that would forget it
			do.ForgetAfter(never)
			fallthrough
		default:
			do.Decide(*l.Message)
		}
	}, func(*struct{}, keyedstream.Timer, *turn) {}, "who reads while a message is dropped has it or not")
	return kept
}

// answers returns the answers that the senders of inputs wait for.
func answers(emitted emittedAt) dataflow.KeyedSingleton[request, answer, agentproto.Host, bounds.RetainedValue] {
	return keyedstream.FirstWithin(ordered(emitted, answerOf, "a token is used once, so each key has one value"),
		keyedstream.Retain{For: unreadAnswer}, "nobody waits for an answer that long after it was given, and a token is used once")
}

// unreadAnswer is how long an unread answer is kept.
const unreadAnswer = 10 * time.Minute

// ordered returns what pick selects from the emissions of the threads, under the keys that pick returns.
func ordered[K comparable, V any](
	emitted emittedAt, pick func(thread string, e emission) (K, V, bool), why dataflow.NonDet,
) dataflow.OrderedKeyedStream[K, V, agentproto.Host] {
	found := dataflow.FilterMap(keyedstream.Entries(emitted), func(e dataflow.Entry[agentproto.ThreadID, emission]) (dataflow.Entry[K, V], bool) {
		k, v, ok := pick(string(e.Key), e.Value)
		return dataflow.Entry[K, V]{Key: k, Value: v}, ok
	})
	return keyedstream.AssumeOrder(dataflow.Keyed(found), why)
}

func lineOf(thread string, e emission) (position, line, bool) {
	if e.Line == nil {
		return position{}, line{}, false
	}
	return position{thread, e.Line.N}, *e.Line, true
}

func answerOf(thread string, e emission) (request, answer, bool) {
	if e.Answer == nil {
		return request{}, answer{}, false
	}
	return request{thread, e.Answer.Token}, *e.Answer, true
}

// ofCalls returns the effects of calls as inputs of their threads.
func ofCalls(calls *agentproto.Program) inputsAt {
	told := keyedstream.FilterMapWithKey(calls.Effects(), ofEffect)
	return keyedstream.Rekey(told, func(k agentproto.CallKey, _ input) agentproto.ThreadID { return agentproto.ThreadID(k.GroupID) })
}

// ofEffect returns an effect of a call as an input of its thread.
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
	// ErrMoved says that a thread has moved away or is moving.
	ErrMoved = errors.New("conversation: the thread has moved")
	// ErrNotMoving says that a thread cannot do this step of a migration in its present state. The text names the state.
	ErrNotMoving = errors.New("conversation: the thread cannot do this step of a move now")
	// ErrTooManyChildren says that a thread has the maximum number of children: see [Limits].
	ErrTooManyChildren = errors.New("conversation: the thread has too many children")
	// ErrBadName says that the name of a text is invalid: see [Program.SayOnce].
	ErrBadName = errors.New("conversation: the name of a text has 1 to 256 bytes")
	// ErrNoSubscription says that a thread has no such subscription.
	ErrNoSubscription = errors.New("conversation: the thread has no such subscription")
)

// send sends an input to a thread and returns its answer.
func (p *Program) send(ctx context.Context, thread string, in input) (answer, error) {
	in.Token = rand.Text()
	if err := p.inputs.Send(ctx, agentproto.ThreadID(thread), in); err != nil {
		return answer{}, err
	}
	a, err := p.answers.Take(ctx, request{thread, in.Token})
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
	case refusedNoSubscr:
		err = ErrNoSubscription
	case refusedChildren:
		err = ErrTooManyChildren
	default:
		err = fmt.Errorf("%w: %s", ErrNotMoving, a.Status.Refused)
	}
	if err != nil {
		return a, fmt.Errorf("thread %q: %w", thread, err)
	}
	return a, nil
}

// Open opens a root thread if it is not open already. It returns the session of the thread, which is the one it was first opened
// with.
func (p *Program) Open(ctx context.Context, s Session) (*Session, error) {
	a, err := p.send(ctx, s.ID, input{Kind: opened, Session: &s})
	return a.Status.Session, err
}

// OpenChild opens a child of a thread and returns when it is open. If text is not empty, it is the first thing the user says in
// the child. If the child exists already, nothing changes.
func (p *Program) OpenChild(ctx context.Context, parent, id, text string) error {
	if _, err := p.send(ctx, parent, input{Kind: openChild, Thread: id, Text: text}); err != nil {
		return err
	}
	_, err := p.messages.Await(ctx, position{id, 0})
	return err
}

// Say sends a message of the user to a thread. It returns when the message is stored, not when the model has answered. The
// message interrupts whatever is in progress in the thread.
func (p *Program) Say(ctx context.Context, thread, text string) error {
	_, err := p.send(ctx, thread, input{Kind: said, Text: strings.ToValidUTF8(text, "\uFFFD")})
	return err
}

// SayOnce is like [Program.Say] for a text that may be sent again because the answer was lost. Of several texts with the same
// name in one thread, the first counts and the others change nothing. A name has 1 to 256 bytes. SayOnce reports whether the name
// was used before. The last 64 names are remembered, across restarts and moves of the thread.
func (p *Program) SayOnce(ctx context.Context, thread, name, text string) (again bool, err error) {
	if name == "" || len(name) > maxOnce {
		return false, fmt.Errorf("%w: it has %d bytes", ErrBadName, len(name))
	}
	a, err := p.send(ctx, thread, input{Kind: said, Text: strings.ToValidUTF8(text, "\uFFFD"), Once: strings.ToValidUTF8(name, "\uFFFD")})
	return a.Again, err
}

// maxOnce is the maximum length of a name for [Program.SayOnce].
const maxOnce = 256

// Interrupt ends whatever is in progress in a thread: the model is no longer asked, and every pending call is cancelled.
func (p *Program) Interrupt(ctx context.Context, thread string) error {
	_, err := p.send(ctx, thread, input{Kind: interrupted})
	return err
}

// Close closes a thread and its children. Closing a thread twice has no further effect.
func (p *Program) Close(ctx context.Context, thread string) error {
	_, err := p.send(ctx, thread, input{Kind: closed})
	return err
}

// CancelSubscription ends a subscription of a thread, named by the call that opened it.
func (p *Program) CancelSubscription(ctx context.Context, thread, callID string) error {
	_, err := p.send(ctx, thread, input{Kind: unsubscribed, Call: callID})
	return err
}

// View replaces the content of a view of a thread. If the thread is unknown or closed, the content is dropped and the error is
// nil. If the thread is moving, the error is [ErrMoved].
func (p *Program) View(ctx context.Context, v *agentproto.ViewUpdate) error {
	_, err := p.send(ctx, v.GroupID, input{Kind: viewed, View: v})
	if errors.Is(err, ErrUnknownThread) || errors.Is(err, ErrClosedThread) {
		return nil
	}
	return err
}

// Status returns the state of a thread. It reflects every input that was accepted before.
func (p *Program) Status(ctx context.Context, thread string) (Status, error) {
	a, err := p.send(ctx, thread, input{Kind: asked})
	return a.Status, err
}

// History returns the kept messages of a thread whose numbers are at least from. It is empty for a thread that was never opened
// or is no longer kept.
func (p *Program) History(ctx context.Context, thread string, from int) ([]Message, error) {
	st, err := p.Status(ctx, thread)
	if err != nil {
		return nil, err
	}
	return p.read(ctx, thread, st.Kept, from, st.Messages)
}

// read returns the kept messages from number from up to, but not including, number to.
func (p *Program) read(ctx context.Context, thread string, kept Kept, from, to int) ([]Message, error) {
	var all []Message
	for n := kept.next(from); n < to; n = kept.next(n + 1) {
		m, err := p.messages.Await(ctx, position{thread, n})
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Follow returns the messages of a thread from number from on, first the kept ones and then new ones as they arrive. It ends
// after the message that closes the thread, after an error, or with the error of ctx. A reader that falls behind what is kept
// misses messages; the gaps in the numbers show it.
func (p *Program) Follow(ctx context.Context, thread string, from int) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		st, err := p.Status(ctx, thread) // waiting for a message that is gone would take minutes
		if err != nil {
			yield(Message{}, err)
			return
		}
		for n := from; ; n++ {
			if n < st.Messages {
				n = st.Kept.next(n)
			}
			m, err := p.await(ctx, thread, n)
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(m, err) || err != nil || m.Kind == Closed {
				return
			}
			n = m.N
		}
	}
}

// await returns message n of a thread, or the next one that is kept.
func (p *Program) await(ctx context.Context, thread string, n int) (Message, error) {
	for {
		waiting, cancel := context.WithTimeout(ctx, droppedMessage/2)
		m, err := p.messages.Await(waiting, position{thread, n})
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return m, err
		}
		st, err := p.Status(ctx, thread)
		if err != nil {
			return Message{}, err
		}
		if st.Session != nil {
			n = st.Kept.next(n)
		}
	}
}
