package toolserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A call is an accepted invocation.
//
// It maintains:
//
//  1. resolved and cancelled are never both set: the first of resolve and abandon
//     wins, so there is at most one result and none after a cancellation,
//  2. messages are in the order in which they were posted, and while there are
//     any, posting is set and one goroutine delivers them,
//  3. the call is known to the server until ended is set and posting is not.
type call struct {
	server   *Server
	key      callKey
	inv      *agentproto.Invocation
	callback *url.URL
	tool     *tool // nil if there is none of that name
	tokenKey TokenKey

	ctx    context.Context // of the function; ends with the call
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	messages  []*message
	posting   bool
	resolved  bool
	cancelled bool
	ended     bool
	refused   Secret // the access token that the function must not get
	latest    Secret // the access token that it got
}

func newCall(s *Server, key callKey, inv *agentproto.Invocation, callback *url.URL) *call {
	c := &call{server: s, key: key, inv: inv, callback: callback}
	ctx, cancel := context.WithCancelCause(s.ctx)
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

// run does the work of the call. It is written with defer because a function may
// end its goroutine.
func (c *call) run() {
	defer c.end()
	r := c.errorResult(errPanicked)
	defer func() { c.resolve(r) }()
	r = c.result()
}

// end notes that nothing will be posted any more.
func (c *call) end() {
	c.cancel(nil)
	c.mu.Lock()
	c.ended = true
	finished := !c.posting
	c.mu.Unlock()
	if finished {
		c.server.finish(c)
	}
}

// result runs the tool and returns what to send.
func (c *call) result() *agentproto.ToolResult {
	out, err := c.output()
	if err == nil {
		var r *agentproto.ToolResult
		if r, err = resultOf(c.inv, out); err == nil {
			return r
		}
	}
	return c.errorResult(err)
}

func (c *call) errorResult(err error) *agentproto.ToolResult {
	return agentproto.ErrorResult(c.key.CallKey, c.inv.CallID, "%s", strings.TrimPrefix(err.Error(), "Error: "))
}

// output checks the call, gets authorization if the tool needs it, and runs the
// tool's function, again after a new authorization if its token was refused.
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
	if c.tool.provider == nil {
		return c.protect(args)
	}
	return c.authorized(func() (any, error) { return c.protect(args) })
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
func (c *call) protect(args jsontext.Value) (out any, err error) {
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
	out, err = c.tool.call(c.ctx, args)
	returned = true
	return out, err
}

// resolve sends the result of the call, unless it was cancelled.
func (c *call) resolve(r *agentproto.ToolResult) {
	c.mu.Lock()
	if c.resolved || c.cancelled {
		c.mu.Unlock()
		return
	}
	c.resolved = true
	c.mu.Unlock()

	m, err := c.server.encode(c, r)
	if err != nil {
		c.server.log.Error("result withheld", "tool", c.inv.Operation, "error", err)
		if m, err = c.server.encode(c, c.errorResult(err)); err != nil {
			return
		}
	}
	m.ctx = c.server.ctx // the call's context ends before the result is delivered
	c.post(m)
}

// abandon cancels the call: its function's context ends and nothing more is sent.
// It does nothing to a call that has its result.
func (c *call) abandon(cause error) {
	c.mu.Lock()
	if c.resolved || c.cancelled {
		c.mu.Unlock()
		return
	}
	c.cancelled = true
	c.mu.Unlock()
	c.cancel(cause)
}
