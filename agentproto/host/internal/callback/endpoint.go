// Package callback handles what tool servers post to callback URLs. An [Endpoint] determines which call a message belongs to,
// whether it is within the bounds, and what it means, and passes it to its [Flow]. A message for a thread on another host it
// passes to its [Forwarder].
package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/display"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quota"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/subscriptions"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/tracing"
	"github.com/millrace/millrace/internal/edge"
)

// A Flow accepts the content of callbacks.
type Flow interface {
	// Deliver passes an event to a call. When it returns nil, the event is stored.
	Deliver(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error
	// Resolved returns the resolution of a call, if this process knows it.
	Resolved(key agentproto.CallKey) (*agentproto.Resolution, bool)
	// Lasts reports whether a call exists that was made long ago and is not over.
	Lasts(ctx context.Context, key agentproto.CallKey) bool
	// View stores a view with its thread.
	View(ctx context.Context, from agentproto.CallKey, v *agentproto.ViewUpdate) error
}

// A Forwarder knows the threads that are moving or have moved to another host.
type Forwarder interface {
	// IsFrozen reports whether callbacks of a thread have to wait.
	IsFrozen(thread string) bool
	// HostOf returns the host that a thread has moved to, or "" if it is here.
	HostOf(thread string) string
	// ToolsetOf returns the name of the toolset of a tool server of a thread that has moved, or "" if it is not known now.
	ToolsetOf(ctx context.Context, thread string, s *peer.Server) string
	// Forward passes a callback to another host, which answers it.
	Forward(ctx context.Context, host string, f *Forwarded) (*Answer, error)
}

// A Config holds what an endpoint needs.
type Config struct {
	Peers         *peer.Peers
	Catalog       *discovery.Catalog
	Sealer        capability.Sealer
	Accounts      *quota.Accounts
	Subscriptions *subscriptions.Open
	Display       *display.Display
	Flow          Flow
	Elsewhere     Forwarder
	Stopping      func() bool // reports whether nothing more is accepted

	Limits agentproto.Limits
	Sizes  Sizes
	Bodies *edge.Bytes // the limit of bodies in memory
	Each   int64       // how many of these bytes one tool server may use

	OAuth, Choice time.Duration // how long the user may take
	Call          time.Duration // the lifetime of a call whose callback URL does not contain it
	Accept        time.Duration // how long a message may wait before it is answered 503
	Tracer        agentproto.Tracer
	Log           *slog.Logger
}

// An Endpoint handles what tool servers post to callback URLs.
type Endpoint struct {
	Config
	turns    *quota.Turns
	readers  map[capability.ServerID]*readers
	refusals refusals
	replays  *replays
}

// New returns an endpoint.
func New(c Config) *Endpoint {
	return &Endpoint{Config: c, turns: quota.NewTurns(), readers: newReaders(c.Peers.All, c.Bodies, c.Each), replays: newReplays()}
}

// Serve answers a request to a callback URL whose secret part is segments. A status other than 0 is already the answer; it is
// logged if the URL is genuine.
func (e *Endpoint) Serve(w http.ResponseWriter, r *http.Request, segments string, status int) {
	c, err := capability.Open(e.Sealer, segments, time.Now())
	if errors.Is(err, capability.ErrExpired) && e.goesOn(r.Context(), c.Key) {
		err = nil
	}
	s := e.Peers.ByID[c.Server]
	p := posted{e: e, w: w, r: r, server: s, capability: c, wasRead: func() {}}
	genuine := err == nil && s != nil
	switch {
	case status == 0 && r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		status = http.StatusMethodNotAllowed
	case status != 0:
		e.Peers.Count(nil, tally.Forged)
	case genuine:
		p.trace()
		p.serve()
		p.span.End(p.outcome, p.refused)
		return
	default:
		// The same answer whatever is wrong with the URL.
		e.Peers.Count(nil, tally.Forged)
		e.Log.Debug("callback refused", "error", err)
		Refuse(w, http.StatusNotFound, "not found")
		return
	}
	if reason := strings.ToLower(http.StatusText(status)); genuine {
		p.refuse(status, reason)
	} else {
		Refuse(w, status, reason)
	}
}

// goesOn reports whether a call needs its callback URL although the time for which it was made is over: it has an open
// subscription or started its lifetime again after a choice, or its thread is at another host, which knows.
func (e *Endpoint) goesOn(ctx context.Context, key agentproto.CallKey) bool {
	return e.Subscriptions.IsOpen(key) || e.Elsewhere.IsFrozen(key.GroupID) || e.Elsewhere.HostOf(key.GroupID) != "" || e.Flow.Lasts(ctx, key)
}

// Refuse answers a callback that is not accepted.
func Refuse(w http.ResponseWriter, status int, reason string) {
	body, _ := json.Marshal(struct {
		Error string `json:"error"`
	}{reason})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// A posted is one request to a genuine callback URL.
type posted struct {
	e          *Endpoint
	w          http.ResponseWriter
	r          *http.Request
	server     *peer.Server
	capability capability.Capability
	unproven   bool   // it must be signed, and no signature has been verified yet
	id         string // its webhook-id, or ""

	// over is set for a message that exceeds the bounds: the time after which another one may be accepted. Such a message is
	// accepted only if it must not be lost.
	over  time.Duration
	spent quota.Class // the exception that was made for it
	paid  int64       // bytes charged to the buckets
	size  int64       // of its body

	span    agentproto.Span
	message string // its type, after it was read
	outcome string // of the span
	refused bool

	memory  *edge.Lease // for its body
	wasRead func()      // releases its slot among the messages being read
}

// trace begins the span of a message. The URL determines the trace. The header of the request determines the preceding span, if
// it belongs to that trace.
func (p *posted) trace() {
	before := p.capability.Trace
	if t := tracing.Extract(p.r.Header); tracing.Follows(t, before) {
		before = t
	}
	var ctx context.Context
	ctx, p.span = tracing.Start(p.r.Context(), p.e.Tracer, agentproto.SpanStart{
		Name: agentproto.SpanCallback, Kind: agentproto.SpanServer, Parent: before, Key: p.capability.Key, Peer: p.server.Base,
	})
	if p.e.Tracer != nil {
		p.r = p.r.WithContext(ctx)
	}
}

func (p *posted) serve() {
	if p.e.Stopping() {
		p.later(5 * time.Second)
		return
	}
	if p.id = messageIDOf(p.r.Header); p.id != "" {
		p.e.Accounts.NoteID(p.capability, time.Now())
	}
	leave, ok := p.enter()
	if !ok {
		p.later(p.over)
		return
	}
	defer leave()
	p.unproven = len(p.server.Secrets) > 0
	data, ok := p.read()
	if !ok {
		return
	}
	if p.unproven && !p.server.Secrets.Signed(p.r.Header, data) {
		p.e.Peers.Count(p.server, tally.Forged)
		p.refuse(http.StatusUnauthorized, "not signed with a secret of this tool server within five minutes")
		return
	}
	p.unproven = false
	m := p.decode(data)
	if p.over > 0 && !p.exempt(p.classOf(m)) {
		p.slowDown(len(data))
		p.putOff(m)
		return
	}
	if p.elsewhere(&Forwarded{Body: data}) {
		return
	}
	p.judge(m)
}

// A decoded is a message that was read, or the reason why it is invalid.
type decoded struct {
	data    []byte
	message agentproto.Callback // nil if err is set
	err     error
	kind    string // why it is not JSON according to its headers
}

// decode reads a message.
func (p *posted) decode(data []byte) *decoded {
	m := &decoded{data: data}
	p.size = int64(len(data))
	if kind := p.r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			m.kind = "Content-Type is not application/json"
			return m
		}
	}
	if isEncoded(p.r.Header) {
		m.kind = "Content-Encoding is not supported"
		return m
	}
	m.message, m.err = agentproto.DecodeCallback(data, p.e.Limits)
	return m
}

