package host

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A forwarded is a callback that came to a host that the session has left.
type forwarded struct {
	Toolset string // that the callback URL was made for
	Key     agentproto.CallKey
	Allowed kinds
	// Incarnation and Lifetime are those of the callback URL.
	Incarnation uint64
	Lifetime    time.Duration
	Header      map[string]string // those of forwardedHeaders that were there
	Body        []byte
}

// forwardedHeaders are the headers of a callback that mean something.
var forwardedHeaders = []string{"Content-Type", "Content-Encoding", "webhook-id"}

// A forwardedAnswer is what the tool is answered.
type forwardedAnswer struct {
	Status     int
	RetryAfter string
	Body       []byte
}

// elsewhere handles a callback of a thread that is on its way or lives at another host:
// the first has to wait, the second is handed on. It reports whether it was one.
//
// The callback URLs that tools have name this host, so it stays their forwarder for as
// long as they are valid. See doc/protocol.md §10.4.
func (p *posted) elsewhere(body []byte) bool {
	m := p.rt.moves
	if m.ports == nil {
		return false
	}
	thread := p.capability.key.GroupID
	if m.isFrozen(thread) {
		p.later(2 * time.Second)
		return true
	}
	host, _ := m.ports.placeOf(thread)
	if host == "" {
		return false
	}
	set := p.rt.knownOf(p.r.Context(), p.server)
	if set == nil {
		p.later(5 * time.Second)
		return true
	}
	f := &forwarded{
		Toolset: set.manifest.Name, Key: p.capability.key, Allowed: p.capability.allowed,
		Incarnation: p.capability.incarnation, Lifetime: p.capability.lifetime,
		Header: map[string]string{}, Body: body,
	}
	for _, name := range forwardedHeaders {
		if value := p.r.Header.Get(name); value != "" {
			f.Header[name] = value
		}
	}
	reply, err := p.rt.tellHost(p.r.Context(), host, &migrationMessage{Forward: f})
	if err != nil || reply.Answer == nil {
		p.rt.log.Warn("callback not forwarded", keyAttr(p.capability.key), "host", quoted(host), "error", err)
		p.later(5 * time.Second)
		return true
	}
	p.rt.count(p.server, nForwarded)
	if reply.Answer.RetryAfter != "" {
		p.w.Header().Set("Retry-After", reply.Answer.RetryAfter)
	}
	p.w.Header().Set("Content-Type", "application/json")
	p.w.WriteHeader(reply.Answer.Status)
	p.w.Write(reply.Answer.Body)
	return true
}

// takeForwarded takes in a callback that another host received. That host has checked the
// callback URL; the rest is checked here, as if it had come here.
func (rt *Runtime) takeForwarded(ctx context.Context, f *forwarded) *forwardedAnswer {
	answer := &answerRecorder{header: http.Header{}, status: http.StatusOK}
	s := rt.serverNamed(ctx, f.Toolset)
	if s == nil {
		refuse(answer, http.StatusServiceUnavailable, "the tool server is not known here now")
		return answer.forwarded()
	}
	r := (&http.Request{Method: http.MethodPost, Header: http.Header{}}).WithContext(ctx)
	for name, value := range f.Header {
		r.Header.Set(name, value)
	}
	p := posted{rt: rt, w: answer, r: r, server: s, capability: capability{
		server: s.id, key: f.Key, allowed: f.Allowed, incarnation: f.Incarnation, lifetime: f.Lifetime,
	}}
	p.id = messageIDOf(r.Header)
	if !p.elsewhere(f.Body) { // it may have moved on
		p.judge(p.decode(f.Body))
	}
	return answer.forwarded()
}

// serverNamed returns the tool server with a toolset of this name, or nil.
func (rt *Runtime) serverNamed(ctx context.Context, toolset string) *server {
	if toolset == "" {
		return nil
	}
	var unknown []*server
	for _, s := range rt.servers {
		switch set := s.lastGood(); {
		case set == nil:
			unknown = append(unknown, s)
		case set.manifest.Name == toolset:
			return s
		}
	}
	for _, s := range unknown {
		if set := rt.knownOf(ctx, s); set != nil && set.manifest.Name == toolset {
			return s
		}
	}
	return nil
}

// An answerRecorder keeps an answer instead of sending it.
type answerRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerRecorder) Header() http.Header            { return a.header }
func (a *answerRecorder) WriteHeader(status int)         { a.status = status }
func (a *answerRecorder) Write(data []byte) (int, error) { return a.body.Write(data) }

func (a *answerRecorder) forwarded() *forwardedAnswer {
	return &forwardedAnswer{Status: a.status, RetryAfter: a.header.Get("Retry-After"), Body: a.body.Bytes()}
}
