package toolserver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/agentproto/internal/tracing"
	"github.com/millrace/millrace/agentproto/internal/values"
)

// A call is one run, in this process, of the function of an accepted invocation, or of the producer
// of its subscription. Everything durable about the invocation is in the flow.
type call struct {
	server   *Server
	at       tools.Place
	id       tools.CallID
	job      tools.Job
	inv      *agentproto.Invocation
	tool     *tool // nil if there is none of that name
	tokenKey TokenKey
	fn       *running.Function

	failed bool            // the result is an error
	ctx    context.Context // of the function; ends when the function does
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	suspended bool              // the next process, or another instance, continues the call
	ended     bool              // the function has returned, or the producer has sent its final event
	state     []byte            // of the subscription, as stored
	asked     map[string]int    // how often each question was asked in this run
	steps     map[string][]byte // stored steps; nil if they are not known yet
	sent      map[string]string // the key under which the loss of a request to the user is reported, by name of the request
	refused   string            // an access token that the function must not get
	latest    string            // the access token that the function got last
	refusals  []refusal         // what [Authorize] was told, without immediate repetitions
}

func (s *Server) newCall(ctx context.Context, at tools.Place, j tools.Job) *call {
	c := &call{server: s, at: at, id: j.Call, job: j, inv: j.Inv, state: j.State}
	c.fn = running.NewFunction(at, j, c.suspend)
	ctx, c.cancel = s.stoppable(ctx, at, j.Number)
	c.ctx = context.WithValue(ctx, callContextKey{}, c)
	c.tokenKey = TokenKey{Runtime: c.id.Runtime, User: userOf(c.inv)}
	s.mu.Lock()
	c.tool = s.byName[c.inv.Operation]
	s.mu.Unlock()
	return c
}

// userOf returns the owner of a call's tokens. An invocation that does not name its user must not
// use the tokens of other unnamed users, so its tokens belong to its conversation.
func userOf(inv *agentproto.Invocation) string {
	switch {
	case inv.UserID != nil && *inv.UserID != "":
		return authorize.UserPrefix + *inv.UserID
	case len(inv.ThreadAncestors) > 0:
		return authorize.ThreadPrefix + inv.ThreadAncestors[0]
	default:
		return authorize.ThreadPrefix + inv.GroupID
	}
}

type callContextKey struct{}

// callOf returns the call whose tool function was given ctx.
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

// Arguments returns the arguments of the call that ctx was made for. It is how the producer of a
// subscription reads them; In is the type that the tool takes. It panics if ctx is not derived from
// the function's.
func Arguments[In any](ctx context.Context) (in In, err error) {
	if in, err = values.Arguments[In](callOf(ctx, "Arguments").inv.Arguments); err != nil {
		err = errors.New("the arguments of the call are not those of the tool any more")
	}
	return in, err
}

// IdempotencyKey returns a text of 64 characters that is the same whenever the function of this
// call runs, in this process or a later one, and differs for every other call. A function that runs
// again passes it to an operation that must happen only once, such as a payment. It panics if ctx
// is not derived from the function's.
func IdempotencyKey(ctx context.Context) string {
	d := callOf(ctx, "IdempotencyKey").id.Digest()
	return hex.EncodeToString(d[:])
}

// run runs the function of a call, or the producer of its subscription.
func (s *Server) run(ctx context.Context, at tools.Place, j tools.Job) tools.Outcome {
	s.local.Acknowledged(ctx, j.Call)
	if _, stopped := s.flow.Ports.Stops.Get(tools.StopKey{Place: at, Number: j.Number}); stopped {
		return tools.Outcome{Suspended: true}
	}
	if j.Kind == tools.Produce && j.By != s.epoch {
		return tools.Outcome{Suspended: true, By: s.epoch} // this process has only an older state
	}
	ctx, span := tracing.Start(ctx, s.opts.Tracer, agentproto.SpanStart{Name: agentproto.SpanRun, Parent: j.Trace, Key: j.Inv.Key(), Operation: j.Inv.Operation})
	c := s.newCall(ctx, at, j)
	s.local.Enter(c.fn)
	var o tools.Outcome
	switch {
	case j.Kind == tools.Produce:
		o = c.produce()
	case c.tool != nil && c.tool.runOnce && j.By != s.epoch:
		o = c.outcome(returned{result: c.errorResult(errRestarted)})
	default:
		o = c.outcome(c.call())
	}
	span.End(c.ending(o))
	c.cancel(nil)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	if o.Suspended && !errors.Is(context.Cause(c.ctx), ErrMoving) {
		s.local.Suspended(c.fn)
		s.local.Leave(c.fn)
		<-ctx.Done() // a job without an outcome is done again
		return o
	}
	s.local.Leave(c.fn)
	return o
}

// ending returns how the span of a run describes its outcome.
func (c *call) ending(o tools.Outcome) (outcome string, failed bool) {
	switch cause := context.Cause(c.ctx); {
	case o.Suspended:
		return "is run again by the next process", false
	case cause != nil:
		return cause.Error(), true
	case c.failed:
		return "returned an error", true
	}
	return "returned", false
}

// A returned is the result of running a tool's function.
type returned struct {
	result *agentproto.ToolResult
	state  []byte // of the opened subscription, or nil
	err    error  // the error that the result was made from, if any
}

