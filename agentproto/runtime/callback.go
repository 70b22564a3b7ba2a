package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
)

// Handler returns the callback endpoint. It is served by the runtime unless
// [Options].External is set. It answers below the path of the public URL, and below
// the root for a proxy that strips that path:
//
//	200  taken in; late and repeated messages too, so that tools stop sending them
//	400  malformed, with the member that is wrong
//	401  not signed, where the tool server shares a secret: see [Options].Secrets
//	403  a message about another call, or of a type the URL is not for
//	404  not a callback URL of this runtime, or an expired one
//	405, 413, 415  not a POST, too large, not plain JSON
//	421  addressed to another host, where the endpoint is on this machine
//	503  not taken in, with Retry-After: the program is busy, or stopping, or the
//	     callback URL or the thread exceeds its [Bounds]
//
// An endpoint on this machine also answers 403 to whatever has the header Origin, which
// tools do not send and browsers do.
//
// Tools do not retry what was answered 4xx, so 400, 413 and 415 also resolve the
// call that the URL identifies: nothing else would before its lifetime ends. A
// malformed view_update or subscription_event does not, as the call can still get
// its result, and neither does what is too large to see whether it is signed.
//
// A message with the webhook-id of one that was taken in lately is answered 200 and has
// no effect.
func (rt *Runtime) Handler() http.Handler { return http.HandlerFunc(rt.serveCallback) }

