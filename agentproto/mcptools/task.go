package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/mcptasks"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// taskStep is the step of a call with the id of the task that the server has made of it. From then on the call is never sent
// again: it waits for the task, even after a restart.
const taskStep = "task"

// How often the state of a task is polled: as the server requests, within these limits.
const (
	pollDefault = time.Second
	pollLeast   = 200 * time.Millisecond
	pollMost    = time.Minute
	pollAsking  = 5 * time.Second // the minimum while the user is being asked
)

// requestTime is how long a request about a task may take, and cancelTime how long its cancellation may take.
const (
	requestTime = 30 * time.Second
	cancelTime  = 10 * time.Second
)

// A waiter waits for the result of a task. It is used by one goroutine.
type waiter struct {
	m      *member
	a      *access
	tool   string
	id     string
	result converter

	shown   string                     // the server's last message
	answers map[string]json.RawMessage // of the user, by the keys of the server's requests
	told    map[string]bool            // answers that the server has accepted
	asking  *asked                     // nil if the user is not being asked
}

// An asked is a set of requests of a task that the user is being asked.
type asked struct {
	keys   []string
	stop   context.CancelFunc
	answer chan answered // closed when asking has ended
}

// answered contains the answers for the server by its keys, or the reason why there are none.
type answered struct {
	data map[string]json.RawMessage
	err  error
}

// task returns the result of a call whose task an earlier run has stored, and reports whether there is one.
func (m *member) task(ctx context.Context, t described, result converter) (res *agentproto.ToolResult, ok bool, err error) {
	id, ok, err := toolserver.Stepped[string](ctx, taskStep)
	if err != nil || !ok {
		return nil, false, err
	}
	a, err := m.enter(ctx)
	if err != nil {
		return nil, true, err
	}
	defer a.leave()
	res, err = m.await(a, t, id, result)
	return res, true, err
}

// accepted stores the task that a server has answered instead of a result, and returns the result of the task.
func (m *member) accepted(a *access, t described, task *mcptasks.Task, result converter) (*agentproto.ToolResult, error) {
	id, err := toolserver.Step(a.ctx, taskStep, func(context.Context) (string, error) { return task.TaskID, nil })
	if err != nil {
		if errors.Is(context.Cause(a.ctx), toolserver.ErrCancelled) {
			(&waiter{m: m, a: a, tool: t.Name, id: task.TaskID}).cancel()
		}
		return nil, err
	}
	return m.await(a, t, id, result)
}

// await waits for the end of a task.
func (m *member) await(a *access, t described, id string, result converter) (*agentproto.ToolResult, error) {
	w := &waiter{m: m, a: a, tool: t.Name, id: id, result: result, answers: map[string]json.RawMessage{}, told: map[string]bool{}}
	defer w.withdraw()
	res, err := w.poll()
	_, given := errors.AsType[givenUp](err)
	if given || errors.Is(context.Cause(a.ctx), toolserver.ErrCancelled) {
		w.cancel()
	}
	return res, err
}

// A givenUp is the reason why a task cannot go on. The task is cancelled.
type givenUp struct{ error }

// Unwrap returns why.
func (g givenUp) Unwrap() error { return g.error }

// A denied is an authorization error of a request about a task.
type denied struct{ error }

// Unwrap returns why.
func (d denied) Unwrap() error { return d.error }

// poll polls the state of the task until it has ended.
func (w *waiter) poll() (*agentproto.ToolResult, error) {
	ctx, m := w.a.ctx, w.m
	heard, again := time.Now(), pollLeast
	for {
		pause := again
		t, err := w.get()
		_, isDenied := errors.AsType[denied](err)
		switch final := finalError(err); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case final != nil:
			return nil, fmt.Errorf("%s does not say what became of the call, which may have been carried out: %s (%d)", m.server.Name, line(final.Message, 1<<10), final.Code)
		case isDenied:
			return nil, err
		case err != nil && time.Since(heard) >= m.server.timeout():
			return nil, fmt.Errorf("%s has not said for %v what became of the call, which may have been carried out", m.server.Name, m.server.timeout())
		case err != nil:
			m.log.Info("the state of a task is not known", "server", m.server.Name, "tool", w.tool, "error", err)
			again = min(2*again, pollMost)
		default:
			heard, again, pause = time.Now(), pollLeast, pollPause(t.PollIntervalMs)
			if res, err := w.take(t); res != nil || err != nil {
				return res, err
			}
		}
		if err := w.pause(pause); err != nil {
			return nil, err
		}
	}
}

// pollPause returns how long to wait before the next poll, given the server's wish in milliseconds.
func pollPause(ms int64) time.Duration {
	if ms <= 0 {
		return pollDefault
	}
	return max(pollLeast, time.Duration(min(ms, pollMost.Milliseconds()))*time.Millisecond)
}

// pause waits until the next poll is due, or the user has answered.
func (w *waiter) pause(d time.Duration) error {
	var answer <-chan answered
	if w.asking != nil {
		answer, d = w.asking.answer, max(d, pollAsking)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case a := <-answer:
		if errors.Is(a.err, toolserver.ErrClosing) {
			return a.err
		}
		if a.err != nil {
			return givenUp{a.err}
		}
		maps.Copy(w.answers, a.data)
		w.withdraw()
	case <-w.a.ctx.Done():
		return context.Cause(w.a.ctx)
	}
	return nil
}

