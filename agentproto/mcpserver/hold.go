package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/internal/mcptasks"
)

// hold answers tools/call with a task, a round of input requests, or a result.
func (o *owner) hold(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if !o.claim() { // checked before the call is made or an answer taken, so that a refused request has no effect
		return nil, &jsonrpc.Error{Code: codeBusy, Message: "too many requests of this client wait for results"}
	}
	defer o.release()
	c, _ := ctx.Value(clientKey{}).(client)
	w := &waiting{owner: o, req: req, client: c}
	var err error
	if req.Params.RequestState != "" {
		err = w.resume(ctx)
	} else {
		err = w.call(ctx)
	}
	if err != nil {
		return nil, o.s.errorOf(ctx, err)
	}
	if isRepeatable(w.now.Key) {
		w.leave = sync.OnceValue(o.repeated.enter(w.now.Key))
		defer w.leave()
	}
	if c.tasks {
		return w.briefly(ctx)
	}
	return w.toTheEnd(ctx)
}

// A waiting request is a tools/call whose call has been made.
type waiting struct {
	*owner
	req    *mcp.CallToolRequest
	client client
	now    host.Description
	made   time.Time
	state  string             // the sealed key
	leave  func() (last bool) // ends the wait for a call that has an idempotency key; the first call counts

	progress progress
}

// call makes the call, which is stored when call returns.
func (w *waiting) call(ctx context.Context) error {
	p := w.req.Params
	args := bytes.TrimSpace(p.Arguments)
	switch {
	case len(args) == 0 || string(args) == "null":
		args = []byte("{}")
	case args[0] != '{':
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments must be an object"}
	}
	request := host.Request{GroupID: w.thread, Operation: p.Name, Arguments: jsontext.Value(args), UserID: w.userID()}
	var err error
	if request.ID, err = repeatableID(p); err != nil {
		return err
	}
	w.made = time.Now().UTC().Truncate(time.Millisecond)
	key, err := w.s.opts.Calls.Call(ctx, request)
	if errors.Is(err, host.ErrDuplicateCall) && request.ID != "" {
		key, err = agentproto.CallKey{GroupID: request.GroupID, ID: request.ID}, nil // the call that was made before
	}
	if err != nil {
		return err
	}
	w.now = host.Description{Key: key}
	w.state, err = w.s.seal(w.name, key, w.made)
	return err
}

// resume continues a call of an earlier round, and takes the answers of this one.
func (w *waiting) resume(ctx context.Context) error {
	d, made, err := w.describe(ctx, w.req.Params.RequestState)
	if err != nil {
		return err
	}
	w.now, w.made, w.state = d, made, w.req.Params.RequestState
	answers := map[string]json.RawMessage{}
	for key, answer := range w.req.Params.InputResponses {
		if answers[key], err = json.Marshal(answer); err != nil {
			return err
		}
	}
	taken, err := w.answer(ctx, d, answers)
	if err != nil {
		return err
	}
	if taken && !d.Prompt.Form.IsZero() {
		return w.partly(ctx)
	}
	// An answered question is not asked again; an unanswered one is.
	w.now.Prompt = nil
	if !taken && w.now.Version > 0 {
		w.now.Version--
	}
	return nil
}

// partly continues with the remaining questions of a partly answered form.
func (w *waiting) partly(ctx context.Context) error {
	d, err := w.s.opts.Calls.Describe(ctx, w.now.Key)
	if err != nil {
		return err
	}
	d.Key, w.now = w.now.Key, d
	return nil
}

// next waits for a change of the call, for at most the given time, and shows its progress. It returns false if there was no
// change.
func (w *waiting) next(ctx context.Context, most time.Duration) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-w.s.closing:
			cancel()
		case <-stop:
		}
	}()
	d, err := w.change(waiting)
	switch {
	case err == nil:
		d.Key, w.now = w.now.Key, d
		w.showProgress(ctx)
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case w.isClosing():
		return false, errClosing
	case waiting.Err() != nil:
		return false, nil
	}
	return false, err
}

func (w *waiting) isClosing() bool {
	select {
	case <-w.s.closing:
		return true
	default:
		return false
	}
}

// briefly waits a moment for the result of a call, and then makes it a task.
func (w *waiting) briefly(ctx context.Context) (*mcp.CallToolResult, error) {
	end := time.Now().Add(w.s.opts.Fast)
	for {
		if r := w.now.Resolution; r != nil {
			return w.resolved()
		}
		if p := w.now.Prompt; p != nil && w.s.opts.AskFirst(w.req.Params.Name) && w.client.means.canAsk(p) {
			return w.round(ctx)
		}
		left := time.Until(end)
		if left <= 0 {
			break
		}
		if _, err := w.next(ctx, left); err != nil {
			var failure *Failure
			if errors.As(err, &failure) || errors.Is(err, errClosing) {
				break // the call is stored, and tasks/get reports the failure
			}
			return nil, w.s.errorOf(ctx, err)
		}
	}
	made, ok := ctx.Value(madeKey{}).(*mcptasks.CreateTaskResult)
	if !ok {
		return nil, errors.New("mcpserver: a task has no place")
	}
	made.ResultType, made.Task = "task", w.task(w.state, w.made, w.now)
	return &mcp.CallToolResult{}, nil
}

