package toolserver

import (
	"net/http"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// serveStatus tells whether something is still to be expected of a call: its result,
// or an event of its subscription. It tells nothing else; a call of another runtime
// is like one that never was. The answer is false only after the last message was
// delivered or given up, so that a runtime which prunes the call loses nothing.
// The path is an extension of the protocol (doc/protocol.md §9.4).
func (s *Server) serveStatus(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r, purpose.Status)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeCancelToolCall(data, s.opts.Limits) // it has the same members
	if err != nil {
		refuse(w, err)
		return
	}
	body := `{"alive":false}`
	if _, ok := s.ports.Alive.Get(tools.Name{Runtime: runtime, Group: msg.ThreadID, ID: msg.ToolCallID}); ok {
		body = `{"alive":true}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write([]byte(body))
}
