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

// A Answer is what a tool server says about a call.
type Answer int

const (
	unknownStatus Answer = iota // it did not say: go on waiting
	aliveStatus
	Lost
)

// AskStatus asks a tool server whether it has a call still. The reason says why the call
// is lost.
//
// It is asked in its turn among the notifications, so a server that hangs is asked about a
// few calls at a time, and nobody else waits.
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

// statusOf reads the answer to the question for a call. An answer that breaks off is none.
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