// toTheEnd waits for the result of a call, and asks the client's user the questions of the call. If the client disconnects, the
// call is cancelled unless the request has an idempotency key.
func (w *waiting) toTheEnd(ctx context.Context) (*mcp.CallToolResult, error) {
	for {
		most := progressEvery
		switch p := w.now.Prompt; {
		case w.now.Resolution != nil:
			return w.resolved()
		case p == nil, p.OAuth != nil && w.s.consents.has(w.now.Key, p.Number):
		case w.client.means.canAsk(p) && w.req.ProtocolVersion() >= mcptasks.Since:
			return w.round(ctx)
		case w.client.means.canAsk(p):
			if err := w.ask(ctx, p); err != nil {
				return w.given(ctx, err)
			}
			if left := w.now.Prompt; left != nil && left.Number == p.Number && len(left.Form.Questions) < len(p.Form.Questions) {
				continue
			}
		case p.Choice != nil:
			left := time.Until(p.Since.Add(w.s.opts.Unasked))
			if left <= 0 {
				if err := w.s.opts.Calls.AnswerPrompt(ctx, w.now.Key, p.Number, host.Dismiss); err != nil {
					return w.given(ctx, err)
				}
				break
			}
			most = min(most, left)
		}
		changed, err := w.next(ctx, most)
		if err != nil {
			return w.given(ctx, err)
		}
		if !changed {
			w.showLife(ctx)
		}
	}
}

// cancelWithin is how long it may take to cancel the call of a client that has disconnected.
const cancelWithin = 10 * time.Second

// given ends a held request that has no result. It cancels the call if nobody can receive its result.
func (w *waiting) given(ctx context.Context, err error) (*mcp.CallToolResult, error) {
	if ctx.Err() != nil && !w.isClosing() && w.isGivenUp(ctx) {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWithin)
		defer cancel()
		if err := w.s.opts.Calls.Cancel(ending, w.now.Key); err != nil {
			w.s.log.Warn("a call whose client has gone was not cancelled", "error", err)
		}
	}
	return nil, w.s.errorOf(ctx, err)
}

// resolved returns the result of the call.
func (w *waiting) resolved() (*mcp.CallToolResult, error) {
	return resultOf(w.now.Resolution), nil
}

// round returns the questions of the call. The client sends the request again with the answers. Each round has its own state: the
// same call, sealed anew.
func (w *waiting) round(ctx context.Context) (*mcp.CallToolResult, error) {
	state, err := w.s.seal(w.name, w.now.Key, w.made)
	if err != nil {
		return nil, w.s.errorOf(ctx, err)
	}
	return &mcp.CallToolResult{InputRequests: requestsOf(w.now.Prompt), RequestState: state}, nil
}

// ask asks the user of a client that has a session. If the client cannot ask, or its answer is invalid, the question counts as
// dismissed.
func (w *waiting) ask(ctx context.Context, p *host.CallPrompt) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // withdraws the question when it was answered elsewhere
		_, _ = w.s.opts.Calls.Changed(asking, w.now.Key, w.now.Version)
		cancel()
	}()
	asks, key := elicitation(p, w.state), promptKey(p)
	var question *form.Question // the first unanswered one
	if !p.Form.IsZero() {
		var err error
		question = &p.Form.Questions[0]
		key = questionKey(p, question.Name)
		if asks, err = elicitationOf(p, question); err != nil {
			return err
		}
	}
	lives := make(chan struct{})
	go func() {
		defer close(lives)
		w.showWait(asking)
	}()
	res, err := w.req.Session.Elicit(asking, asks)
	elsewhere := asking.Err() != nil
	cancel()
	<-lives
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case elsewhere:
		return nil
	case err != nil:
		res = &mcp.ElicitResult{Action: "cancel"}
	}
	text, err := json.Marshal(res)
	if err != nil {
		return err
	}
	fits := true
	switch {
	case question != nil:
		_, fits = filledIn(question, text)
	case p.Choice != nil:
		_, fits = selectionOf(p.Choice, text)
	}
	if !fits {
		text = []byte(`{"action":"cancel"}`)
	}
	if _, err = w.answer(ctx, w.now, map[string]json.RawMessage{key: text}); err == nil && question != nil {
		return w.partly(ctx)
	}
	return err
}
