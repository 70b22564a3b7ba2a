package toolserver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A phase says how far a call is.
type phase string

const (
	running    phase = "running"    // its function has not returned
	subscribed phase = "subscribed" // it has its result, and events may follow
	resolved   phase = "resolved"   // its last message is there, but not delivered
	finished   phase = "finished"   // nothing more is sent; this one is not kept
)

// A call is an accepted invocation.
//
// It maintains:
//
//  1. phases only advance, and a result is posted in the transition out of
//     running: there is at most one, and none after a cancellation,
//  2. a message is in the store before it is in the queue, and is removed from the
//     store after it was removed from the queue, in the order in which messages
//     were posted; while there are any, posting is set and one goroutine delivers
//     them,
//  3. what the store has of the call is never behind what was sent: the phase
//     changes in the same update as the message that shows it,
//  4. the call is known to the server until ended is set and posting is not.
type call struct {
	server   *Server
	key      callKey
	id       digest // of key; its name in the store
	inv      *agentproto.Invocation
	tool     *tool // nil if there is none of that name
	tokenKey TokenKey
	accepted time.Time

	life   context.Context // of the messages; ends when nothing more is to be sent
	cut    context.CancelCauseFunc
	ctx    context.Context // of the function; ends with it
	cancel context.CancelCauseFunc

	over, removed sync.Once
	returned      chan struct{} // closed when the function, or producer, has returned
	gone          chan struct{} // closed when the server has forgotten the call
	answered      chan struct{} // closed when the result was delivered, or will not be
	settled       sync.Once     // closes answered

	kept    chan struct{} // closed when it is known whether the call is in the store
	keptErr error         // if it is not; set before kept is closed

	// mu is held while the store is updated, so that updates of one call have an
	// order. Those of different calls are written together.
	mu        sync.Mutex
	phase     phase
	address   *address
	addresses []string // the ones before, as brief has them; the latest last
	suspended bool     // the next process, or another instance, goes on with it
	moving    bool     // its messages are no longer for this process
	queue     []*message
	number    uint64        // of the last message
	space     chan struct{} // closed when the queue gets shorter; nil if nobody waits
	posting   bool
	ended     bool
	state     []byte         // of the subscription, as it is in the store
	asked     map[digest]int // how often a question was asked in this run
	refused   Secret         // the access token that the function must not get
	latest    Secret         // the access token that it got
}

func newCall(s *Server, key callKey, inv *agentproto.Invocation, callback *url.URL) *call {
	c := &call{server: s, key: key, id: key.digest(), inv: inv, address: newAddress(inv.CallbackURL, callback),
		accepted: time.Now(), phase: running, kept: make(chan struct{}),
		returned: make(chan struct{}), gone: make(chan struct{}), answered: make(chan struct{})}
	c.life, c.cut = context.WithCancelCause(s.ctx)
	ctx, cancel := context.WithCancelCause(c.life)
	c.ctx, c.cancel = context.WithValue(ctx, callContextKey{}, c), cancel
	c.tokenKey = TokenKey{Runtime: key.runtime, User: userOf(inv)}
	return c
}

// userPrefix begins what [TokenKey.User] is for an invocation that names its user.
const userPrefix = "user:"

// userOf returns whom the tokens of a call belong to. An invocation that does not
// name its user must not use the tokens of other users it does not name, so they
// belong to its conversation.
func userOf(inv *agentproto.Invocation) string {
	switch {
	case inv.UserID != nil && *inv.UserID != "":
		return userPrefix + *inv.UserID
	case len(inv.ThreadAncestors) > 0:
		return "thread:" + inv.ThreadAncestors[0]
	default:
		return "thread:" + inv.GroupID
	}
}

type callContextKey struct{}

// callOf returns the call that a tool function was given ctx for.
func callOf(ctx context.Context, op string) *call {
	c, ok := ctx.Value(callContextKey{}).(*call)
	if !ok {
		panic("toolserver: " + op + ": the context is not one of a tool function")
	}
	return c
}

// Invocation returns the invocation that a tool function is running for. It must
// not be changed. It panics if ctx is not derived from the function's.
func Invocation(ctx context.Context) *agentproto.Invocation {
	return callOf(ctx, "Invocation").inv
}

// Arguments returns the arguments of the call that ctx was made for. The producer of
// a subscription has no other way to them; In is what the tool takes. It panics if
// ctx is not derived from the function's.
func Arguments[In any](ctx context.Context) (in In, err error) {
	if in, err = unmarshal[In](callOf(ctx, "Arguments").inv.Arguments); err != nil {
		err = errors.New("the arguments of the call are not those of the tool any more")
	}
	return in, err
}

// IdempotencyKey returns a text of 64 characters that is the same whenever the
// function of this call runs, in this process or a later one, and another for every
// other call. A function that runs again gives it to what it must do once only,
// such as a payment. It panics if ctx is not derived from the function's.
func IdempotencyKey(ctx context.Context) string {
	c := callOf(ctx, "IdempotencyKey")
	return hex.EncodeToString(c.id[:])
}

// run does the work of the call. It is written with defer because a function may
// end its goroutine.
func (c *call) run() {
	defer c.end()
	defer c.produce()
	r := returned{result: c.errorResult(errPanicked)}
	defer func() { c.resolve(r) }()
	r = c.call()
}

// end notes that nothing will be posted any more.
func (c *call) end() {
	c.cancel(nil)
	c.mu.Lock()
	c.ended = true
	done := !c.posting
	c.mu.Unlock()
	c.over.Do(func() { close(c.returned) })
	if done {
		c.server.remove(c)
	}
}