// call runs the tool.
func (c *call) call() returned {
	out, err := c.output()
	if err == nil {
		var r returned
		if opening, ok := out.(opening); ok {
			out, r.state = opening.out, opening.state
		}
		if r.result, err = values.ResultOf(c.inv, out); err == nil && c.server.guard.Finds(r.state) {
			err = errLeak
		}
		if err == nil {
			r.result.Subscription = r.state != nil
			return r
		}
	}
	return returned{result: c.errorResult(err), err: err}
}

// encode makes a message of the call.
func (c *call) encode(msg agentproto.Callback) (*tools.Message, error) {
	return c.server.messages.Make(msg, c.inv)
}

func (c *call) errorResult(err error) *agentproto.ToolResult {
	return agentproto.ErrorResult(c.inv.Key(), c.inv.CallID, "%s", strings.TrimPrefix(err.Error(), "Error: "))
}

// outcome returns the outcome of a call whose function has returned.
func (c *call) outcome(r returned) tools.Outcome {
	if errors.Is(context.Cause(c.ctx), ErrCancelled) {
		return tools.Outcome{} // nobody waits for the result
	}
	if errors.Is(r.err, ErrMoving) || errors.Is(r.err, ErrClosing) && c.server.opts.State != "" || c.isSuspended() {
		return tools.Outcome{Suspended: true}
	}
	c.failed = r.result.IsError()
	clean := c.server.messages.Clean(r.result, c.inv).(*agentproto.ToolResult)
	if !clean.Subscription {
		r.state = nil // the runtime would not expect its events
	}
	m, err := c.server.messages.Pack(clean)
	if err != nil {
		r.state = nil
		if m, err = c.server.messages.Pack(c.errorResult(err)); err != nil {
			return tools.Outcome{} // logged already; the ids were decoded, so an error result can be encoded
		}
	}
	return tools.Outcome{Result: m, Subscribe: r.state != nil, State: r.state}
}

// output checks the call, gets authorization if the tool needs it, and runs the tool's function. It
// runs the function again after a new authorization if the token was refused.
func (c *call) output() (any, error) {
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
	if c.tool.need.provider == nil {
		return call()
	}
	return c.authorized(call)
}

// badArguments returns an error that says which argument is wrong.
func badArguments(err error) error {
	var ae *agentproto.ArgumentError
	if errors.As(err, &ae) && ae.Argument != "" {
		return fmt.Errorf("argument %q: %s", ae.Argument, ae.Reason)
	} else if ae != nil {
		return fmt.Errorf("arguments: %s", ae.Reason)
	}
	return errors.New("the arguments are not valid")
}

// post sends a message of the function to the flow. The message is durable when post returns nil.
func (c *call) post(ctx context.Context, p tools.Post) error {
	_, err := c.posted(ctx, p)
	return err
}

// posted is like post and returns the flow's answer.
func (c *call) posted(ctx context.Context, p tools.Post) (tools.Told, error) {
	if err := c.postable(); err != nil {
		return tools.Told{}, err
	}
	if err := context.Cause(ctx); err != nil {
		return tools.Told{}, err
	}
	if p.Message != nil {
		var err error
		if p.Credit, err = c.fn.Spend(ctx, len(p.Message.Body)+256); err != nil {
			return tools.Told{}, err
		}
	}
	p.Call = c.id
	told, err := c.server.flow.Ask(c.at, tools.In{Post: &p})
	switch {
	case err != nil && c.server.isClosing():
		return tools.Told{}, ErrClosing
	case err != nil:
		c.server.log.Error("message is not in the state", "tool", c.inv.Operation, "error", err)
		return tools.Told{}, running.ErrFlow
	case told.Refused == tools.RefusedOver:
		return tools.Told{}, ErrCancelled
	case told.Refused == tools.RefusedSteps:
		return tools.Told{}, errSteps
	case told.Refused != "":
		return tools.Told{}, errEnded
	}
	return told, nil
}

// postable returns an error if nothing may be posted.
func (c *call) postable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch cause := context.Cause(c.ctx); {
	case c.suspended:
		return ErrClosing
	case c.ended:
		return errEnded
	case cause != nil && !errors.Is(cause, context.Canceled):
		return cause
	}
	return nil
}

// suspend ends the run because the next process, or another instance, continues the call.
func (c *call) suspend(cause error) {
	c.mu.Lock()
	c.suspended = true
	c.mu.Unlock()
	c.cancel(cause)
}

func (c *call) isSuspended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.suspended
}

var errPanicked = errors.New("the tool failed unexpectedly")

// protect runs the tool's function in a goroutine of its own, which the function may end. A panic,
// or a [runtime.Goexit], becomes an error with fixed words; the details go only to the log.
func (c *call) protect(f func() (any, error)) (out any, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if returned {
				return
			}
			what := fmt.Sprint(recover()) // nil if it ended its goroutine
			if c.server.guard.Finds([]byte(what)) {
				what = redacted
			}
			c.server.log.Error("tool panicked", "tool", c.tool.manifest.Name, "panic", what, "stack", string(debug.Stack()))
			out, err = nil, errPanicked
		}()
		out, err = f()
		returned = true
	}()
	<-done
	return out, err
}
