package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ask asks the model of a thread, or its fallbacks, for a reply. If the history is longer than what these models may be shown, it
// asks for a summary instead.
func (a *Agent) ask(ctx context.Context, thread string, action *Action) *Outcome {
	ctx, over := a.begin(ctx, thread, action.Round)
	defer over()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return abandoned
	}
	history, err := a.program.read(ctx, thread, action.Kept, 0, action.Messages)
	if err != nil {
		return abandoned
	}
	now := Writing{Round: action.Round, Messages: action.Messages, Stage: Fails}
	defer func() { a.notify(thread, now) }()
	models, notes := modelsOf(a.opts.Model, action.Session)
	shown := show(history, action.Kept, leastContext(models))
	if shown.cut > 0 {
		summary, err := a.summarize(ctx, models, shown, action)
		switch {
		case ctx.Err() != nil:
			return abandoned
		case err == nil:
			return &Outcome{Summary: summary}
		case !IsPermanent(err):
			return &Outcome{Failure: fmt.Sprintf("the conversation could not be summarized: %v", err)}
		}
		notes = append(notes, fmt.Sprintf("The first %d messages could not be summarized, and the model was not shown them: %v.", shown.cut-1, err))
		shown = shown.withoutFirst()
	}
	request := &Request{Thread: thread, Round: action.Round, Session: action.Session, Messages: shown.messages, said: shown.said}
	tools := a.opts.Host.Tools(ctx, action.Session)
	names := nameTools(tools, history)
	request.Tools = append(names.show(tools), builtinTools()...)
	reply, err := a.replyOf(ctx, models, request, &now, names)
	switch {
	case ctx.Err() != nil:
		return abandoned
	case err != nil:
		return &Outcome{Failure: err.Error()}
	}
	now.Stage = Answers
	reply.Notes = append(notes, reply.Notes...)
	return &Outcome{Reply: reply}
}

// abandoned is the outcome of a round that is not wanted: it changes nothing.
var abandoned = &Outcome{}

// beforeFallback is how many of the pauses of [AgentOptions].Retry a model with a fallback gets.
const beforeFallback = 2

// replyOf asks models one after another until one answers. Names, if not nil, are the tool names of the request, and watchers
// then receive what the models write. The error is permanent if that of the last model is.
func (a *Agent) replyOf(ctx context.Context, models []NamedModel, r *Request, now *Writing, names *names) (*Reply, error) {
	var notes []string
	for i, m := range models {
		pauses, last := a.opts.Retry, i == len(models)-1
		if !last {
			pauses = pauses[:min(len(pauses), beforeFallback)]
		}
		reply, err := a.tryModel(ctx, m, r, now, names, pauses, last)
		switch {
		case err == nil:
			answered := *reply
			if names != nil {
				answered = *names.resolve(reply)
			}
			answered.Model, answered.Notes = m.Name, notes
			return &answered, nil
		case ctx.Err() != nil:
			return nil, err
		case !last && passesOn(err):
			a.count(m.Name, func(c *ModelCounts) { c.Fallbacks++ })
			notes = append(notes, fmt.Sprintf("The model %q did not answer: %v.", m.Name, err))
			continue
		}
		err = fmt.Errorf("%w (attempt %d)", err, now.Attempt)
		if len(notes) > 0 {
			err = fmt.Errorf("%s The model %q did not answer: %w", strings.Join(notes, " "), m.Name, err)
		}
		return nil, err
	}
	panic("unreachable") // models is never empty
}

// tryModel asks a model until it answers or the pauses between attempts are used up. Unless the model is the last one, tryModel
// does not wait longer than these pauses. Now holds the number of the next attempt.
func (a *Agent) tryModel(ctx context.Context, m NamedModel, r *Request, now *Writing, names *names, pauses []time.Duration, last bool) (*Reply, error) {
	for attempt := 0; ; attempt++ {
		a.count(m.Name, func(c *ModelCounts) { c.Requests++ })
		reply, err := a.once(ctx, m.Model, r, *now, names)
		now.Attempt++
		if err == nil {
			a.count(m.Name, func(c *ModelCounts) { c.Usage = c.Usage.Add(reply.Usage) })
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		a.count(m.Name, func(c *ModelCounts) { c.Failures++ })
		a.opts.Logger.Warn("model failed", "thread", quoted(r.Thread), "model", m.Name, "attempt", attempt+1, "error", err)
		if IsPermanent(err) || attempt >= len(pauses) {
			return nil, err
		}
		pause := pauses[attempt]
		if later, ok := errors.AsType[*RetryError](err); ok && later.After > pause {
			if !last {
				return nil, err
			}
			pause = later.After
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// notify passes w to the watcher, if any.
func (a *Agent) notify(thread string, w Writing) {
	if a.opts.Watch != nil {
		a.opts.Watch(thread, w)
	}
}

// once asks a model once. A panic of the model counts as a failure.
func (a *Agent) once(ctx context.Context, m Model, r *Request, now Writing, names *names) (reply *Reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.opts.Attempt)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, Permanent(fmt.Errorf("the model panicked: %v", p))
		}
	}()
	if names == nil { // not shown to watchers
		reply, err = m.Reply(ctx, r)
	} else {
		now.Stage = Begins
		a.notify(r.Thread, now)
		if s, ok := m.(Streamer); ok && a.opts.Watch != nil {
			reply, err = s.Stream(ctx, r, func(d Delta) {
				now.Stage, now.Delta = Writes, names.resolveDelta(d)
				a.notify(r.Thread, now)
			})
		} else {
			reply, err = m.Reply(ctx, r)
		}
	}
	if err == nil && reply == nil {
		err = Permanent(errors.New("the model answered nothing"))
	}
	return reply, err
}