// get polls the state of the task once, and first sends the answers that the server has not accepted yet.
func (w *waiter) get() (*mcptasks.GetTaskResult, error) {
	var t *mcptasks.GetTaskResult
	err := w.do(func(ctx context.Context, cs *mcp.ClientSession) (err error) {
		untold := maps.Clone(w.answers)
		maps.DeleteFunc(untold, func(key string, _ json.RawMessage) bool { return w.told[key] })
		if len(untold) > 0 { // in one request, since the user is asked again for answers that the server does not get
			if err := mcptasks.Update(ctx, cs, w.id, untold); err != nil {
				return err
			}
			for key := range untold {
				w.told[key] = true
			}
		}
		t, err = mcptasks.Get(ctx, cs, w.id)
		return err
	})
	return t, err
}

// do makes requests about the task over the connection of the call's user.
func (w *waiter) do(f func(ctx context.Context, cs *mcp.ClientSession) error) error {
	for {
		s, err := w.a.link.session(w.a.ctx, true)
		if err == nil {
			ctx, stop := context.WithTimeout(w.a.ctx, requestTime)
			err = f(ctx, s.cs)
			stop()
		}
		c, ok := challengeIn(err)
		if !ok {
			return err
		}
		if err := w.a.answer(c); err != nil {
			return denied{err}
		}
	}
}

// finalError returns the error if it says that the server knows nothing more about the task, or nil.
func finalError(err error) *jsonrpc.Error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return nil
	}
	switch wire.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidRequest, mcp.CodeMissingRequiredClientCapabilities, mcp.CodeHeaderMismatch:
		return wire
	}
	return nil
}

// take handles the state of the task, and returns the result if it has ended.
func (w *waiter) take(t *mcptasks.GetTaskResult) (*agentproto.ToolResult, error) {
	if w.asking != nil && slices.ContainsFunc(w.asking.keys, func(key string) bool { return t.InputRequests[key] == nil }) {
		w.withdraw() // the server no longer needs the answer
	}
	name := w.m.server.Name
	switch t.Status {
	case mcptasks.Completed:
		res := new(mcp.CallToolResult)
		if err := json.Unmarshal(mcptasks.Readable(t.Result), res); err != nil {
			return nil, fmt.Errorf("%s has carried out the call, and its result cannot be read", name)
		}
		return w.result(res), nil
	case mcptasks.Failed:
		if t.Error == nil {
			return nil, fmt.Errorf("%s has failed to carry out the call", name)
		}
		return nil, fmt.Errorf("%s refused the call: %s (%d)", name, line(t.Error.Message, 1<<10), t.Error.Code)
	case mcptasks.Cancelled:
		return nil, fmt.Errorf("%s cancelled the call", name)
	case mcptasks.InputRequired:
		return nil, w.ask(t.InputRequests)
	case mcptasks.Working:
		w.show(t.StatusMessage)
		return nil, nil
	}
	return nil, givenUp{fmt.Errorf("%s says that the call is %q, which is not known here", name, short(t.Status))}
}

// ask asks the user for all requests of the task that have no answer. The question's name consists of the server's keys of its
// requests, so that a run after a restart waits for the same answer.
func (w *waiter) ask(requests mcp.InputRequestMap) error {
	forms := map[string]*mcp.ElicitParams{}
	for key, r := range requests {
		p, ok := r.(*mcp.ElicitParams)
		if !ok {
			return givenUp{fmt.Errorf("%s wants something else than an answer of the user, which is not supported", w.m.server.Name)}
		}
		switch {
		case w.answers[key] != nil:
		case p.Mode == "url":
			w.answers[key] = json.RawMessage(`{"action":"decline"}`)
		default:
			forms[key] = p
		}
	}
	if w.asking != nil || len(forms) == 0 {
		return nil
	}
	ctx, stop := context.WithCancel(w.a.ctx)
	asking := &asked{keys: slices.Sorted(maps.Keys(forms)), stop: stop, answer: make(chan answered, 1)}
	w.asking = asking
	a := &attempt{ctx: ctx, server: w.m.server.Name, thread: toolserver.Invocation(ctx).GroupID, log: w.m.log, question: "task " + strings.Join(asking.keys, " ")}
	go func() {
		defer close(asking.answer)
		all, err := a.askAll(ctx, forms)
		data := map[string]json.RawMessage{}
		for key, res := range all {
			if err == nil {
				data[key], err = json.Marshal(res)
			}
		}
		asking.answer <- answered{data, err}
	}()
	return nil
}

// withdraw stops asking the user, if it is in progress.
func (w *waiter) withdraw() {
	if w.asking != nil {
		w.asking.stop()
		for range w.asking.answer { // until the asking goroutine has ended
		}
		w.asking = nil
	}
}

// show shows the server's message about the task as a view.
func (w *waiter) show(message string) {
	if message = line(message, 1<<10); message == "" || message == w.shown {
		return
	}
	w.shown = message
	_ = toolserver.View(w.a.ctx, agentproto.ProgressView, agentproto.Progress{Tool: w.tool, Message: message}) // a failure is ignored: the next message may be shown
}

// cancel asks the server to cancel the task. It tries once: a task that continues ends at its time limit.
func (w *waiter) cancel() {
	ctx, stop := context.WithTimeout(context.WithoutCancel(w.a.ctx), cancelTime)
	defer stop()
	s, err := w.a.link.session(ctx, false)
	if err == nil {
		err = mcptasks.Cancel(ctx, s.cs, w.id)
	}
	if err != nil {
		w.m.log.Warn("a task cannot be cancelled", "server", w.m.server.Name, "tool", w.tool, "error", err)
	}
}
