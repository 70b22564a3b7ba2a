package toolserver

import (
	"context"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/agentproto"
)

// serveCancel cancels the call that is named by thread and id. The answer does not
// tell whether there is one.
func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeCancelToolCall(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	s.abandon(func(k callKey) bool { return k.CallKey == msg.Key() && (runtime == "" || runtime == k.runtime) })
}

// serveClose cancels the calls of a thread.
func (s *Server) serveClose(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeCloseThread(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	s.abandon(func(k callKey) bool { return k.GroupID == msg.ThreadID && (runtime == "" || runtime == k.runtime) })
}

func (s *Server) notification(w http.ResponseWriter, r *http.Request) (runtime string, data []byte, ok bool) {
	if runtime, ok = s.sender(w, r); !ok {
		return "", nil, false
	}
	data, ok = s.body(w, r)
	return runtime, data, ok
}

// abandon cancels the calls whose key is meant.
func (s *Server) abandon(meant func(callKey) bool) {
	s.mu.Lock()
	var found []*call
	for k, c := range s.calls {
		if meant(k) {
			found = append(found, c)
		}
	}
	s.mu.Unlock()
	for _, c := range found {
		c.abandon(ErrCancelled)
	}
}

// Close ends the server. Invocations are answered 503 from now on, and calls that
// wait for a user end with an error result, since the answer could not be received
// any more. Close waits until the functions that are running have returned and
// every message is delivered.
//
// If ctx ends before, Close cancels what is left and returns an error that wraps
// ctx's. Messages that were not delivered by then are lost.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		close(s.leaving)
		s.checkIdle()
	}
	s.mu.Unlock()

	defer s.closeIdleConnections()
	select {
	case <-s.idle:
		s.abort()
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	left := len(s.calls)
	for _, c := range s.calls {
		c.cancel(ErrClosing)
	}
	s.mu.Unlock()
	s.abort()
	return fmt.Errorf("toolserver: closed with %d unfinished calls: %w", left, context.Cause(ctx))
}

// checkIdle tells Close when there is nothing left to wait for. s.mu is held.
func (s *Server) checkIdle() {
	if !s.closing || len(s.calls) > 0 {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

func (s *Server) closeIdleConnections() {
	for _, t := range s.own {
		t.CloseIdleConnections()
	}
}
