package toolserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// Limits on the notifications of one runtime: a rate per second and a burst. They are far above
// what a runtime sends that closes a thousand threads. They keep a malfunctioning runtime, or
// somebody with its credentials, from keeping the server busy (threat 28 of doc/threats.md). A
// migration costs much more than the others.
const (
	noticeRate, noticeBurst   = 500, 5000
	migrateRate, migrateBurst = 10, 200
)

// serveCancel cancels the call with a thread and id. The answer does not say whether such a call
// exists.
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
	if !s.noticed.First(runtime, r) {
		return
	}
	s.cancel(runtime, msg.ThreadID, msg.ToolCallID)
}

// serveClose cancels the calls of a thread and ends its grants. The answer is 200 even if that
// fails (case X05).
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
	if !s.noticed.First(runtime, r) {
		return
	}
	s.cancel(runtime, msg.ThreadID, "")
	s.mover.Closed(tools.Place{Runtime: runtime, Session: msg.ThreadID})
}

func (s *Server) notification(w http.ResponseWriter, r *http.Request, what string) (runtime string, data []byte, ok bool) {
	if runtime, ok = s.sender(w, r, what); !ok {
		return "", nil, false
	}
	limit := &s.notices
	if what == purpose.Migrate {
		limit = &s.migrating
	}
	if limit.Slow(w, runtime) {
		return "", nil, false
	}
	data, err := s.body(w, r)
	return runtime, data, err == nil
}

// cancel ends a call of a thread, or, if id is empty, all its calls and its grants. It returns once
// that is durable, so that no restart revives a call that the runtime was told is cancelled.
func (s *Server) cancel(runtime, thread, id string) {
	root := tools.Place{Runtime: runtime, Session: thread}
	places := []tools.Place{root}
	if at := s.flow.PlaceOf(runtime, thread); at != root {
		places = append(places, at)
	}
	for _, at := range places {
		if _, err := s.flow.Ask(at, tools.In{Cancel: &tools.Cancel{Group: thread, ID: id}}); err != nil {
			s.log.Error("the end of a call is not in the state", "error", err)
		}
	}
}

// Close shuts the server down. From now on, invocations are answered 503. Close waits until all
// running functions have returned and every message is delivered.
//
// Calls that wait for a user stop waiting, since the answer could no longer be received. In memory
// they end with an error result, and subscriptions end without a final event. With [Options.State]
// both continue when the server is started again.
//
// If ctx ends first, Close cancels the remaining calls and returns an error that wraps ctx's. With
// [Options.State] nothing is lost: after the next start, the functions run again and the messages
// are sent. In memory they are lost.
func (s *Server) Close(ctx context.Context) error {
	s.flow.GiveUp() // a Start in progress waits as long as the disk is full

	s.start.Do(func() { s.startErr = ErrClosing }) // nothing was started
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		close(s.leaving)
	}
	s.mu.Unlock()
	defer s.closeIdleConnections()
	if s.startErr != nil {
		s.abort()
		return s.state.Close()
	}
	s.local.Each(func(f *running.Function) {
		if f.Producer {
			f.Suspend(ErrClosing)
		}
	})
	err := s.idle(ctx)
	if err != nil {
		err = fmt.Errorf("toolserver: closed with %d unfinished calls: %w", s.flow.Load().Calls, err)
		s.local.Each(func(f *running.Function) { f.Suspend(ErrClosing) })
	}
	return errors.Join(err, s.end(), s.state.Close())
}

// idle waits until no function runs and every message is delivered. It does not wait for calls that
// the next process continues.
func (s *Server) idle(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	loads := make(chan tools.Loads)
	go func() {
		defer close(loads)
		for l := range s.flow.Ports.Load.Watch(ctx) {
			select {
			case loads <- l:
			case <-ctx.Done():
				return
			}
		}
	}()
	now, _ := s.flow.Ports.Load.Latest()
	for {
		changed, functions, suspended := s.local.Wait()
		alive := slices.DeleteFunc(slices.Clone(suspended), func(n tools.Name) bool {
			_, ok := s.flow.Ports.Alive.Get(n)
			return !ok
		})
		if functions == 0 && now.All.Busy == 0 && int(now.All.Calls) == len(alive) {
			return nil
		}
		select {
		case l, ok := <-loads:
			if !ok {
				return cmp.Or(context.Cause(ctx), running.ErrFlow)
			}
			now = l
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stopTimeout is how long the flow may take to stop.
const stopTimeout = 10 * time.Second

// end stops the flow. The next process does what is left.
func (s *Server) end() error {
	s.abort()
	ctx, stop := context.WithTimeout(context.Background(), stopTimeout)
	defer stop()
	if err := s.flow.Stop(ctx); err != nil && s.opts.State != "" {
		return fmt.Errorf("toolserver: the state was not closed in order: %w", err)
	}
	return nil
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

func (s *Server) closeIdleConnections() {
	for _, t := range s.own {
		t.CloseIdleConnections()
	}
}

// serveStatus reports whether anything is still expected of a call: its result, or an event of its
// subscription. It reports nothing else; a call of another runtime looks like one that never
// existed. The answer is false only after the last message was delivered or given up, so a runtime
// that then prunes the call loses nothing. The path is an extension of the protocol
// (doc/protocol.md §9.4).
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
	if _, ok := s.flow.Ports.Alive.Get(tools.Name{Runtime: runtime, Group: msg.ThreadID, ID: msg.ToolCallID}); ok {
		body = `{"alive":true}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write([]byte(body))
}
