package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/internal/edge"
)

// A status is what a tool server says about a call.
type status int

const (
	unknownStatus status = iota // it did not say: go on waiting
	aliveStatus
	lostStatus
)

// watch asks a tool server from time to time whether it has a call, or its subscription,
// still, as [agentproto.ProgramOptions] asks. A call of a process before this one is asked
// for at once. It returns why the call is lost, or "" when it is over.
//
// Whether the subscription that a call opened before this process is over is not known
// here; for one that is, the answer that it is lost has no effect.
func (rt *Runtime) watch(ctx context.Context, w *agentproto.Watched) string {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return ""
	}
	s := rt.serverOf(w.Server)
	if s == nil {
		return "" // its tool server is no longer configured
	}
	ours := rt.attempts.watch(w.Key)
	settled, end := rt.begin(w.Key)
	defer end()
	if _, resolved := rt.program.Resolved(w.Key); resolved {
		settled = nil // nobody here has seen it
	}
	wait := rt.opts.Timeouts.Status
	if !ours {
		wait = 0
	}
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		select {
		case <-settled:
			settled, ours = nil, true
			if rt.isOver(w.Key, ours) {
				return ""
			}
			continue
		case <-ctx.Done():
			return ""
		case <-next.C:
		}
		if rt.isOver(w.Key, ours) {
			return ""
		}
		if state, reason := rt.askStatus(ctx, s, w.Key); state == lostStatus {
			return reason
		}
		next.Reset(rt.opts.Timeouts.Status)
	}
}

// isOver reports whether a call is resolved and has no open subscription. If this process has not seen it being
// resolved, a subscription that it opened is taken for open.
func (rt *Runtime) isOver(key agentproto.CallKey, seen bool) bool {
	r, resolved := rt.program.Resolved(key)
	switch {
	case !resolved:
		return false
	case r.Cause != agentproto.ByResult || !r.Result.Subscription:
		return true
	}
	return seen && !rt.subscribed.isOpen(key) || rt.subscribed.hasEnded(key)
}

// askStatus asks a tool server whether it has a call still. The reason says why the call
// is lost.
//
// It is asked in its turn among the notifications, so a server that hangs is asked about a
// few calls at a time, and nobody else waits.
func (rt *Runtime) askStatus(ctx context.Context, s *server, key agentproto.CallKey) (status, string) {
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Notify)
	defer cancel()
	select {
	case s.notices <- struct{}{}:
		defer func() { <-s.notices }()
	case <-ctx.Done():
		return unknownStatus, ""
	}
	body, err := agentproto.Encode(&agentproto.CancelToolCall{ThreadID: key.GroupID, ToolCallID: key.ID})
	if err != nil {
		return unknownStatus, ""
	}
	const path = "/tool_call_status"
	a, err := rt.post(ctx, s, s.base+path, freshID(purpose.Status), body, maxReply)
	if err != nil {
		rt.log.Debug("status not known", keyAttr(key), "toolset", s.base, "error", err)
		return unknownStatus, ""
	}
	return statusOf(a)
}

// statusOf reads the answer to the question for a call. An answer that breaks off is none.
func statusOf(a *edge.Answer) (status, string) {
	switch tooLong := errors.Is(a.Broken, edge.ErrTooLong); {
	case a.Status == http.StatusTooManyRequests:
		return unknownStatus, ""
	case a.Status >= 400 && a.Status <= 499:
		return lostStatus, fmt.Sprintf("it answered %d when it was asked for it", a.Status)
	case !a.OK() || a.Broken != nil && !tooLong:
		return unknownStatus, ""
	}
	var answer struct {
		Alive *bool `json:"alive"`
	}
	switch err := json.Unmarshal(a.Body, &answer); {
	case a.Broken != nil || err != nil || answer.Alive == nil:
		return lostStatus, "it was asked for it, and did not say whether it has it"
	case !*answer.Alive:
		return lostStatus, "it does not have it any more"
	}
	return aliveStatus, ""
}
