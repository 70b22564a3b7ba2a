package callback

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

// A Forwarded is a callback that arrived at a host that the session has left.
type Forwarded struct {
	Toolset string // the toolset that the callback URL was made for
	Key     agentproto.CallKey
	Allowed capability.Kinds
	// Incarnation and Lifetime are those of the callback URL.
	Incarnation uint64
	Lifetime    time.Duration
	Header      map[string]string // those of forwardedHeaders that were present
	Body        []byte
	// Excess marks an event that exceeds the bounds of the host that it arrived at. The tool server does not send it again, so the
	// host of the thread leaves it out.
	Excess bool
	// TooLarge is set instead of Body for a message of more than TooLarge bytes.
	TooLarge int64
}

// forwardedHeaders are the headers of a callback that have a meaning.
var forwardedHeaders = []string{"Content-Type", "Content-Encoding", "webhook-id"}

// An Answer is the response to the tool.
type Answer struct {
	Status     int
	RetryAfter string
	Body       []byte
}

// elsewhere handles a callback of a thread that is moving or has moved: the first has to wait, the second is forwarded. It
// reports whether the thread is one of these. It completes f, which has what was read of the callback.
//
// The callback URLs that tools have name this host, so it forwards their callbacks for as long as they are valid. See
// doc/protocol.md §10.4.
func (p *posted) elsewhere(f *Forwarded) bool {
	thread := p.capability.Key.GroupID
	if p.e.Elsewhere.IsFrozen(thread) {
		p.later(2 * time.Second)
		return true
	}
	host := p.e.Elsewhere.HostOf(thread)
	if host == "" {
		return false
	}
	toolset := p.e.Elsewhere.ToolsetOf(p.r.Context(), thread, p.server)
	if toolset == "" {
		p.later(5 * time.Second)
		return true
	}
	f.Toolset, f.Key, f.Allowed = toolset, p.capability.Key, p.capability.Allowed
	f.Incarnation, f.Lifetime = p.capability.Incarnation, p.capability.Lifetime
	f.Header = map[string]string{}
	for _, name := range forwardedHeaders {
		if value := p.r.Header.Get(name); value != "" {
			f.Header[name] = value
		}
	}
	tracing.Put(p.span.Trace(), func(name, value string) { f.Header[name] = value })
	answer, err := p.e.Elsewhere.Forward(p.r.Context(), host, f)
	if err != nil || answer == nil {
		p.e.Log.Warn("callback not forwarded", quote.Call(p.capability.Key), "host", quote.Text(host), "error", err)
		p.later(5 * time.Second)
		return true
	}
	p.e.Peers.Count(p.server, tally.Forwarded)
	p.outcome, p.refused = fmt.Sprintf("forwarded, and answered %d", answer.Status), answer.Status >= 300
	if answer.RetryAfter != "" {
		p.w.Header().Set("Retry-After", answer.RetryAfter)
	}
	p.w.Header().Set("Content-Type", "application/json")
	p.w.WriteHeader(answer.Status)
	p.w.Write(answer.Body)
	return true
}

// TakeForwarded handles a callback that another host received. That host has checked the callback URL; everything else is checked
// here, as if the callback had been posted here.
func (e *Endpoint) TakeForwarded(ctx context.Context, f *Forwarded) *Answer {
	answer := &answerRecorder{header: http.Header{}, status: http.StatusOK}
	s := e.Catalog.WithToolset(ctx, f.Toolset)
	if s == nil {
		Refuse(answer, http.StatusServiceUnavailable, "the tool server is not known here now")
		return answer.forwarded()
	}
	r := (&http.Request{Method: http.MethodPost, Header: http.Header{}}).WithContext(ctx)
	for name, value := range f.Header {
		r.Header.Set(name, value)
	}
	p := posted{e: e, w: answer, r: r, server: s, capability: capability.Capability{
		Server: s.ID, Key: f.Key, Allowed: f.Allowed, Incarnation: f.Incarnation, Lifetime: f.Lifetime, Trace: tracing.Extract(r.Header),
	}}
	p.trace()
	p.id = messageIDOf(r.Header)
	if !p.elsewhere(&Forwarded{Body: f.Body, Excess: f.Excess, TooLarge: f.TooLarge}) { // the thread may have moved on
		p.judgeForwarded(f)
	}
	p.span.End(p.outcome, p.refused)
	return answer.forwarded()
}

// judgeForwarded is judge for a callback that another host received.
func (p *posted) judgeForwarded(f *Forwarded) {
	if f.TooLarge > 0 {
		p.malformed(http.StatusRequestEntityTooLarge, "", tooLongFor(f.TooLarge))
		return
	}
	m := p.decode(f.Body)
	if event, ok := m.message.(*agentproto.SubscriptionEvent); ok && f.Excess && p.allowed(event) {
		p.drop(m, event)
		return
	}
	p.judge(m)
}

// An answerRecorder records an answer instead of sending it.
type answerRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answerRecorder) Header() http.Header            { return a.header }
func (a *answerRecorder) WriteHeader(status int)         { a.status = status }
func (a *answerRecorder) Write(data []byte) (int, error) { return a.body.Write(data) }

func (a *answerRecorder) forwarded() *Answer {
	return &Answer{Status: a.status, RetryAfter: a.header.Get("Retry-After"), Body: a.body.Bytes()}
}