func (rt *Runtime) serveCallback(w http.ResponseWriter, r *http.Request) {
	if status := rt.fromElsewhere(r); status != 0 {
		rt.count(nil, nForged)
		refuse(w, status, strings.ToLower(http.StatusText(status)))
		return
	}
	if r.URL.Path == migrationPath || r.URL.Path == rt.pathPrefix+migrationPath {
		rt.serveMigration(w, r)
		return
	}
	segments, ok := strings.CutPrefix(r.URL.Path, rt.pathPrefix+callbackPath)
	if !ok {
		segments, ok = strings.CutPrefix(r.URL.Path, callbackPath)
	}
	if !ok || strings.Count(segments, "/") != 1 {
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	c, err := openCapability(rt.sealer, segments, time.Now())
	s := rt.byID[c.server]
	if err != nil || s == nil {
		// One answer for everything that is wrong with a URL.
		rt.count(nil, nForged)
		rt.log.Debug("callback refused", "error", err)
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	p := posted{rt: rt, w: w, r: r, server: s, capability: c}
	p.serve()
}

// refuse answers a callback that is not taken in.
func refuse(w http.ResponseWriter, status int, reason string) {
	body, _ := json.Marshal(struct {
		Error string `json:"error"`
	}{reason})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// A posted is one request to a callback URL that is genuine.
type posted struct {
	rt         *Runtime
	w          http.ResponseWriter
	r          *http.Request
	server     *server
	capability capability
	unproven   bool   // it would have to be signed, and is not so far
	id         string // its webhook-id, or ""
}

func (p *posted) serve() {
	if p.rt.stopping.Load() {
		p.later(5 * time.Second)
		return
	}
	if wait := p.rt.intake.charge(p.capability, time.Now()); wait > 0 {
		p.later(wait)
		return
	}
	thread := p.capability.key.GroupID
	if !p.rt.intake.enter(thread) {
		p.later(time.Second)
		return
	}
	defer p.rt.intake.leave(thread)
	p.unproven = len(p.server.secrets) > 0
	data, ok := p.read()
	if !ok {
		return
	}
	if p.unproven && !p.server.secrets.signed(p.r.Header, data) {
		p.rt.count(p.server, nForged)
		refuse(p.w, http.StatusUnauthorized, "not signed with a secret of this tool server within five minutes")
		return
	}
	p.unproven = false
	if p.elsewhere(data) {
		return
	}
	p.judge(data)
}

// judge takes in or refuses a message that may be the tool server's.
func (p *posted) judge(data []byte) {
	if media, _, err := mime.ParseMediaType(p.r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		p.malformed(http.StatusUnsupportedMediaType, "", "Content-Type is not application/json")
		return
	}
	if p.r.Header.Get("Content-Encoding") != "" {
		p.malformed(http.StatusUnsupportedMediaType, "", "Content-Encoding is not supported")
		return
	}
	message, err := agentproto.DecodeCallback(data, p.rt.opts.Limits)
	if me, ok := errors.AsType[*agentproto.MessageError](err); ok {
		if !p.about(me.Key) {
			p.forbid()
			return
		}
		p.malformed(me.Status, me.Message, reasonOf(me))
		return
	}
	if err != nil {
		p.malformed(http.StatusBadRequest, "", "malformed message")
		return
	}
	if !p.allowed(message) {
		p.forbid()
		return
	}
	p.id = messageIDOf(p.r.Header)
	if p.rt.replays.seen(p.replay(), time.Now()) {
		p.rt.count(p.server, nDuplicates)
		p.ok()
		return
	}
	p.take(message)
}

// replay names the message for who posts it again.
func (p *posted) replay() replay {
	return replay{server: p.capability.server, call: p.capability.key, id: p.id}
}

// read returns the body. It reports false if that was too large or did not come,
// and has answered then.
func (p *posted) read() ([]byte, bool) {
	limit := p.rt.opts.Limits.Bytes
	if p.r.ContentLength > limit {
		p.tooLarge(limit)
		return nil, false
	}
	data, err := io.ReadAll(http.MaxBytesReader(p.w, p.r.Body, limit))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.tooLarge(limit)
		return nil, false
	}
	if err != nil {
		p.later(time.Second) // it broke off; the tool may have the rest
		return nil, false
	}
	return data, true
}

func (p *posted) tooLarge(limit int64) {
	p.w.Header().Set("Connection", "close")
	if p.elsewhere(nil) { // where it is malformed, too
		return
	}
	p.malformed(http.StatusRequestEntityTooLarge, "", fmt.Sprintf("message is larger than %d bytes", limit))
}

// about reports whether a key, as far as it is known, is the capability's.
func (p *posted) about(key agentproto.CallKey) bool {
	return (key.GroupID == "" || key.GroupID == p.capability.key.GroupID) &&
		(key.ID == "" || key.ID == p.capability.key.ID)
}

// allowed reports whether the capability is for this message.
func (p *posted) allowed(message agentproto.Callback) bool {
	key, may := message.Key(), p.capability.key
	switch message.(type) {
	case *agentproto.ToolResult:
		return key == may && p.capability.allowed&mayResult != 0
	case *agentproto.OAuth:
		return key == may && p.capability.allowed&mayOAuth != 0
	case *agentproto.UserChoice:
		return key == may && p.capability.allowed&mayChoice != 0
	case *agentproto.SubscriptionEvent:
		return key == may && p.capability.allowed&mayEvent != 0
	case *agentproto.ViewUpdate:
		return key.GroupID == may.GroupID && p.capability.allowed&mayView != 0
	}
	return false
}

// take hands a good message on.
func (p *posted) take(message agentproto.Callback) {
	timeouts := &p.rt.opts.Timeouts
	switch m := message.(type) {
	case *agentproto.ToolResult:
		p.result(m)
	case *agentproto.OAuth:
		e, err := p.rt.sealOAuth(m)
		if err != nil {
			p.rt.log.Error("authorization cannot be kept", keyAttr(m.Key()), "error", err)
			p.later(time.Second)
			return
		}
		e.Timeout = timeouts.OAuth
		p.detour(e)
	case *agentproto.UserChoice:
		if err := p.rt.mayUse(p.server, m.ResponseURL); err != nil {
			p.malformed(http.StatusBadRequest, m.Type(), "response_url: "+err.Error())
			return
		}
		shown, wrong := plainChoice(m)
		if wrong != "" {
			p.malformed(http.StatusBadRequest, m.Type(), wrong)
			return
		}
		p.detour(agentproto.Event{
			Kind: agentproto.ChoiceArrived, Choice: shown, Timeout: timeouts.Choice,
			Lifetime: p.rt.lifetimeOf(p.capability.key),
		})
	case *agentproto.ViewUpdate:
		p.view(m)
	case *agentproto.SubscriptionEvent:
		p.rt.count(p.server, nEvents)
		p.deliver(agentproto.Event{
			Kind: agentproto.SubscriptionEventArrived, Subscription: m, MessageID: p.id,
		})
	}
}

// result delivers a result. One that would open a subscription too many resolves the call
// with an error, and cancels it.
func (p *posted) result(m *agentproto.ToolResult) {
	if !m.Subscription {
		p.deliver(agentproto.Event{Kind: agentproto.ResultArrived, Result: m})
		return
	}
	if !p.rt.subscribed.reserve(m.Key()) {
		p.deliver(agentproto.Event{Kind: agentproto.Refused, Reason: fmt.Sprintf(
			"the thread has %d open subscriptions already; cancel one of them first", p.rt.subscribed.max)})
		return
	}
	if !p.accepted(agentproto.Event{Kind: agentproto.ResultArrived, Result: m}) {
		p.rt.subscribed.release(m.Key())
		return
	}
	p.ok()
}

// view shows a view, unless its thread is closed or its call resolved: like any other
// message it comes too late then.
func (p *posted) view(m *agentproto.ViewUpdate) {
	key := p.capability.key
	if p.rt.ledger.isClosed(key.GroupID) || p.rt.ledger.isResolved(key) {
		p.rt.count(p.server, nLate)
		p.ok()
		return
	}
	show := func(_ context.Context, s Surface) { s.View(key, m) }
	err := p.rt.views.put(m, func() bool { return p.rt.shown.tryPush(show, maxViews) })
	switch {
	case errors.Is(err, errLater):
		p.later(time.Second)
	case err != nil:
		p.malformed(http.StatusRequestEntityTooLarge, m.Type(), err.Error())
	case p.rt.keepView(p.r.Context(), m) != nil:
		p.later(time.Second)
	default:
		p.rt.count(p.server, nViews)
		p.rt.replays.note(p.replay(), time.Now())
		p.ok()
	}
}

// detour is deliver for what must not be taken twice, also when it is over the second time.
// What the program remembers of results and events by itself needs no help.
func (p *posted) detour(e agentproto.Event) {
	if p.accepted(e) {
		p.rt.replays.note(p.replay(), time.Now())
		p.ok()
	}
}

// deliver gives an event to the program and answers 200 or 503.
func (p *posted) deliver(e agentproto.Event) {
	if p.accepted(e) {
		p.ok()
	}
}

// accepted gives an event to the program. If that does not take it in time, it
// answers 503 and reports false.
func (p *posted) accepted(e agentproto.Event) bool {
	if err := p.rt.deliver(p.r.Context(), p.capability.key, e); err != nil {
		p.rt.log.Debug("callback put off", keyAttr(p.capability.key), "error", err)
		p.later(time.Second)
		return false
	}
	return true
}

// malformed refuses a message, and resolves the call unless the message is one
// that would not have resolved it or brought it further.
func (p *posted) malformed(status int, message, reason string) {
	p.rt.log.Warn("malformed callback", keyAttr(p.capability.key), "toolset", p.server.base, "reason", reason)
	if !p.unproven && message != agentproto.TypeViewUpdate && message != agentproto.TypeSubscriptionEvent {
		text := fmt.Sprintf("%s: %s: %s", p.server.base, cmp.Or(message, "callback"), reason)
		if !p.accepted(agentproto.Event{Kind: agentproto.Malformed, Reason: text}) {
			return
		}
	}
	p.rt.count(p.server, nMalformed)
	if message != "" {
		reason = message + ": " + reason
	}
	refuse(p.w, status, reason)
}

// reasonOf names the member that is wrong.
func reasonOf(me *agentproto.MessageError) string {
	if me.Member == "" {
		return me.Reason
	}
	return fmt.Sprintf("member %q %s", me.Member, me.Reason)
}

func (p *posted) forbid() {
	p.rt.count(p.server, nForged)
	refuse(p.w, http.StatusForbidden, "forbidden")
}

// later puts a message off. It is never 429, which is a 4xx that tools do not
// retry.
func (p *posted) later(wait time.Duration) {
	p.rt.count(p.server, nBusy)
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	p.w.Header().Set("Retry-After", fmt.Sprint(seconds))
	refuse(p.w, http.StatusServiceUnavailable, "try again later")
}

func (p *posted) ok() {
	p.w.Header().Set("Content-Type", "application/json")
	io.WriteString(p.w, "{\"ok\":true}\n")
}
