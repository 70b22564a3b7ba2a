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

// A ThreadEvent is something that happens in a thread, for those who watch it: see [Thread.Watch].
// Of the fields below Kind those are set that its comment names.
type ThreadEvent struct {
	Kind    ThreadEventKind
	Message *conversation.Message // of WatchedMessage
	State   *ThreadState          // of WatchedState
	Prompts []OpenPrompt          // of WatchedPrompts: all that are open in the thread
	View    *ThreadView           // of WatchedView
	Delta   *ThreadDelta          // of WatchedDelta and WatchedReset
}

// A ThreadEventKind says what a [ThreadEvent] is.
type ThreadEventKind uint8

// The kinds of events of a thread.
const (
	WatchedMessage ThreadEventKind = iota + 1 // a message of the history
	WatchedState                              // where the thread stands is another than before
	WatchedPrompts                            // what the user is asked is another than before
	WatchedView                               // a view shows something else
	WatchedDelta                              // the model has written more
	WatchedReset                              // what the model has written in Delta.Round is void
)

// A ThreadState is where a thread stands.
type ThreadState struct {
	Asking  bool          // the model is being asked
	Pending []PendingCall // calls without a result, in the order in which they were made
	Usage   conversation.Usage
	Models  map[string]conversation.Usage // Usage by the name of the model
	Closed  bool
}

// A PendingCall is a call that has no result yet.
type PendingCall struct {
	ID        string
	Operation string
	State     agentproto.State
}

// A ThreadView is what a view of a thread shows. Content is {} if it was cleared.
type ThreadView struct {
	Type    string
	Content jsontext.Value
}

// A ThreadDelta is what a model has written in a round, or that it is void.
type ThreadDelta struct {
	Round   uint64
	Attempt int // of asking the model in this round
	// Seq is the number of the delta in the attempt, as this watcher sees it. 0 begins the text and
	// the calls anew.
	Seq int
	conversation.Delta
}

// How often a thread is looked at that nothing is heard of. What this process decides is heard of at once.
const lookAgain = time.Second

// Watch returns what happens in a thread: its messages from number from on, those that are kept
// and those to come; and beside them where it stands, what its user is asked and what its views show,
// at first as it is and then whenever it changes, and what the model writes while it does.
//
// Messages are the only truth: they are numbered, come in order, once each, and a watcher that was cut off
// goes on behind the last one it has. The others have no numbers and are not kept. A state comes behind the messages that were
// there then, but for the first one: who sees that the model is not asked any longer has its answer. A watcher that
// is slow misses states between two others, and gets larger deltas. Deltas of a round come after
// the messages that the model was asked with; a message of the user's or the model's takes
// their place. They come only in the process that asks the model, and after a restart the model is
// asked again. The first event is the state.
//
// The sequence ends behind the message that says that the thread is closed, with an error when ctx ends, the
// runtime stops or the thread moves away ([conversation.ErrMoved]). For a thread that was never opened it is
// [conversation.ErrUnknownThread]. It can be read once, and no goroutine is left when the reader stops.
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

// A watching is a [Thread.Watch] under way.
type watching struct {
	t     *Thread
	yield func(ThreadEvent, error) bool
	live  *live.Watcher
	next  int // number of the next message

	said    bool // the state was told once
	state   ThreadState
	asked   bool
	prompts []OpenPrompt
}

// run returns why the watching has ended, or nil if nothing is to be said of it.
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

// A followed is what comes of [Thread.Follow].
type followed struct {
	message conversation.Message
	err     error
}

// quiet returns no error for a reader that has stopped.
func quiet(err error) error {
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// begin tells how things are.
func (w *watching) begin(ctx context.Context, st conversation.Status) error {
	if err := w.tellState(w.stateOf(ctx, st.Pending, ThreadState{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed})); err != nil {
		return err
	}
	if err := w.tellPrompts(); err != nil {
		return err
	}
	return w.tellViews(st.Views)
}

// loop tells what happens.
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

// ended returns why there are no more messages, although the thread is not closed.
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

// look tells what is another than before. Of a thread of another process it asks the flow where it
// stands if there was a message, since that is a step.
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
	case err != nil, !found && !message: // a step goes on, or nothing is known to have happened
	case !found:
		st, err := w.t.Status(ctx)
		if err == nil && st.Messages <= w.next {
			err = w.tellState(w.stateOf(ctx, st.Pending, ThreadState{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed}))
		}
		if err != nil {
			return err
		}
	case st.Place == "gone":
		return conversation.ErrMoved
	case st.Messages > w.next: // these come first, and the thread is looked at again behind them
	default:
		if err := w.tellState(w.stateOf(ctx, st.Calls, ThreadState{Asking: st.Asking, Usage: st.Usage, Models: st.Models, Closed: st.Closed})); err != nil {
			return err
		}
	}
	return w.tellPrompts()
}

// stateOf returns st with what is pending, and where these calls stand.
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
