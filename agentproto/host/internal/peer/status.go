package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/internal/edge"
)

// An Answer is a tool server's answer about a call.
type Answer int

const (
	unknownStatus Answer = iota // the server did not say: keep waiting
	aliveStatus
	Lost
)

// AskStatus asks a tool server whether it still has a call. The reason says why the call is lost.
//
// It takes a slot among the notifications, so that a server that hangs is asked about only a few calls at a time, and does not
// delay others.
func (ps *Peers) AskStatus(ctx context.Context, s *Server, key agentproto.CallKey) (Answer, string) {
	ctx, cancel := context.WithTimeout(ctx, ps.config.Notify)
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
	a, err := ps.Post(ctx, s, s.Base+path, FreshID(purpose.Status), body, MaxReply)
	if err != nil {
		ps.config.Log.Debug("status not known", quote.Call(key), "toolset", s.Base, "error", err)
		return unknownStatus, ""
	}
	return statusOf(a)
}

// statusOf evaluates the answer about a call. An incomplete answer counts as none.
func statusOf(a *edge.Answer) (Answer, string) {
	switch tooLong := errors.Is(a.Broken, edge.ErrTooLong); {
	case a.Status == http.StatusTooManyRequests:
		return unknownStatus, ""
	case a.Status >= 400 && a.Status <= 499:
		return Lost, fmt.Sprintf("it answered %d when it was asked for it", a.Status)
	case !a.OK() || a.Broken != nil && !tooLong:
		return unknownStatus, ""
	}
	var answer struct {
		Alive *bool `json:"alive"`
	}
	switch err := json.Unmarshal(a.Body, &answer); {
	case a.Broken != nil || err != nil || answer.Alive == nil:
		return Lost, "it was asked for it, and did not say whether it has it"
	case !*answer.Alive:
		return Lost, "it no longer has it"
	}
	return aliveStatus, ""
}
