package runtime

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
)

// A status is what a tool server says about a call.
type status int

const (
	unknownStatus status = iota // it did not say: go on waiting
	aliveStatus
	lostStatus
)

// askStatus asks a tool server whether it has a call still. The reason says why the call
// is lost, as a predicate.
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
	req, err := newPost(ctx, s, s.base+path, idOf(path, string(body), fmt.Sprint(time.Now().UnixNano())), body)
	if err != nil {
		return unknownStatus, ""
	}
	resp, err := rt.http.Do(req)
	if err != nil {
		rt.log.Debug("status not known", keyAttr(key), "toolset", s.base, "error", redacted(err))
		return unknownStatus, ""
	}
	defer resp.Body.Close()
	return statusOf(resp)
}

// statusOf reads the answer to the question for a call. An answer that breaks off is none.
func statusOf(resp *http.Response) (status, string) {
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return unknownStatus, ""
	case resp.StatusCode >= 400 && resp.StatusCode <= 499:
		return lostStatus, fmt.Sprintf("was asked for the call and answered %d", resp.StatusCode)
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return unknownStatus, ""
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return unknownStatus, ""
	}
	var answer struct {
		Alive *bool `json:"alive"`
	}
	switch err := json.Unmarshal(data, &answer); {
	case len(data) > maxReply || err != nil || answer.Alive == nil:
		return lostStatus, "was asked for the call and did not say whether it has it"
	case !*answer.Alive:
		return lostStatus, "does not have the call any more"
	}
	return aliveStatus, ""
}
