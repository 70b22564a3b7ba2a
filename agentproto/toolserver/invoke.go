package toolserver

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

// serveInvocation accepts a call. An error in the call itself, such as an unknown operation, is
// reported in its result; an answer other than 200 says that no call exists.
func (s *Server) serveInvocation(w http.ResponseWriter, r *http.Request) {
	runtime, ok := s.sender(w, r, purpose.Invoke)
	if !ok {
		return
	}
	data, err := s.body(w, r)
	if err != nil {
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
	id := tools.CallID{Runtime: origin(callback), Group: inv.GroupID, ID: inv.ID}
	if runtime != "" {
		id.Runtime = runtime
	}
	left := s.local.Acknowledging(id)
	defer left()
	_, span := tracing.Start(r.Context(), s.opts.Tracer, agentproto.SpanStart{
		Name: agentproto.SpanInvoke, Kind: agentproto.SpanServer, Parent: tracing.Extract(r.Header), Key: inv.Key(), Operation: inv.Operation, Peer: origin(callback),
	})
	if !s.accept(tools.PlaceOf(runtime, inv), id, inv, span.Trace()) {
		span.End("cannot be accepted now", true)
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
		http.Error(w, "the call cannot be accepted now", http.StatusServiceUnavailable)
		return
	}
	span.End("accepted", false)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush() // the acknowledgement is sent before the work begins
}

// retrySeconds is the Retry-After for a runtime that found the server full.
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

// accept passes an invocation to the flow, and reports whether it is durable. If not, no call
// exists.
func (s *Server) accept(at tools.Place, id tools.CallID, inv *agentproto.Invocation, trace agentproto.Trace) bool {
	name := tools.Name{Runtime: at.Runtime, Group: id.Group, ID: id.ID}
	if _, known := s.flow.Ports.Alive.Get(name); !known {
		if !s.reserve(id.Runtime) {
			return false
		}
		defer s.release(id.Runtime)
	}
	_, barred := s.flow.Ports.Bars.Get(name)
	told, err := s.flow.Ask(at, tools.In{Invoke: &tools.Invoke{Call: id, Inv: inv, Print: tools.PrintOf(inv), Epoch: rand.Text(), By: s.epoch, Barred: barred, Trace: trace}})
	if err != nil {
		s.log.Error("invocation refused: it cannot be put into the state", "tool", inv.Operation, "error", err)
		return false
	}
	if told.Other {
		s.log.Warn("an id was used for another call", "tool", inv.Operation)
	}
	if _, now := s.flow.Ports.Bars.Get(name); now && !barred { // the cancellation arrived meanwhile
		if _, err := s.flow.Ask(at, tools.In{Cancel: &tools.Cancel{Group: id.Group, ID: id.ID}}); err != nil {
			s.log.Error("call is not cancelled", "tool", inv.Operation, "error", err)
		}
	}
	return told.Refused == ""
}

// Limits on undelivered messages in bytes: a runtime at maxRuntimeBytes gets no further call, and
// at maxBytes in total no runtime does.
const maxRuntimeBytes, maxBytes = 64 << 20, 256 << 20

// reserve reports whether one more call of a runtime can be accepted. It counts the call until
// release, by which time the flow counts it. A function that goes on although its call is over
// counts too.
func (s *Server) reserve(runtime string) bool {
	loads, _ := s.flow.Ports.Load.Latest()
	running, ofRuntime := s.local.Running(runtime)
	s.mu.Lock()
	defer s.mu.Unlock()
	load := loads.Of[runtime]
	if s.closing || max(int(loads.All.Calls), running)+s.pending[""] >= s.opts.MaxCalls ||
		max(int(load.Calls), ofRuntime)+s.pending[runtime] >= s.opts.MaxRuntimeCalls ||
		loads.All.Bytes >= maxBytes || load.Bytes >= maxRuntimeBytes {
		return false
	}
	s.pending[""]++
	s.pending[runtime]++
	return true
}

func (s *Server) release(runtime string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[""]--
	if s.pending[runtime]--; s.pending[runtime] == 0 {
		delete(s.pending, runtime)
	}
}
