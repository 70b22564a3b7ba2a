package mcptools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/mcptasks"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// An attempt is a call in progress at an MCP server.
type attempt struct {
	ctx    context.Context // of the tool function
	server string
	thread string
	log    *slog.Logger

	timer  *time.Timer // fires at the time-out
	most   time.Duration
	end    context.CancelCauseFunc // ends the call
	during context.Context         // ends with the attempt
	visits sync.WaitGroup          // running visits of addresses by the user

	question string // name of its questions; may be empty

	mu      sync.Mutex
	held    int // how many users' answers the time-out waits for
	latest  *mcp.ProgressNotificationParams
	changed chan struct{} // holds an element when latest is new
}

// safeStep is the step of a call which says that the call may be sent again. It is stored before the call is sent, so that a
// later hint does not count.
const safeStep = "safe"

// repeats is how often one run sends a call that may be sent again.
const repeats = 3

// call returns the function of a tool.
func (m *member) call(t described) func(context.Context, []byte) (*agentproto.ToolResult, error) {
	result := m.results(t)
	return func(ctx context.Context, args []byte) (*agentproto.ToolResult, error) {
		if res, ok, err := m.task(ctx, t, result); ok || err != nil {
			return res, err
		}
		safe, _, err := toolserver.Stepped[bool](ctx, safeStep)
		if err != nil {
			return nil, err
		}
		a, err := m.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer a.leave()
		d, err := m.dialog(ctx)
		if err != nil {
			return nil, err
		}
		var budget patience
		for n := 1; ; {
			if err := d.ready(ctx); err != nil {
				return nil, err
			}
			s, err := a.link.session(ctx, false)
			if c, ok := challengeIn(err); ok {
				if err := a.answer(c); err != nil {
					return nil, err
				}
				continue
			}
			if again, err := budget.wait(ctx, err); err != nil {
				return nil, err
			} else if again {
				continue
			}
			if err != nil {
				return nil, m.absent(ctx, err)
			}
			sending := 0
			if !safe {
				if safe, sending, err = m.begin(ctx, t); err != nil {
					return nil, err
				}
			}
			res, err := m.send(ctx, s, t, args, d)
			if again, err := d.goesOn(ctx, s, sending, res, err); err != nil {
				return nil, err
			} else if again {
				continue
			}
			switch {
			case err == nil:
				if task, ok := mcptasks.TaskOf(res); ok {
					return m.accepted(a, t, task, result)
				}
				return result(res), nil
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			}
			unsent := unsent(err)
			if unsent {
				if err := d.refused(ctx, sending, nil); err != nil {
					return nil, err
				}
			}
			if c, ok := challengeIn(err); ok {
				if err := a.answer(c); err != nil {
					return nil, err
				}
				continue
			}
			if again, err := budget.wait(ctx, err); err != nil {
				return nil, err
			} else if again {
				if errors.Is(err, mcp.ErrSessionMissing) {
					s.over(ctx)
				}
				continue
			}
			if unsent {
				return nil, fmt.Errorf("%s is not there: %s; the call was not carried out", m.server.Name, line(err.Error(), 256))
			}
			if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code != codeRejected {
				return nil, fmt.Errorf("%s refused the call: %s (%d)", m.server.Name, line(wire.Message, 1<<10), wire.Code)
			}
			if errors.Is(err, toolserver.ErrNoAnswer) || errors.Is(err, toolserver.ErrNotAsked) {
				return nil, fmt.Errorf("the user was not at the page of %s; %s", m.server.Name, notRepeated)
			}
			if errors.Is(err, errTimeout) {
				return nil, fmt.Errorf("%s did not answer within %v; %s", m.server.Name, m.server.timeout(), notRepeated)
			}
			if !safe {
				return nil, unknownError{m.server.Name}
			}
			if n == repeats {
				return nil, fmt.Errorf("the connection to %s broke %d times while the call was carried out", m.server.Name, n)
			}
			if s.process != nil { // a connection over HTTP may continue
				s.over(ctx)
			}
			m.log.Info("call is sent again", "server", m.server.Name, "tool", t.Name, "error", err)
			n++
		}
	}
}

// overTime is how long the end of a program may take to be noticed.
const overTime = 10 * time.Second

// over waits until a connection on which a call failed is known to have ended, so that the next attempt uses a new one.
func (s *session) over(ctx context.Context) {
	t := time.NewTimer(overTime)
	defer t.Stop()
	select {
	case <-s.ended:
	case <-t.C:
	case <-ctx.Done():
	}
}

// codeRejected is the code of an error of the SDK itself, which does not come from the server.
const codeRejected = -32005

const notRepeated = "it may have been carried out; it was not repeated"

