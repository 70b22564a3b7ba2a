package host

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/internal/edge"
)

// serveTunnel answers at either end of a tunnel. It reports false for a path that is neither.
func (rt *Runtime) serveTunnel(w http.ResponseWriter, r *http.Request) bool {
	at, below := strings.CutPrefix(r.URL.EscapedPath(), rt.pathPrefix+tunnelPath)
	if !below {
		at, below = strings.CutPrefix(r.URL.EscapedPath(), tunnelPath)
	}
	if !below || at != "" && at[0] != '/' {
		return false
	}
	t := rt.moves.tunnels
	switch {
	case t == nil || rt.stopping.Load():
		edge.Refuse(w, r, http.StatusNotFound, "not found")
	case at == "":
		rt.serveExit(w, r)
	default:
		to, rest, err := t.open(rt.publicURL, tunnelPath+at)
		if err != nil || !passes(r.Method, rest) || r.URL.RawQuery != "" {
			rt.count(nil, nForged)
			edge.Refuse(w, r, http.StatusNotFound, "not found")
			break
		}
		rt.serveEntry(w, r, to, rest)
	}
	return true
}

// enter takes one of the requests that tunnels have at once, and gives this one the time of a
// move. It answers and reports false if there is none left.
func (t *tunnels) enter(w http.ResponseWriter, r *http.Request, within time.Duration) (leave func(), ok bool) {
	select {
	case t.slots <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "5")
		edge.Refuse(w, r, http.StatusServiceUnavailable, "try again later")
		return nil, false
	}
	until := time.Now().Add(within)
	c := http.NewResponseController(w) // not all writers can
	_ = c.SetReadDeadline(until)
	_ = c.SetWriteDeadline(until.Add(10 * time.Second))
	return func() { <-t.slots }, true
}

// serveEntry passes a request of a tool server here on to another host.
func (rt *Runtime) serveEntry(w http.ResponseWriter, r *http.Request, to tunnelEnd, rest string) {
	t, within := rt.moves.tunnels, rt.opts.Timeouts.Migrate
	if r.ContentLength > maxTunnelled {
		edge.Refuse(w, r, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	}
	leave, ok := t.enter(w, r, within)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	h := &tunnelHead{
		Nonce: rand.Text(), Sent: time.Now(), Session: to.Session, Toolset: to.Toolset,
		Method: r.Method, Path: rest, ContentType: r.Header.Get("Content-Type"), Length: r.ContentLength,
	}
	a, err := rt.throughTunnel(ctx, to.Host, h, http.MaxBytesReader(w, r.Body, maxTunnelled))
	if err != nil {
		status := http.StatusBadGateway
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		rt.log.Warn("request of a tool server not passed on", "session", quoted(to.Session), "host", quoted(to.Host), "error", err)
		edge.Refuse(w, r, status, "the other host does not pass it on: "+withoutBody(err))
		return
	}
	if a.ContentType != "" {
		w.Header().Set("Content-Type", a.ContentType)
	}
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.Status)
	w.Write(a.Body)
}

// withoutBody returns what the tool server is told of an error: no address of the other host.
func withoutBody(err error) string {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.why
	}
	return "it cannot be reached"
}

// throughTunnel sends a request to the exit of a tunnel and returns what the tool server there
// answers.
func (rt *Runtime) throughTunnel(ctx context.Context, host string, h *tunnelHead, body io.Reader) (*tunnelAnswer, error) {
	e := rt.moves.tunnels.envelope
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, host+tunnelPath, e.SealStream(body, "request", h.Nonce))
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set(tunnelHeader, base64.RawURLEncoding.EncodeToString(e.Seal(head, "head", host)))
	a, err := rt.client.Do(req, 2*maxManifest) // base64 makes it longer
	switch {
	case err != nil:
		return nil, err
	case a.Status != http.StatusOK:
		return nil, &refusedError{who: quoted(host), why: fmt.Sprintf("it answers %d", a.Status)}
	case a.Broken != nil:
		return nil, a.Broken
	}
	text, err := e.Open(a.Body, "answer", h.Nonce)
	answer := new(tunnelAnswer)
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || answer.Status < 200 || answer.Status > 599 {
		return nil, errors.Join(errors.New("what it answered cannot be read"), err)
	}
	return answer, nil
}

// serveExit passes a request of another host on to a tool server here. Whoever does not have the
// key learns nothing but that there is one; nothing of a body is read before.
func (rt *Runtime) serveExit(w http.ResponseWriter, r *http.Request) {
	t := rt.moves.tunnels
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		edge.Refuse(w, r, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	h := new(tunnelHead)
	sealed, err := base64.RawURLEncoding.DecodeString(r.Header.Get(tunnelHeader))
	if err == nil {
		sealed, err = t.envelope.Open(sealed, "head", rt.publicURL)
	}
	if err == nil {
		err = json.Unmarshal(sealed, h)
	}
	if err != nil {
		rt.count(nil, nForged)
		rt.log.Warn("request through a tunnel refused", "error", err)
		edge.Refuse(w, r, http.StatusForbidden, "forbidden")
		return
	}
	status, reason := t.admit(h)
	if status == 0 && (h.Length > maxTunnelled || h.Length < -1) {
		status, reason = http.StatusRequestEntityTooLarge, "the body is too large"
	}
	if status != 0 {
		rt.log.Warn("request through a tunnel refused", "session", quoted(h.Session), "status", status)
		edge.Refuse(w, r, status, reason)
		return
	}
	leave, ok := t.enter(w, r, rt.opts.Timeouts.Migrate)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), rt.opts.Timeouts.Migrate)
	defer cancel()
	body := http.MaxBytesReader(nil, io.NopCloser(t.envelope.OpenStream(r.Body, "request", h.Nonce)), maxTunnelled)
	answer, err := json.Marshal(rt.toToolServer(ctx, h, body))
	if err != nil {
		edge.Refuse(w, r, http.StatusInternalServerError, "the answer cannot be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(t.envelope.Seal(answer, "answer", h.Nonce))
}

// toToolServer makes a request at a tool server of this host for another host.
func (rt *Runtime) toToolServer(ctx context.Context, h *tunnelHead, body io.Reader) *tunnelAnswer {
	failed := func(err error) *tunnelAnswer {
		rt.log.Warn("request through a tunnel not passed on", "session", quoted(h.Session), "toolset", quoted(h.Toolset), "error", err)
		return &tunnelAnswer{Status: http.StatusBadGateway, ContentType: "text/plain; charset=utf-8", Body: []byte("the tool server cannot be reached\n")}
	}
	s := rt.serverNamed(ctx, h.Toolset)
	if s == nil {
		return failed(errors.New("there is no such tool server"))
	}
	s.expect()
	if h.Method == http.MethodGet {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, h.Method, s.base+h.Path, body)
	if err != nil {
		return failed(edge.WithoutURL(err))
	}
	if body != nil && h.Length >= 0 {
		req.ContentLength = h.Length // a body that is longer or shorter is an error of the client
	}
	if h.ContentType != "" {
		req.Header.Set("Content-Type", h.ContentType)
	}
	rt.introduce(req, s)
	a, err := rt.client.Do(req, maxManifest)
	if err == nil {
		err = a.Broken
	}
	if err != nil {
		if errors.Is(err, envelope.ErrForged) || errors.Is(err, envelope.ErrStale) {
			rt.count(nil, nForged)
		}
		return failed(err)
	}
	return &tunnelAnswer{Status: a.Status, ContentType: a.Header.Get("Content-Type"), RetryAfter: a.Header.Get("Retry-After"), Body: a.Body}
}
