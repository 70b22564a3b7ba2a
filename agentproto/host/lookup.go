package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// toolOf returns a tool of a session. Without one it returns why, in words for the model.
//
// While a server cannot be reached, nobody knows whether the tool is one of its own. The
// call has the patience with it then that a dispatch has: it is asked again after the pauses
// of [Timeouts].Retry, for no longer than [Timeouts].Dispatch altogether. When that was in
// vain, other calls do not wait for the server for as long as that again, so that many of
// them take no longer than one.
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
		reason, unreached := rt.missing(o, name)
		if !rt.worthWaiting(unreached) {
			return nil, reason, nil
		}
		if !rt.retry().Wait(budget, attempt+1, askAgainAfter, rt.leaving) {
			if ctx.Err() == nil {
				giveUp(unreached)
			}
			return nil, reason, context.Cause(ctx)
		}
	}
}

// worthWaiting reports whether one of the servers that could not be reached may be waited for.
func (rt *Runtime) worthWaiting(unreached []*server) bool {
	return slices.ContainsFunc(unreached, func(s *server) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gaveUp.IsZero() || time.Since(s.gaveUp) >= rt.opts.Timeouts.Dispatch
	})
}

// giveUp remembers that servers were waited for in vain.
func giveUp(unreached []*server) {
	for _, s := range unreached {
		s.mu.Lock()
		s.gaveUp = time.Now()
		s.mu.Unlock()
	}
}

// missing says why there is no tool, and which servers that could not be reached may have it.
func (rt *Runtime) missing(o *offer, name string) (reason string, unreached []*server) {
	var silent, invalid []string
	for i, err := range o.errs {
		switch {
		case err == nil:
		case errors.Is(err, errNotFetched):
			silent, unreached = append(silent, rt.servers[i].base), append(unreached, rt.servers[i])
		default:
			invalid = append(invalid, rt.servers[i].base)
		}
	}
	switch {
	case len(silent) > 0:
		return fmt.Sprintf("tool server %s cannot be reached, and no other has a tool %s; try again later",
			strings.Join(silent, ", "), quoted(name)), unreached
	case len(invalid) > 0:
		return fmt.Sprintf("there is no tool %s; the manifest of tool server %s is not valid", quoted(name), strings.Join(invalid, ", ")), nil
	}
	return "there is no tool " + quoted(name), nil
}
