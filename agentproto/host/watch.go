package host

import (
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/live"
)

// A ThreadEvent is something that happens in a thread, for [Thread.Watch]. The fields whose comments name its Kind are set.
type ThreadEvent struct {
	Kind    ThreadEventKind
	Message *conversation.Message // of WatchedMessage
	State   *ThreadState          // of WatchedState
	Prompts []OpenPrompt          // of WatchedPrompts: all that are open in the thread
	View    *ThreadView           // of WatchedView
	Delta   *ThreadDelta          // of WatchedDelta and WatchedReset
}

// A ThreadEventKind is the kind of a [ThreadEvent].
type ThreadEventKind uint8

// The kinds of events of a thread.
const (
	WatchedMessage ThreadEventKind = iota + 1 // a message of the history
	WatchedState                              // the state of the thread has changed
	WatchedPrompts                            // the open prompts have changed
	WatchedView                               // the content of a view has changed
	WatchedDelta                              // the model has written more
	WatchedReset                              // what the model has written so far in Delta.Round is void
)

// A ThreadState is the state of a thread.
type ThreadState struct {
	Asking  bool          // the model is being asked
	Pending []PendingCall // calls without a result, in the order in which they were made
	Usage   conversation.Usage
	Models  map[string]conversation.Usage // Usage by the name of the model
	Closed  bool
}

// A PendingCall is a call without a result.
type PendingCall struct {
	ID        string
	Operation string
	State     agentproto.State
}

// A ThreadView is the content of a view of a thread. Content is {} if it was cleared.
type ThreadView struct {
	Type    string
	Content jsontext.Value
}

// A ThreadDelta is a part of what a model writes in a round, or says that what it wrote is void.
type ThreadDelta struct {
	Round   uint64
	Attempt int // the number of the attempt in this round
	// Seq is the number of the delta in the attempt, as this watcher receives it. A Seq of 0 starts the text and the calls anew.
	Seq int
	conversation.Delta
}

// lookAgain is how often the state of a thread is polled. Changes by this process are noticed at once.
const lookAgain = time.Second

// Watch returns what happens in a thread: its messages from number from on, both the kept ones and new ones; its state, its open
// prompts and its views, first as they are and then whenever they change; and what the model writes while it writes.
//
// Only messages are reliable: they are numbered, arrive in order, once each, and a watcher that was disconnected can continue
// after the last one it has. The other events have no numbers and are not stored. Except for the first one, a state comes after
// the messages that existed at that time: a watcher that sees that the model is no longer asked already has the model's answer. A
// slow watcher misses intermediate states and gets larger deltas. Deltas of a round come after the messages that the model was
// asked with; the next message of the user or the model replaces them. They exist only in the process that asks the model, and
// after a restart the model is asked again. The first event is the state.
//
// The sequence ends after the message that closes the thread, or with an error: when ctx ends, the runtime stops or the thread
// moves away ([conversation.ErrMoved]), or [conversation.ErrUnknownThread] if the thread was never opened. It can be read once.
// When the reader stops, no goroutine is left behind.
func (t *Thread) Watch(ctx context.Context, from int) iter.Seq2[ThreadEvent, error] {
	return func(yield func(ThreadEvent, error) bool) {
		w := watching{t: t, next: from, yield: yield, live: t.rt.live.Watch(t.id)}
		defer w.live.Close()
		if err := w.run(ctx); err != nil {
			yield(ThreadEvent{}, err)
		}
	}
}

// errLeft says that the reader has stopped.
var errLeft = errors.New("left")

// A watching is a running [Thread.Watch].
type watching struct {
	t     *Thread
	yield func(ThreadEvent, error) bool
	live  *live.Watcher
	next  int // number of the next message

	said    bool // the state was sent at least once
	state   ThreadState
	asked   bool
	prompts []OpenPrompt
}

