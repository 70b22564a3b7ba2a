package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// toolOf returns a tool of a session. Without one it returns why, in words for the model.
//
// While a server cannot be reached, nobody knows whether the tool is one of its own. The
// call has the patience with it then that a dispatch has: it is asked again after the pauses
// of [Timeouts].Retry, for no longer than [Timeouts].Dispatch altogether.
func (rt *Runtime) toolOf(ctx context.Context, session, name string) (*Tool, string, error) {
	budget, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Dispatch)
	defer cancel()
	for attempt := 0; ; attempt++ {
		o, err := rt.offerOf(budget, session)
		switch {
		case ctx.Err() != nil:
			return nil, "", context.Cause(ctx)
		case err != nil && budget.Err() != nil:
			return nil, "the tool servers did not say in time which tools they have; try again later", nil
		case err != nil:
			return nil, "", err
		}
		if tool := o.byName[name]; tool != nil {
			return tool, "", nil
		}
		reason, later := rt.missing(o, name)
		if !later || !rt.pauseBeforeAsking(budget, attempt) {
			return nil, reason, context.Cause(ctx)
		}
	}
}

// missing says why there is no tool, and whether there may be one later.
func (rt *Runtime) missing(o *offer, name string) (reason string, later bool) {
	var unreached, invalid []string
	for i, err := range o.errs {
		switch {
		case err == nil:
		case errors.Is(err, errNotFetched):
			unreached = append(unreached, rt.servers[i].base)
		default:
			invalid = append(invalid, rt.servers[i].base)
		}
	}
	switch {
	case len(unreached) > 0:
		return fmt.Sprintf("tool server %s cannot be reached, and no other has a tool %s; try again later",
			strings.Join(unreached, ", "), quoted(name)), true
	case len(invalid) > 0:
		return fmt.Sprintf("there is no tool %s; the manifest of tool server %s is not valid", quoted(name), strings.Join(invalid, ", ")), false
	}
	return "there is no tool " + quoted(name), false
}

// pauseBeforeAsking waits before a call has servers asked again. It reports false if they
// are not to be.
func (rt *Runtime) pauseBeforeAsking(ctx context.Context, attempt int) bool {
	retry := rt.opts.Timeouts.Retry
	if attempt >= len(retry) {
		return false
	}
	wait := max(jitter(retry[attempt]), askAgainAfter)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-rt.leaving:
	}
	return false
}
