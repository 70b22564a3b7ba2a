package host

import (
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
	"github.com/millrace/millrace/internal/edge"
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
//	410  an event of a subscription that ended more than a minute ago: the tool has missed that
//	421  addressed to another host, where no PublicURL is set
//	503  not taken in, with Retry-After: the program is busy, or stopping, or the
//	     callback URL or the thread exceeds its [Bounds]
//
// Without a PublicURL it also answers 403 to whatever has the header Origin, which tools do
// not send and browsers do. A message without a Content-Type is taken for JSON, and one
// without a Host, as of HTTP/1.0, for its own: what it needs to be taken in is the URL.
//
// What exceeds the [Bounds] is put off, but for what nobody may be able to send again: the
// result of a call, five authorizations and choices on the way to it, and the final event of
// a subscription, each of them once.
//
// What is refused although its URL is genuine is logged at WARN, once a minute for each
// status and tool server.
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
	segments, isCallback := rt.callbackSegments(r.URL.Path)
	status := rt.fromElsewhere(r)
	if status == http.StatusMisdirectedRequest && isCallback && r.Host == "" {
		status = 0 // no browser sends that
	}
	if status == 0 && (r.URL.Path == migrationPath || r.URL.Path == rt.pathPrefix+migrationPath) {
		rt.serveMigration(w, r)
		return
	}
	if status == 0 && !isCallback && rt.serveTunnel(w, r) {
		return
	}
	if status == 0 && !isCallback {
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	c, err := openCapability(rt.sealer, segments, time.Now())
	s := rt.byID[c.server]
	p := posted{rt: rt, w: w, r: r, server: s, capability: c, wasRead: func() {}}
	genuine := err == nil && s != nil
	switch {
	case status == 0 && r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		status = http.StatusMethodNotAllowed
	case status != 0:
		rt.count(nil, nForged)
	case genuine:
		p.serve()
		return
	default:
		// One answer for everything that is wrong with a URL.
		rt.count(nil, nForged)
		rt.log.Debug("callback refused", "error", err)
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	if reason := strings.ToLower(http.StatusText(status)); genuine {
		p.refuse(status, reason)
	} else {
		refuse(w, status, reason)
	}
}

// callbackSegments returns what is secret of a callback URL's path. It reports false for any
// other path.
func (rt *Runtime) callbackSegments(path string) (string, bool) {
	segments, ok := strings.CutPrefix(path, rt.pathPrefix+callbackPath)
	if !ok {
		segments, ok = strings.CutPrefix(path, callbackPath)
	}
	return segments, ok && strings.Count(segments, "/") == 1
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

	// over is set for a message that exceeds the bounds: the time after which there may be
	// another. It is taken in only if it is one that must not be lost.
	over  time.Duration
	spent class // the exception that was made for it
	paid  int64 // bytes that the buckets were charged
	size  int64 // of its body

	memory  *edge.Lease // for its body
	wasRead func()      // gives its place among those that are read to another
}

func (p *posted) serve() {
	if p.rt.stopping.Load() {
		p.later(5 * time.Second)
		return
	}
	if p.id = messageIDOf(p.r.Header); p.id != "" {
		p.rt.intake.noteID(p.capability, time.Now())
	}
	leave, ok := p.enter()
	if !ok {
		p.later(p.over)
		return
	}
	defer leave()
	p.unproven = len(p.server.secrets) > 0
	data, ok := p.read()
	if !ok {
		return
	}
	if p.unproven && !p.server.secrets.signed(p.r.Header, data) {
		p.rt.count(p.server, nForged)
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
	if p.elsewhere(data) {
		return
	}
	p.judge(m)
}

// A decoded is a message that was read, or what is wrong with it.
type decoded struct {
	bytes   int
	message agentproto.Callback // nil if there is an err
	err     error
	kind    string // why it is no JSON, by its headers
}

// decode reads a message.
func (p *posted) decode(data []byte) *decoded {
	m := &decoded{bytes: len(data)}
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
	m.message, m.err = agentproto.DecodeCallback(data, p.rt.opts.Limits)
	return m
}

// judge takes in or refuses a message that may be the tool server's.
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
	if !p.allowed(m.message) {
		p.forbid()
		return
	}
	if limit := p.rt.opts.Bounds.Sizes.of(m.message); int64(m.bytes) > limit {
		p.tooLong(m, limit)
		return
	}
	if p.rt.replays.seen(p.replay(), time.Now()) {
		p.rt.count(p.server, nDuplicates)
		p.ok()
		return
	}
	p.take(m.message)
}

// isEncoded reports whether a body has to be decoded before it is what was sent.
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

// replay names the message for who posts it again.
func (p *posted) replay() replay {
	return replay{server: p.capability.server, call: p.capability.key, id: p.id}
}

func (p *posted) forbid() {
	p.rt.count(p.server, nForged)
	p.refuse(http.StatusForbidden, "forbidden")
}

// refuse answers a message that is not taken in, and logs that: its URL is genuine, so
// somebody may miss it.
func (p *posted) refuse(status int, reason string) {
	if more, due := p.rt.refusals.note(refusal{p.server.id, status}, time.Now()); due {
		p.rt.log.Warn("callback refused", keyAttr(p.capability.key), "toolset", p.server.base, "status", status, "reason", reason, "others", more)
	}
	refuse(p.w, status, reason)
}

// maxRetryAfter is the longest time after which a tool server is asked to try again.
const maxRetryAfter = time.Minute

// later puts a message off. It is never 429, which is a 4xx that tools do not
// retry.
func (p *posted) later(wait time.Duration) {
	p.rt.count(p.server, nBusy)
	now := time.Now()
	p.rt.intake.restore(p.capability, p.spent, now)
	p.rt.intake.refund(p.capability, p.paid, now)
	p.spent, p.paid = ordinary, 0
	seconds := max(1, int(math.Ceil(min(wait, maxRetryAfter).Seconds())))
	p.w.Header().Set("Retry-After", fmt.Sprint(seconds))
	p.refuse(http.StatusServiceUnavailable, "try again later")
}

func (p *posted) ok() {
	p.w.Header().Set("Content-Type", "application/json")
	io.WriteString(p.w, "{\"ok\":true}\n")
}
