package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/internal/mcptasks"
)

// describe returns the call of a taskId.
func (o *owner) describe(ctx context.Context, taskID string) (d host.Description, created time.Time, err error) {
	key, created, ok := o.s.open(o.name, taskID)
	if !ok {
		return d, created, mcptasks.ErrUnknown()
	}
	d, err = o.s.opts.Calls.Describe(ctx, key)
	if errors.Is(err, host.ErrUnknownCall) {
		err = mcptasks.ErrUnknown() // it was forgotten
	}
	d.Key = key
	return d, created, err
}

// get answers tasks/get.
func (o *owner) get(ctx context.Context, taskID string) (*mcptasks.GetTaskResult, error) {
	d, created, err := o.describe(ctx, taskID)
	var failure *Failure
	if errors.As(err, &failure) {
		t := &mcptasks.GetTaskResult{ResultType: "complete", Task: o.task(taskID, created, d), Error: wireFailure(failure)}
		t.Status, t.StatusMessage = mcptasks.Failed, failure.Message
		return t, nil
	}
	if err != nil {
		return nil, o.s.errorOf(ctx, err)
	}
	c, _ := ctx.Value(clientKey{}).(client)
	t := &mcptasks.GetTaskResult{ResultType: "complete", Task: o.task(taskID, created, d)}
	switch p := d.Prompt; {
	case d.Resolution != nil && isCancelled(d.Resolution):
		t.Status = mcptasks.Cancelled
	case d.Resolution != nil:
		t.Status = mcptasks.Completed
		if t.Result, err = inlined(resultOf(d.Resolution)); err != nil {
			return nil, o.s.errorOf(ctx, err)
		}
	case p == nil:
	case p.OAuth != nil && o.s.consents.has(d.Key, p.Number):
		t.StatusMessage = waitsFor(p)
	case c.means.canAsk(p):
		t.Status = mcptasks.InputRequired
		t.InputRequests = requestsOf(p)
	default:
		t.StatusMessage = waitsFor(p)
		if p.Choice != nil && time.Since(p.Since) >= o.s.opts.Unasked {
			if err := o.s.opts.Calls.AnswerPrompt(ctx, d.Key, p.Number, host.Dismiss); err != nil {
				return nil, o.s.errorOf(ctx, err)
			}
		}
	}
	return t, nil
}

// maxStatus is how many bytes of a tool's progress go into the status message of a task.
const maxStatus = 200

// task returns the common part of all messages about a task, with the status working.
func (o *owner) task(taskID string, created time.Time, d host.Description) mcptasks.Task {
	t := mcptasks.Task{
		TaskID: taskID, Status: mcptasks.Working, CreatedAt: created, LastUpdatedAt: created, PollIntervalMs: o.poll(created).Milliseconds(),
	}
	if d.Changed.After(created) {
		t.LastUpdatedAt = d.Changed.UTC().Truncate(time.Millisecond)
	}
	if d.Progress != nil && d.Prompt == nil {
		t.StatusMessage = agentproto.PlainText(d.Progress.String(), maxStatus)
	}
	if d.Resolution != nil { // a pending call is never dropped, so it has no TTL
		ttl := (t.LastUpdatedAt.Sub(created) + d.Resolution.Result.KeptFor(o.s.opts.Keep)).Milliseconds()
		t.TTLMs = &ttl
	}
	return t
}

// poll returns how long a client should wait before it asks again.
func (o *owner) poll(created time.Time) time.Duration {
	switch age := time.Since(created); {
	case age > 10*time.Minute:
		return 15 * o.s.opts.Poll
	case age > time.Minute:
		return 5 * o.s.opts.Poll
	}
	return o.s.opts.Poll
}

// update answers tasks/update. Answers that fit no open question have no effect.
func (o *owner) update(ctx context.Context, p *mcptasks.UpdateParams) (*mcptasks.Ack, error) {
	d, _, err := o.describe(ctx, p.TaskID)
	var failure *Failure
	if errors.As(err, &failure) {
		return &mcptasks.Ack{ResultType: "complete"}, nil
	}
	if err != nil {
		return nil, o.s.errorOf(ctx, err)
	}
	if _, err := o.answer(ctx, d, p.InputResponses); err != nil {
		return nil, o.s.errorOf(ctx, err)
	}
	return &mcptasks.Ack{ResultType: "complete"}, nil
}

// answer passes answers to the questions of a call, and reports whether one of them fits.
func (o *owner) answer(ctx context.Context, d host.Description, answers map[string]json.RawMessage) (taken bool, err error) {
	p := d.Prompt
	if p == nil {
		return false, nil
	}
	if !p.Form.IsZero() {
		values := map[string]jsontext.Value{}
		for i := range p.Form.Questions {
			q := &p.Form.Questions[i]
			if answer, ok := answers[questionKey(p, q.Name)]; ok {
				if v, ok := filledIn(q, answer); ok {
					values[q.Name] = v
				}
			}
		}
		if len(values) == 0 {
			return false, nil
		}
		return true, o.s.opts.Calls.AnswerForm(ctx, d.Key, p.Number, values)
	}
	answer, ok := answers[promptKey(p)]
	if !ok {
		return false, nil
	}
	if p.Choice != nil {
		selected, ok := selectionOf(p.Choice, answer)
		if !ok {
			return false, nil
		}
		return true, o.s.opts.Calls.AnswerPrompt(ctx, d.Key, p.Number, selected)
	}
	switch actionOf(answer) {
	case "accept": // the tool continues when the user has been there
		o.s.consents.add(d.Key, p.Number)
		return true, nil
	case "decline", "cancel":
		return true, o.s.opts.Calls.Cancel(ctx, d.Key)
	}
	return false, nil
}

// cancel answers tasks/cancel. A resolved call stays resolved, but its subscription ends.
func (o *owner) cancel(ctx context.Context, taskID string) (*mcptasks.Ack, error) {
	d, _, err := o.describe(ctx, taskID)
	var failure *Failure
	if errors.As(err, &failure) {
		return &mcptasks.Ack{ResultType: "complete"}, nil
	}
	if err != nil {
		return nil, o.s.errorOf(ctx, err)
	}
	switch {
	case d.State != agentproto.Completed:
		err = o.s.opts.Calls.Cancel(ctx, d.Key)
	case d.Resolution != nil && d.Resolution.Result.Subscription:
		err = o.s.opts.Calls.EndSubscription(ctx, d.Key)
	}
	if err != nil {
		return nil, o.s.errorOf(ctx, err)
	}
	return &mcptasks.Ack{ResultType: "complete"}, nil
}
