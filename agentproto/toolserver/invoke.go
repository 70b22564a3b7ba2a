package toolserver

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// A callKey names a call of any runtime. The ids of the protocol are unique in
// one thread of one runtime only.
type callKey struct {
	runtime string // what Authenticate returned, or the origin of the callback_url
	agentproto.CallKey
	reply string // which repeated invocation it answers; empty for a call itself
}

// digest returns what is remembered of a finished call.
func (k callKey) digest() digest {
	names := []string{k.runtime, k.GroupID, k.ID}
	if k.reply != "" {
		names = append(names, k.reply)
	}
	list, _ := json.Marshal(names)
	return sha256.Sum256(list)
}

// serveInvocation accepts a call. Whatever is wrong with the call itself, such as
// an unknown operation, is told in its result; an answer other than 200 says that
// there is no call.
func (s *Server) serveInvocation(w http.ResponseWriter, r *http.Request) {
	runtime, ok := s.sender(w, r, purpose.Invoke)
	if !ok {
		return
	}
	data, ok := s.body(w, r)
	if !ok {
		return
	}
	inv, err := agentproto.DecodeInvocation(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	callback, ok := s.callbackURL(inv.CallbackURL)
	if !ok {
		s.log.Warn("invocation refused: its callback_url is not allowed", "tool", inv.Operation)
		http.Error(w, `member "/callback_url" is not an allowed http or https URL`, http.StatusBadRequest)
		return
	}
	if runtime == "" {
		runtime = origin(callback)
	}
	c, status := s.accept(callKey{runtime: runtime, CallKey: inv.Key()}, inv, callback)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
		http.Error(w, "the call cannot be accepted now", status)
		return
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
	if c == nil {
		return // a repeated invocation
	}
	http.NewResponseController(w).Flush() // the acknowledgement leaves before the work begins
	go c.run()
}

// retrySeconds is when a runtime that found the server full should come back.
const retrySeconds = 2

// callbackURL parses a callback_url and reports whether messages may be sent there.
func (s *Server) callbackURL(raw string) (*url.URL, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, false
	}
	u.Host = strings.ToLower(u.Host)
	if allowed := s.opts.CallbackOrigins; allowed != nil && !slices.Contains(allowed, origin(u)) {
		return nil, false
	}
	if err := s.opts.callbackNetworks().CheckURL(u); err != nil {
		s.log.Warn("callback_url leads to a network that is not allowed; see Options.AllowNetworks", "error", err)
		return nil, false
	}
	return u, true
}

// accept adds a call unless it is known, and returns the status to answer with. The
// answer 200 says that the call is in the store, also where it is another request
// that put it there.
func (s *Server) accept(key callKey, inv *agentproto.Invocation, callback *url.URL) (*call, int) {
	s.mu.Lock()
	if s.moves.holds(key.runtime, sessionOf(inv)) {
		s.mu.Unlock()
		return nil, http.StatusServiceUnavailable
	}
	if c := s.calls[key]; c != nil {
		s.mu.Unlock()
		if <-c.kept; c.keptErr != nil {
			return nil, http.StatusServiceUnavailable
		}
		if status := s.again(c, inv, callback); status != 0 {
			return nil, status
		}
		s.mu.Lock()
	}
	if f, err := s.isFinished(key.digest()); f.known && err == nil {
		s.mu.Unlock()
		return nil, s.againFinished(key, f, inv, callback)
	} else if err != nil || s.calls[key] != nil || s.full(key.runtime) {
		s.mu.Unlock()
		return nil, http.StatusServiceUnavailable
	}
	c := newCall(s, key, inv, callback)
	c.tool = s.byName[inv.Operation]
	s.enter(c)
	s.mu.Unlock()

	c.keptErr = s.keepCall(c)
	close(c.kept)
	if c.keptErr != nil {
		s.log.Error("invocation refused: it cannot be put into the store", "tool", inv.Operation, "error", c.keptErr)
		s.remove(c)
		return nil, http.StatusServiceUnavailable
	}
	return c, http.StatusOK
}

// full reports whether no further call of a runtime can be accepted. s.mu is held.
func (s *Server) full(runtime string) bool {
	return s.closing || len(s.calls) >= s.opts.MaxCalls || s.occupied[runtime] >= s.opts.MaxRuntimeCalls
}

// enter makes a call known, which is not known yet. s.mu is held.
func (s *Server) enter(c *call) {
	s.calls[c.key] = c
	s.occupied[c.key.runtime]++
}

// remove forgets a call for which nothing runs any more.
func (s *Server) remove(c *call) {
	c.cut(nil)
	c.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.key] != nil {
		delete(s.calls, c.key)
		if s.occupied[c.key.runtime]--; s.occupied[c.key.runtime] == 0 {
			delete(s.occupied, c.key.runtime)
		}
	}
	s.checkIdle()
	c.over.Do(func() { close(c.returned) })
	c.removed.Do(func() { close(c.gone) })
}