// run returns the error that ends the sequence, or nil for none.
func (w *watching) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := w.t.Status(ctx)
	switch {
	case err != nil:
		return err
	case st.Session == nil:
		return conversation.ErrUnknownThread
	case st.Moved:
		return conversation.ErrMoved
	}
	if err := w.begin(ctx, st); err != nil {
		return quiet(err)
	}
	if st.Closed && w.next >= st.Messages {
		return nil
	}
	messages := make(chan followed)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(messages)
		for m, err := range w.t.Follow(ctx, w.next) {
			select {
			case messages <- followed{m, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	return quiet(w.loop(ctx, messages))
}

// A followed is a value of [Thread.Follow].
type followed struct {
	message conversation.Message
	err     error
}

// quiet returns nil if the reader has stopped, otherwise err.
func quiet(err error) error {
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// begin sends the present state, prompts and views.
func (w *watching) begin(ctx context.Context, st conversation.Status) error {
	if err := w.tellState(w.stateOf(ctx, st.Pending, ThreadState{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed})); err != nil {
		return err
	}
	if err := w.tellPrompts(); err != nil {
		return err
	}
	return w.tellViews(st.Views)
}

// loop sends events until the sequence ends.
func (w *watching) loop(ctx context.Context, messages <-chan followed) error {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		var err error
		select {
		case m, ok := <-messages:
			if !ok {
				return w.ended(ctx)
			}
			if m.err != nil {
				return m.err
			}
			err = w.tellMessage(ctx, m.message)
			if err == nil && m.message.Kind == conversation.Closed {
				return nil
			}
		case <-w.live.Changed():
			err = w.look(ctx, false)
		case <-look.C:
			err = w.look(ctx, false)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// ended returns why there are no more messages although the thread is not closed.
func (w *watching) ended(ctx context.Context) error {
	if err := w.t.rt.converses(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrStopped
}

func (w *watching) tellMessage(ctx context.Context, m conversation.Message) error {
	w.next = m.N + 1
	if m.Kind == conversation.Assistant || m.Kind == conversation.User || m.Kind == conversation.Closed {
		w.live.Superseded(m.N)
	}
	if err := w.tell(ThreadEvent{Kind: WatchedMessage, Message: &m}); err != nil || m.Kind == conversation.Closed {
		return err
	}
	return w.look(ctx, true)
}

// look sends what has changed. If another process has the thread, look asks the flow for its state only after a message, because
// each request is a step.
func (w *watching) look(ctx context.Context, message bool) error {
	changed := w.live.Next(w.next)
	for _, p := range changed.Parts {
		e := ThreadEvent{Kind: WatchedDelta, Delta: &ThreadDelta{p.Round, p.Attempt, p.Seq, p.Delta}}
		if p.Reset {
			e.Kind = WatchedReset
		}
		if err := w.tell(e); err != nil {
			return err
		}
	}
	if err := w.tellViews(changed.Views); err != nil {
		return err
	}
	switch st, found, err := w.t.rt.ThreadStanding(ctx, w.t.id); {
	case err != nil, !found && !message: // a step is in progress, or nothing is known to have happened
	case !found:
		st, err := w.t.status(ctx)
		if err == nil && st.Messages <= w.next {
			err = w.tellState(w.stateOf(ctx, st.Pending, ThreadState{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed}))
		}
		if err != nil {
			return err
		}
	case st.Place == "gone":
		return conversation.ErrMoved
	case st.Messages > w.next: // the messages come first, and look runs again after them
	default:
		if err := w.tellState(w.stateOf(ctx, st.Calls, ThreadState{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed})); err != nil {
			return err
		}
	}
	return w.tellPrompts()
}

// stateOf returns st with the pending calls and their states.
func (w *watching) stateOf(ctx context.Context, pending []conversation.Pending, st ThreadState) ThreadState {
	for _, p := range pending {
		call := PendingCall{ID: p.Call.ID, Operation: p.Call.Name}
		if p.Authorizing {
			call.State = agentproto.OAuthPending
		}
		if now, found, err := w.t.rt.CallStanding(ctx, agentproto.CallKey{GroupID: w.t.id, ID: p.Call.ID}); err == nil && found {
			call.State = now.State
		}
		st.Pending = append(st.Pending, call)
	}
	return st
}

func (w *watching) tellState(st ThreadState) error {
	if w.said && reflect.DeepEqual(st, w.state) {
		return nil
	}
	w.said, w.state = true, st
	return w.tell(ThreadEvent{Kind: WatchedState, State: &st})
}

func (w *watching) tellPrompts() error {
	prompts := slices.DeleteFunc(w.t.rt.Prompts(), func(p OpenPrompt) bool { return p.Key.GroupID != w.t.id })
	if w.asked && reflect.DeepEqual(prompts, w.prompts) || !w.asked && len(prompts) == 0 {
		return nil
	}
	w.asked, w.prompts = true, prompts
	return w.tell(ThreadEvent{Kind: WatchedPrompts, Prompts: prompts})
}

func (w *watching) tellViews(views map[string]jsontext.Value) error {
	for _, kind := range slices.Sorted(maps.Keys(views)) {
		content := views[kind]
		if content == nil {
			content = jsontext.Value("{}")
		}
		if err := w.tell(ThreadEvent{Kind: WatchedView, View: &ThreadView{kind, content}}); err != nil {
			return err
		}
	}
	return nil
}

func (w *watching) tell(e ThreadEvent) error {
	if !w.yield(e, nil) {
		return errLeft
	}
	return nil
}
