package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// An Event is one message of a subscription.
type Event struct {
	// Text is shown to the model.
	Text string
	// Inline shows the event in the thread that subscribed. Otherwise the runtime
	// opens a child thread for it.
	Inline bool
	// Final marks the last event, which ends the subscription.
	Final bool
}

// A Subscription is a call that goes on sending events after its result. Its state is a value of the tool's
// own, for example the position up to which a feed was read. Its methods are safe for concurrent use.
type Subscription[S any] struct {
	call  *call
	state S // guarded by call.mu

	sending sync.Mutex
}

// AddSubscription adds a tool that opens subscriptions. It takes two functions.
//
// Open is called for each invocation, like the function of [AddWithOptions]. It returns the result and the
// initial state of the subscription. A nil state gives an answer without opening a subscription, and an error
// becomes an error result.
//
// Produce is called after that, and sends events until its context ends. With [Options.State] it is called
// again after a restart, with the state of the last [Subscription.Send] or [Subscription.Save]. So everything
// that it needs to continue must be in the state, which is stored as JSON, or in the [Invocation]. At most one
// call of produce per subscription runs at a time.
//
// The context of produce ends with [ErrCancelled] when the subscription is cancelled, its thread is closed or
// its callback_url is gone, and with [ErrClosing] when the server is closed. It also ends after a final event.
// What produce returns after that does not matter. If produce returns earlier, the subscription ends with a
// final event that says so or, if produce returned an error, contains the error. A panic is reported with fixed
// words.
//
// AddSubscription panics where [Add] does, and if produce is nil.
func AddSubscription[In, Out, S any](
	s *Server, name, description string, opts ToolOptions,
	open func(ctx context.Context, in In) (out Out, state *S, err error),
	produce func(ctx context.Context, sub *Subscription[S]) error,
) {
	if open == nil || produce == nil {
		panic(fmt.Sprintf("toolserver: AddSubscription: tool %q has no function", name))
	}
	f := func(ctx context.Context, in In) (any, error) { return opened(open(ctx, in)) }
	add(s, "AddSubscription", name, description, opts, f, producer(name, produce))
}

// opened returns the value that a tool's function returns, wrapped in an opening if it opened a subscription.
func opened[Out, S any](out Out, state *S, err error) (any, error) {
	if err != nil || state == nil {
		return out, err
	}
	data, err := encodeState(state)
	return opening{out, data}, err
}

// producer returns the function that produces the events of a call.
func producer[S any](name string, produce func(ctx context.Context, sub *Subscription[S]) error) func(c *call) error {
	return func(c *call) error {
		sub := &Subscription[S]{call: c}
		if err := json.Unmarshal(c.state, &sub.state); err != nil {
			c.server.log.Error("state of a subscription cannot be read", "tool", name, "error", err)
			return errState
		}
		return produce(c.ctx, sub)
	}
}

// An opening is the return value of a tool's function that opens a subscription.
type opening struct {
	out   any
	state []byte
}

var (
	errLeak       = errors.New("the state of the subscription had a credential in it")
	errState      = errors.New("the state of the subscription cannot be used")
	errNoProducer = errors.New("the tool server has no such subscription any more")
)

func encodeState(state any) ([]byte, error) {
	data, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errState, err)
	}
	return data, nil
}

// State returns the state of the last Send or Save, or the initial state.
func (sub *Subscription[S]) State() S {
	sub.call.mu.Lock()
	defer sub.call.mu.Unlock()
	return sub.state
}

// Send sends an event and sets the state to next, atomically: after a restart the producer finds the state that
// matches the events it has sent. When Send returns nil, the event will be delivered, after the ones before it.
//
// Send waits while 1,000 messages of the subscription, or 4 MiB, are undelivered. It returns the cause of ctx
// if that ends first, and [ErrCancelled] or [ErrClosing] if the context of the producer has ended for that
// reason. It returns other errors after a final event, if next contains a credential or cannot be written as
// JSON, or if the state could not be stored. If it returns an error, nothing is sent.
func (sub *Subscription[S]) Send(ctx context.Context, e Event, next S) error {
	data, err := encodeState(next)
	if err != nil {
		return err
	}
	c := sub.call
	if c.server.guard.Finds(data) {
		return errLeak // the state is stored, and moved, as it is
	}
	m, err := c.encode(c.event(e))
	if err != nil {
		return err
	}
	sub.sending.Lock() // states have the order of the events
	defer sub.sending.Unlock()
	if err := c.post(ctx, tools.Post{Message: m, Event: true, Final: e.Final, Kept: true, State: data}); err != nil {
		return err
	}
	c.mu.Lock()
	sub.state = next
	c.ended = c.ended || e.Final
	c.mu.Unlock()
	if e.Final {
		c.cancel(errEnded)
	}
	return nil
}

// Save sets the state to next without sending an event.
func (sub *Subscription[S]) Save(next S) error {
	data, err := encodeState(next)
	if err != nil {
		return err
	}
	c := sub.call
	if c.server.guard.Finds(data) {
		return errLeak
	}
	sub.sending.Lock()
	defer sub.sending.Unlock()
	if err := c.post(c.ctx, tools.Post{Kept: true, State: data}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sub.state = next
	return nil
}

// event returns the message of an event.
func (c *call) event(e Event) *agentproto.SubscriptionEvent {
	return &agentproto.SubscriptionEvent{
		GroupID: c.inv.GroupID, ToolCallID: c.inv.ID,
		Text: strings.ToValidUTF8(e.Text, "\uFFFD"), Associative: e.Inline, Final: e.Final,
	}
}

// produce runs the producer of a call that has opened a subscription. If the producer returns while the
// subscription is open, produce ends the subscription with a final event.
func (c *call) produce() tools.Outcome {
	if c.server.isClosing() {
		c.suspend(ErrClosing)
	}
	var err error
	if !c.isSuspended() {
		err = errNoProducer
		if c.tool != nil && c.tool.produce != nil {
			_, err = c.protect(func() (any, error) { return nil, c.tool.produce(c) })
		}
	}
	switch cause := context.Cause(c.ctx); {
	case errors.Is(cause, errEnded), errors.Is(cause, ErrCancelled):
		return tools.Outcome{}
	case c.isSuspended() || errors.Is(cause, ErrClosing):
		return tools.Outcome{Suspended: true}
	}
	last := Event{Text: "The subscription has ended.", Final: true}
	if err != nil {
		last.Text = c.errorResult(err).String()
	}
	m, err := c.encode(c.event(last))
	if err != nil {
		last.Text = "Error: " + err.Error()
		m, _ = c.server.messages.Pack(c.event(last))
	}
	return tools.Outcome{Final: m}
}
