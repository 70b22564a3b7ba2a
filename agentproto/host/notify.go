package host

import (
	"context"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// maxNotices is how many notifications are in flight to one tool server.
const maxNotices = 64

// cancelEverywhere tells every tool server that nobody waits for a call.
func (rt *Runtime) cancelEverywhere(key agentproto.CallKey) {
	rt.broadcast(purpose.Cancel, "/cancel_tool_call", &agentproto.CancelToolCall{ThreadID: key.GroupID, ToolCallID: key.ID})
}

// closeEverywhere tells every tool server that a thread is closed.
func (rt *Runtime) closeEverywhere(groupID string) {
	rt.broadcast(purpose.Close, "/close_thread", &agentproto.CloseThread{ThreadID: groupID})
}

// broadcast posts a message to every configured tool server, to those without a
// valid manifest too: they may have had one when a call was made. It returns at
// once. Each server gets one attempt within the notification timeout, turn
// included, so a server that hangs costs nobody anything; what it answers is of
// no interest, since not every server has these endpoints.
func (rt *Runtime) broadcast(what, path string, message any) {
	for _, s := range rt.servers {
		rt.notify(s, what, path, message)
	}
}

// notify posts a message to one tool server, as broadcast does to each.
func (rt *Runtime) notify(s *server, what, path string, message any) {
	body, err := agentproto.Encode(message)
	if err != nil {
		rt.log.Error("notification cannot be encoded", "path", path, "error", err)
		return
	}
	id := freshID(what)
	rt.spawn(func() {
		ctx, cancel := context.WithTimeout(rt.ctx, rt.opts.Timeouts.Notify)
		defer cancel()
		select {
		case s.notices <- struct{}{}:
			defer func() { <-s.notices }()
		case <-ctx.Done():
			rt.log.Debug("notification given up", "toolset", s.base, "path", path)
			return
		}
		switch a, err := rt.post(ctx, s, s.base+path, id, body, 0); {
		case err != nil:
			rt.log.Debug("notification not delivered", "toolset", s.base, "path", path, "error", err)
		case !a.OK():
			rt.log.Debug("notification not accepted", "toolset", s.base, "path", path, "status", a.Status)
		}
	})
}
