package toolserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// Step does f once for a call and keeps what it returns with the call: when the function of
// the tool runs again, because the server was restarted or the session has moved, Step returns
// that without calling f. It is for what an outside system answered and will not answer a
// second time, such as the id of a job that was begun there.
//
// Name tells the steps of one call apart. The result is kept as JSON, and is on the disk when
// Step returns; with a server that has no [Options.State] it lasts as long as the process. An
// error of f is returned and not kept, so f is called again by the next run. If the process
// is killed while f runs, or before its result is kept, f is called again too: mark with
// [Began] what must not happen twice.
//
// A call keeps up to 256 steps and 1 MiB of names and results. Step returns an error beyond
// that, if the result cannot be written as JSON or has a credential in it, and where
// [Choose] does when the call is over. It panics if ctx is not one of a tool function. Two
// steps of one name at the same time may both call f; the one that is kept first is returned
// by both.
func Step[T any](ctx context.Context, name string, f func(ctx context.Context) (T, error)) (T, error) {
	c := callOf(ctx, "Step")
	if out, ok, err := recalled[T](ctx, c, name); ok || err != nil {
		return out, err
	}
	out, err := f(ctx)
	if err != nil {
		return out, err
	}
	data, err := json.Marshal(out)
	if err != nil {
		return out, fmt.Errorf("toolserver: Step: the result of %q cannot be written: %w", name, err)
	}
	kept, err := c.keep(ctx, stepName(name), data)
	if err != nil || kept == nil {
		return out, err
	}
	var before T
	if err := json.Unmarshal(kept, &before); err != nil {
		return before, fmt.Errorf("toolserver: Step: the result of %q cannot be read: %w", name, err)
	}
	return before, nil
}

// Stepped returns the result that [Step] has kept under a name for the call, in this run of the
// function or an earlier one, and reports whether there is one. It returns an error if that
// cannot be read as T, and panics if ctx is not one of a tool function.
func Stepped[T any](ctx context.Context, name string) (out T, ok bool, err error) {
	return recalled[T](ctx, callOf(ctx, "Stepped"), name)
}

// began is the name of the step that [Began] keeps. A name of [Step] begins with another letter.
const began = "!began"

// stepName is the name under which a step is kept.
func stepName(name string) string { return "." + name }

// Began marks the point from which a call must not be repeated: just before something is sent
// that has an effect outside. The mark is on the disk when Began returns nil. If a run of the
// function before this one had set it, Began returns [ErrBegan]: what was sent then may have
// been carried out, and the function decides whether it asks, repeats or gives up. Called
// again in the run that has set the mark, it returns nil.
//
// Unlike [ToolOptions.RunOnce], which gives up every call that a restart has interrupted, it
// lets a call go on that was interrupted before anything was sent. It returns other errors
// where [Step] does, and panics if ctx is not one of a tool function.
func Began(ctx context.Context) error {
	c := callOf(ctx, "Began")
	// The flow gives a run that a restart has interrupted to the next process as it is, so a
	// number alone does not name it.
	mine, err := json.Marshal(fmt.Sprint(c.server.epoch, " ", c.job.Number))
	if err != nil {
		return err
	}
	mark, ok, err := c.recall(ctx, began)
	if err == nil && !ok {
		if mark, err = c.keep(ctx, began, mine); mark == nil {
			mark = mine
		}
	}
	if err == nil && string(mark) != string(mine) {
		err = ErrBegan
	}
	return err
}

func recalled[T any](ctx context.Context, c *call, name string) (out T, ok bool, err error) {
	data, ok, err := c.recall(ctx, stepName(name))
	if err != nil || !ok {
		return out, false, err
	}
	if err = json.Unmarshal(data, &out); err != nil {
		err = fmt.Errorf("toolserver: Step: the result of %q cannot be read: %w", name, err)
	}
	return out, true, err
}

// recall returns a step that is kept. The first time it asks the flow, unless the call has come to
// this process and begins here.
func (c *call) recall(ctx context.Context, name string) (data []byte, ok bool, err error) {
	c.mu.Lock()
	known := c.steps != nil
	c.mu.Unlock()
	var told tools.Told
	if !known && c.job.By != c.server.epoch {
		if told, err = c.posted(ctx, tools.Post{Recall: true}); err != nil {
			return nil, false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps == nil {
		c.steps = make(map[string][]byte)
	}
	for _, s := range told.Steps {
		c.steps[s.Name] = s.Data
	}
	data, ok = c.steps[name]
	return data, ok, nil
}

// keep keeps a step and returns nil, or what was kept under the name before.
func (c *call) keep(ctx context.Context, name string, data []byte) ([]byte, error) {
	if c.server.guard.Finds(data) {
		return nil, errStepLeak // it is kept, and moved, as it is
	}
	told, err := c.posted(ctx, tools.Post{Step: &tools.Step{Name: name, Data: data}})
	if err != nil {
		return nil, err
	}
	kept := data
	if told.Known {
		kept = told.Data
	}
	c.mu.Lock()
	c.steps[name] = kept // recall has made it
	c.mu.Unlock()
	if told.Known {
		return kept, nil
	}
	return nil, nil
}