// An unknownError is the result of a call that may or may not have been carried out. A model reads it, so it has whole sentences.
type unknownError struct{ server string }

// Error implements error.
func (e unknownError) Error() string {
	return "the connection to " + e.server + " broke after the call was sent. It may have been carried out; it was not repeated."
}

// absent returns the error of a call that was not sent.
func (m *member) absent(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, errClosed) {
		return toolserver.ErrClosing
	}
	return fmt.Errorf("%w; the call was not sent", err)
}

// begin is called before a call is sent, and reports whether the call may be sent twice. If not, it returns the number of this
// sending, or an unknownError if an earlier run has sent the call and it is not known that the server refused it.
func (m *member) begin(ctx context.Context, t described) (safe bool, sending int, err error) {
	if t.safe(m.server.Repeat[t.Name]) {
		safe, err = toolserver.Step(ctx, safeStep, func(ctx context.Context) (bool, error) { return true, nil })
		return safe, 0, err
	}
	for sending = 1; ; sending++ {
		_, was, err := toolserver.Stepped[json.RawMessage](ctx, refusedStep+strconv.Itoa(sending))
		if err != nil {
			return false, 0, err
		}
		if !was {
			break
		}
	}
	if sending == 1 {
		if err = toolserver.Began(ctx); errors.Is(err, toolserver.ErrBegan) {
			err = unknownError{m.server.Name}
		}
		return false, sending, err
	}
	name := sentStep + strconv.Itoa(sending)
	if _, was, err := toolserver.Stepped[bool](ctx, name); was || err != nil {
		return false, sending, cmp.Or(err, error(unknownError{m.server.Name}))
	}
	_, err = toolserver.Step(ctx, name, func(context.Context) (bool, error) { return true, nil })
	return false, sending, err
}

// The steps of a call that is sent more than once, followed by the number of the sending. The first says that the call was sent;
// the second says that the server did not carry it out, but refused it or asked for something first: see [dialog]. The first
// sending is marked by [toolserver.Began].
const sentStep, refusedStep = "sent ", "refused "

var errTimeout = errors.New("the call took too long")

// send sends a call and waits for its result.
func (m *member) send(ctx context.Context, s *session, t described, args []byte, d *dialog) (*mcp.CallToolResult, error) {
	inv := toolserver.Invocation(ctx)
	token := toolserver.IdempotencyKey(ctx)
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(m.server.timeout(), func() { stop(errTimeout) })
	defer timer.Stop()
	a := &attempt{
		ctx: ctx, server: m.server.Name, thread: inv.GroupID, log: m.log, changed: make(chan struct{}, 1),
		timer: timer, most: m.server.timeout(), end: stop,
	}
	showing, enough := context.WithCancel(waiting)
	a.during = showing
	s.mu.Lock()
	s.calls[token] = a
	s.mu.Unlock()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		a.show(showing, t.Name)
	}()
	defer func() {
		s.mu.Lock()
		delete(s.calls, token)
		s.mu.Unlock()
		enough()
		<-shown
		a.visits.Wait()
	}()
	p := &mcp.CallToolParams{Name: t.Name, Arguments: json.RawMessage(args)}
	p.SetProgressToken(token)
	d.fill(p)
	res, err := s.cs.CallTool(waiting, p)
	if cause := context.Cause(waiting); err != nil && cause != nil && ctx.Err() == nil {
		err = cause
	}
	return res, err
}

// alive restarts the time-out.
func (a *attempt) alive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == 0 && a.timer != nil {
		a.timer.Reset(a.most)
	}
}

// hold suspends the time-out until resume is called.
func (a *attempt) hold() (resume func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held++; a.timer != nil {
		a.timer.Stop()
	}
	return func() {
		a.mu.Lock()
		a.held--
		a.mu.Unlock()
		a.alive()
	}
}

// progress receives a progress notification of the server.
func (s *session) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	token, _ := r.Params.ProgressToken.(string)
	s.mu.Lock()
	a := s.calls[token]
	s.mu.Unlock()
	if a == nil {
		return // it arrived after the result, which is allowed
	}
	a.alive()
	a.mu.Lock()
	a.latest = r.Params
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// progressPause is the minimum time between two views of the progress of a call.
const progressPause = 200 * time.Millisecond

// show shows the progress of a call as views. Progress that arrives too fast is skipped in favor of later progress.
func (a *attempt) show(ctx context.Context, tool string) {
	for {
		select {
		case <-a.changed:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		p := a.latest
		a.mu.Unlock()
		view := agentproto.Progress{Tool: tool, Progress: p.Progress, Total: max(p.Total, 0), Message: line(p.Message, 1<<10)}
		if toolserver.View(ctx, agentproto.ProgressView, view) != nil {
			return
		}
		t := time.NewTimer(progressPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