// judge accepts or refuses a message that may come from the tool server.
func (p *posted) judge(m *decoded) {
	if m.kind != "" {
		p.malformed(http.StatusUnsupportedMediaType, "", m.kind)
		return
	}
	if me, ok := errors.AsType[*agentproto.MessageError](m.err); ok {
		if !p.about(me.Key) {
			p.forbid()
			return
		}
		p.malformed(me.Status, me.Message, reasonOf(me))
		return
	}
	if m.err != nil {
		p.malformed(http.StatusBadRequest, "", "malformed message")
		return
	}
	p.message = m.message.Type()
	if !p.allowed(m.message) {
		p.forbid()
		return
	}
	if limit := p.e.Sizes.of(m.message); int64(len(m.data)) > limit {
		p.tooLong(m, limit)
		return
	}
	if p.e.replays.seen(p.replay(), time.Now()) {
		p.e.Peers.Count(p.server, tally.Duplicates)
		p.ok()
		return
	}
	p.take(m.message)
}

// isEncoded reports whether a body has a content encoding other than identity.
func isEncoded(h http.Header) bool {
	for _, list := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(list, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}

// replay returns the key by which a repetition of the message is recognized.
func (p *posted) replay() replay {
	return replay{server: p.capability.Server, call: p.capability.Key, message: p.message, id: p.id}
}

func (p *posted) forbid() {
	p.e.Peers.Count(p.server, tally.Forged)
	p.refuse(http.StatusForbidden, "forbidden")
}

// refuse answers a message that is not accepted and logs the refusal: the URL is genuine, so somebody may miss the message.
func (p *posted) refuse(status int, reason string) {
	if more, due := p.e.refusals.note(refusal{p.server.ID, status}, time.Now()); due {
		p.e.Log.Warn("callback refused", quote.Call(p.capability.Key), "toolset", p.server.Base, "status", status, "reason", reason, "others", more)
	}
	p.outcome, p.refused = fmt.Sprintf("%d %s", status, reason), true
	Refuse(p.w, status, reason)
}

// maxRetryAfter is the longest time after which a tool server is asked to try again.
const maxRetryAfter = time.Minute

// later answers a message 503, so that the tool tries again. It does not use 429, because tools do not retry after a 4xx.
func (p *posted) later(wait time.Duration) {
	p.e.Peers.Count(p.server, tally.Busy)
	now := time.Now()
	p.e.Accounts.Restore(p.capability, p.spent, now)
	p.e.Accounts.Refund(p.capability, p.paid, now)
	p.spent, p.paid = quota.Ordinary, 0
	seconds := max(1, int(math.Ceil(min(wait, maxRetryAfter).Seconds())))
	p.w.Header().Set("Retry-After", fmt.Sprint(seconds))
	p.refuse(http.StatusServiceUnavailable, "try again later")
}

func (p *posted) ok() {
	p.outcome = "taken in"
	if p.message != "" {
		p.outcome = p.message + " taken in"
	}
	p.w.Header().Set("Content-Type", "application/json")
	io.WriteString(p.w, "{\"ok\":true}\n")
}