// A returned is what comes of running a tool's function.
type returned struct {
	result *agentproto.ToolResult
	state  []byte // of the subscription that is opened, or nil
	err    error  // what the result was made from, if it was made from an error
}

// call runs the tool.
func (c *call) call() returned {
	out, err := c.output()
	if err == nil {
		var r returned
		if opening, ok := out.(opening); ok {
			out, r.state = opening.out, opening.state
		}
		if r.result, err = resultOf(c.inv, out); err == nil && c.server.guard.finds(r.state) {
			err = errLeak
		}
		if err == nil {
			r.result.Subscription = r.state != nil
			return r
		}
	}
	return returned{result: c.errorResult(err), err: err}
}

func (c *call) errorResult(err error) *agentproto.ToolResult {
	return agentproto.ErrorResult(c.key.CallKey, c.inv.CallID, "%s", strings.TrimPrefix(err.Error(), "Error: "))
}

// output checks the call, gets authorization if the tool needs it, and runs the
// tool's function, again after a new authorization if its token was refused.
func (c *call) output() (any, error) {
	if c.server.hasMoved(c) {
		return nil, errMoved
	}
	if c.tool == nil {
		return nil, fmt.Errorf("unknown tool %q", c.inv.Operation)
	}
	args := c.inv.Arguments
	if args == nil || args.Kind() == 'n' {
		args = jsontext.Value("{}")
	}
	if err := c.tool.schema.Validate(args); err != nil {
		return nil, badArguments(err)
	}
	call := func() (any, error) {
		return c.protect(func() (any, error) { return c.tool.call(c.ctx, args) })
	}
	if c.tool.provider == nil {
		return call()
	}
	return c.authorized(call)
}

// badArguments says which argument is wrong.
func badArguments(err error) error {
	var ae *agentproto.ArgumentError
	if errors.As(err, &ae) && ae.Argument != "" {
		return fmt.Errorf("argument %q: %s", ae.Argument, ae.Reason)
	} else if ae != nil {
		return fmt.Errorf("arguments: %s", ae.Reason)
	}
	return errors.New("the arguments are not valid")
}

var errPanicked = errors.New("the tool failed unexpectedly")

// protect runs the tool's function. A panic, or a [runtime.Goexit], becomes an
// error with fixed words; what it was is for the log only.
func (c *call) protect(f func() (any, error)) (out any, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		what := fmt.Sprint(recover()) // nil if it ended its goroutine
		if c.server.guard.finds([]byte(what)) {
			what = redacted
		}
		c.server.log.Error("tool panicked", "tool", c.tool.manifest.Name, "panic", what, "stack", string(debug.Stack()))
		out, err = nil, errPanicked
	}()
	out, err = f()
	returned = true
	return out, err
}

// resolve posts the result of the call, unless it was cancelled, or another process
// will run the function again.
func (c *call) resolve(r returned) {
	if errors.Is(r.err, ErrClosing) && c.server.store.durable() {
		c.suspend(ErrClosing)
		return
	}
	m, err := c.server.encode(c, r.result)
	if err != nil {
		c.server.log.Error("result withheld", "tool", c.inv.Operation, "error", err)
		r.state = nil
		// These words are fixed, and every call has a result, so nothing is looked for in them.
		if m, err = c.server.pack(c, c.errorResult(err)); err != nil {
			return // it was logged; the ids were decoded, so they can be encoded
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != running || c.suspended {
		return
	}
	next := resolved
	if r.state != nil {
		next = subscribed
	}
	if err := c.advance(m, next, r.state); err != nil {
		// The runtime waits for this, so it is sent all the same. If the process ends
		// before it is delivered, the function runs again.
		c.server.log.Error("result is not in the store", "tool", c.inv.Operation, "error", err)
		c.phase = resolved
		c.enqueue(m)
	}
}

// advance posts a message that takes the call into another phase, with the state of
// its subscription. c.mu is held.
func (c *call) advance(m *message, next phase, state []byte) error {
	record, err := c.record(next)
	if err != nil {
		return err
	}
	var kept int64
	if err := c.put(m, func(tx tx) (err error) {
		if kept = 0; m.kind == agentproto.TypeToolResult {
			if kept, err = c.server.keepResult(tx, c.id, m.body); err != nil {
				return err
			}
		}
		if state != nil {
			if err := tx.put(subscriptionBucket, c.id[:], state); err != nil {
				return err
			}
		}
		return tx.put(callBucket, c.id[:], record)
	}); err != nil {
		return err
	}
	c.server.resultBytes.Add(kept)
	c.phase = next
	if state != nil {
		c.state = state
	}
	return nil
}

// abandon ends the call because nobody wants to hear of it any more: its function's
// context ends and nothing more is sent. A call that has posted its last message is
// left alone, unless the address for it is gone.
func (c *call) abandon(gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == finished || c.phase == resolved && !gone {
		return
	}
	c.phase = finished
	if err := c.forget(); err != nil && c.server.ctx.Err() == nil {
		c.server.log.Error("the end of a call is not in the store", "tool", c.inv.Operation, "error", err)
	}
	c.cut(ErrCancelled)
	c.cancel(ErrCancelled)
}

// suspend ends the call in this process and leaves it in the store as it is.
// Messages that it has posted are still delivered while there is time.
func (c *call) suspend(cause error) {
	c.mu.Lock()
	c.suspended = true
	c.mu.Unlock()
	c.cancel(cause)
}
