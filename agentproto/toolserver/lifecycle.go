package toolserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// serveCancel cancels the call that is named by thread and id. The answer does not
// tell whether there is one.
func (s *Server) serveCancel(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r, purpose.Cancel)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeCancelToolCall(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	if !s.noticed.first(runtime, r) {
		return
	}
	s.abandon(func(k callKey) bool { return k.CallKey == msg.Key() && (runtime == "" || runtime == k.runtime) })
}

// serveClose cancels the calls of a thread and ends what was granted to it. The
// answer is 200 also if that fails (case X05).
func (s *Server) serveClose(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r, purpose.Close)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeCloseThread(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	if !s.noticed.first(runtime, r) {
		return
	}
	s.abandon(func(k callKey) bool { return k.GroupID == msg.ThreadID && (runtime == "" || runtime == k.runtime) })
	s.revoke(runtime, msg.ThreadID)
	s.closed(session{runtime, msg.ThreadID})
}

func (s *Server) notification(w http.ResponseWriter, r *http.Request, what string) (runtime string, data []byte, ok bool) {
	if runtime, ok = s.sender(w, r, what); !ok {
		return "", nil, false
	}
	limit := &s.notices
	if what == purpose.Migrate {
		limit = &s.moving
	}
	if limit.slow(w, runtime) {
		return "", nil, false
	}
	data, ok = s.body(w, r)
	return runtime, data, ok
}

// abandon cancels the calls whose key is meant. It returns when that is durable, so
// that no restart brings back what a runtime was told is cancelled.
func (s *Server) abandon(meant func(callKey) bool) {
	s.mu.Lock()
	for _, m := range s.moves {
		if m.phase == phaseFrozen || m.phase == phaseDoubt {
			m.cancelled = append(m.cancelled, meant)
		}
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range s.known(meant) {
		all.Go(func() { c.abandon(false) })
	}
	all.Wait()
}

// known returns the calls that are not finished and whose key is meant.
func (s *Server) known(meant func(callKey) bool) (found []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range s.calls {
		if meant(k) {
			found = append(found, c)
		}
	}
	return found
}

// Close ends the server. Invocations are answered 503 from now on. Close waits until
// the functions that are running have returned and every message is delivered.
//
// Calls that wait for a user do not go on waiting, since the answer could not be
// received any more. In memory they end with an error result, and subscriptions end
// without a word. With [Options.State] both go on when the server is started again.
//
// If ctx ends before, Close cancels what is left and returns an error that wraps
// ctx's. With [Options.State] nothing is lost then: functions run again and messages
// are sent after the next start. In memory it is lost.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		close(s.leaving)
		s.checkIdle()
	}
	s.mu.Unlock()
	for _, c := range s.known(func(callKey) bool { return true }) {
		c.suspendProducer()
	}

	defer s.closeIdleConnections()
	select {
	case <-s.idle:
		s.abort()
		return s.store.close()
	case <-ctx.Done():
	}
	left := s.known(func(callKey) bool { return true })
	for _, c := range left {
		c.suspend(ErrClosing)
	}
	s.abort()
	return errors.Join(
		fmt.Errorf("toolserver: closed with %d unfinished calls: %w", len(left), context.Cause(ctx)),
		s.store.close())
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
