package toolserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// Step calls f once for a call and stores its result with the call. When the tool's function runs
// again, because the server was restarted or the session has moved, Step returns the stored result
// without calling f. It is for answers of outside systems that cannot be obtained a second time,
// such as the id of a job that was started there.
//
// Name distinguishes the steps of one call. The result is stored as JSON, and is on disk when Step
// returns; in a server without [Options.State] it lasts as long as the process. An error of f is
// returned and not stored, so the next run calls f again. If the process is killed while f runs, or
// before its result is stored, f is called again too: mark an operation that must not happen twice
// with [Began].
//
// A call stores up to 256 steps and 1 MiB of names and results. Step returns an error beyond that,
// if the result cannot be written as JSON or contains a credential, and where [Choose] does when
// the call is over. It panics if ctx is not one of a tool function. Two concurrent steps with the
// same name may both call f; both return the result that is stored first.
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

// Stepped returns the result that [Step] has stored under a name for the call, in this run of the
// function or an earlier one, and reports whether there is one. It returns an error if the result
// cannot be read as T, and panics if ctx is not one of a tool function.
func Stepped[T any](ctx context.Context, name string) (out T, ok bool, err error) {
	return recalled[T](ctx, callOf(ctx, "Stepped"), name)
}

// began is the name of the step that [Began] stores. The names of [Step] begin with another
// character.
const began = "!began"

// stepName is the name under which a step is stored.
func stepName(name string) string { return "." + name }

// Began marks the point from which a call must not be repeated: just before something with an
// outside effect is sent. The mark is on disk when Began returns nil. If an earlier run of the
// function had set it, Began returns [ErrBegan]: the effect may have happened, and the function
// decides whether to ask, repeat or give up. Called again in the run that set the mark, Began
// returns nil.
//
// Unlike [ToolOptions.RunOnce], which gives up every call that a restart interrupts, Began lets a
// call continue if it was interrupted before anything was sent. It returns other errors where
// [Step] does, and panics if ctx is not one of a tool function.
func Began(ctx context.Context) error {
	c := callOf(ctx, "Began")
	// The flow hands an interrupted run to the next process unchanged, so its number alone does not
	// identify it.
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

// recall returns a stored step. The first time, it asks the flow, unless this process accepted the
// call, which then starts without steps.
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

// keep stores a step and returns nil, or the data that was stored under the name before.
func (c *call) keep(ctx context.Context, name string, data []byte) ([]byte, error) {
	if c.server.guard.Finds(data) {
		return nil, errStepLeak // the data is stored, and moved, as it is
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
	c.steps[name] = kept // made by recall
	c.mu.Unlock()
	if told.Known {
		return kept, nil
	}
	return nil, nil
}
