package peer

import (
	"context"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// MaxNotices is how many notifications to one tool server may be in flight.
const MaxNotices = 64

// CancelEverywhere tells every tool server that nobody waits for a call any longer.
func (ps *Peers) CancelEverywhere(key agentproto.CallKey) {
	ps.broadcast(purpose.Cancel, "/cancel_tool_call", &agentproto.CancelToolCall{ThreadID: key.GroupID, ToolCallID: key.ID})
}

// CloseEverywhere tells every tool server that a thread is closed.
func (ps *Peers) CloseEverywhere(groupID string) {
	ps.broadcast(purpose.Close, "/close_thread", &agentproto.CloseThread{ThreadID: groupID})
}

// broadcast posts a message to every configured tool server, even without a valid manifest: the server may have had one when a
// call was made. It returns at once. Each server gets one attempt within the notification timeout, including the wait for a slot,
// so a server that hangs delays nobody. The answers are ignored, because not every server has these endpoints.
func (ps *Peers) broadcast(what, path string, message any) {
	for _, s := range ps.All {
		ps.Notify(s, what, path, message)
	}
}

// Notify posts a message to one tool server, as broadcast does to each.
func (ps *Peers) Notify(s *Server, what, path string, message any) {
	body, err := agentproto.Encode(message)
	if err != nil {
		ps.config.Log.Error("notification cannot be encoded", "path", path, "error", err)
		return
	}
	id := FreshID(what)
	ps.config.Spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, ps.config.Notify)
		defer cancel()
		select {
		case s.notices <- struct{}{}:
			defer func() { <-s.notices }()
		case <-ctx.Done():
			ps.config.Log.Debug("notification given up", "toolset", s.Base, "path", path)
			return
		}
		switch a, err := ps.Post(ctx, s, s.Base+path, id, body, 0); {
		case err != nil:
			ps.config.Log.Debug("notification not delivered", "toolset", s.Base, "path", path, "error", err)
		case !a.OK():
			ps.config.Log.Debug("notification not accepted", "toolset", s.Base, "path", path, "status", a.Status)
		}
	})
}
