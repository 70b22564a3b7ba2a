package migration

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

	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/internal/edge"
)

// ServeTunnel answers requests at both ends of a tunnel. It reports false for any other path.
func (mg *Migrator) ServeTunnel(w http.ResponseWriter, r *http.Request) bool {
	at, below := strings.CutPrefix(r.URL.EscapedPath(), mg.pathPrefix+TunnelPath)
	if !below {
		at, below = strings.CutPrefix(r.URL.EscapedPath(), TunnelPath)
	}
	if !below || at != "" && at[0] != '/' {
		return false
	}
	t := mg.tunnels
	switch {
	case t == nil || mg.Stopping():
		edge.Refuse(w, r, http.StatusNotFound, "not found")
	case at == "":
		mg.serveExit(w, r)
	default:
		to, rest, err := t.open(mg.publicURL, TunnelPath+at)
		if err != nil || !passes(r.Method, rest) || r.URL.RawQuery != "" {
			mg.Peers.Count(nil, tally.Forged)
			edge.Refuse(w, r, http.StatusNotFound, "not found")
			break
		}
		mg.serveEntry(w, r, to, rest)
	}
	return true
}

// enter takes a slot for a request, and gives the request the time of a move. If no slot is free, it answers and reports false.
func (t *tunnels) enter(w http.ResponseWriter, r *http.Request, within time.Duration) (leave func(), ok bool) {
	select {
	case t.slots <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "5")
		edge.Refuse(w, r, http.StatusServiceUnavailable, "try again later")
		return nil, false
	}
	until := time.Now().Add(within)
	c := http.NewResponseController(w) // not all writers support deadlines
	_ = c.SetReadDeadline(until)
	_ = c.SetWriteDeadline(until.Add(10 * time.Second))
	return func() { <-t.slots }, true
}

// serveEntry forwards a request of a tool server here to another host.
func (mg *Migrator) serveEntry(w http.ResponseWriter, r *http.Request, to tunnelEnd, rest string) {
	t, within := mg.tunnels, mg.Migrate
	if r.ContentLength > MaxTunnelled {
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
	h := &TunnelHead{
		Nonce: rand.Text(), Sent: time.Now(), Session: to.Session, Toolset: to.Toolset,
		Method: r.Method, Path: rest, ContentType: r.Header.Get("Content-Type"), Length: r.ContentLength,
	}
	a, err := mg.throughTunnel(ctx, to.Host, h, http.MaxBytesReader(w, r.Body, MaxTunnelled))
	if err != nil {
		status := http.StatusBadGateway
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			status = http.StatusRequestEntityTooLarge
		}
		mg.Log.Warn("request of a tool server not passed on", "session", quote.Text(to.Session), "host", quote.Text(to.Host), "error", err)
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

// withoutBody returns the text of an error for the tool server, without an address of the other host.
func withoutBody(err error) string {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.why
	}
	return "it cannot be reached"
}

// throughTunnel sends a request to the exit of a tunnel and returns the answer of the tool server there.
func (mg *Migrator) throughTunnel(ctx context.Context, host string, h *TunnelHead, body io.Reader) (*TunnelAnswer, error) {
	e := mg.tunnels.envelope
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, host+TunnelPath, e.SealStream(body, "request", h.Nonce))
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set(TunnelHeader, base64.RawURLEncoding.EncodeToString(e.Seal(head, "head", host)))
	a, err := mg.Peers.Client.Do(req, 2*peer.MaxManifest) // twice the size, because base64 makes it longer
	switch {
	case err != nil:
		return nil, err
	case a.Status != http.StatusOK:
		return nil, &refusedError{who: quote.Text(host), why: fmt.Sprintf("it answers %d", a.Status)}
	case a.Broken != nil:
		return nil, a.Broken
	}
	text, err := e.Open(a.Body, "answer", h.Nonce)
	answer := new(TunnelAnswer)
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil || answer.Status < 200 || answer.Status > 599 {
		return nil, errors.Join(errors.New("what it answered cannot be read"), err)
	}
	return answer, nil
}

// serveExit forwards a request of another host to a tool server here. A sender without the key learns only that a key exists; its
// body is not read.
func (mg *Migrator) serveExit(w http.ResponseWriter, r *http.Request) {
	t := mg.tunnels
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		edge.Refuse(w, r, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	h := new(TunnelHead)
	sealed, err := base64.RawURLEncoding.DecodeString(r.Header.Get(TunnelHeader))
	if err == nil {
		sealed, err = t.envelope.Open(sealed, "head", mg.publicURL)
	}
	if err == nil {
		err = json.Unmarshal(sealed, h)
	}
	if err != nil {
		mg.Peers.Count(nil, tally.Forged)
		mg.Log.Warn("request through a tunnel refused", "error", err)
		edge.Refuse(w, r, http.StatusForbidden, "forbidden")
		return
	}
	status, reason := t.admit(h)
	if status == 0 && (h.Length > MaxTunnelled || h.Length < -1) {
		status, reason = http.StatusRequestEntityTooLarge, "the body is too large"
	}
	if status != 0 {
		mg.Log.Warn("request through a tunnel refused", "session", quote.Text(h.Session), "status", status)
		edge.Refuse(w, r, status, reason)
		return
	}
	leave, ok := t.enter(w, r, mg.Migrate)
	if !ok {
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), mg.Migrate)
	defer cancel()
	body := http.MaxBytesReader(nil, io.NopCloser(t.envelope.OpenStream(r.Body, "request", h.Nonce)), MaxTunnelled)
	answer, err := json.Marshal(mg.toToolServer(ctx, h, body))
	if err != nil {
		edge.Refuse(w, r, http.StatusInternalServerError, "the answer cannot be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(t.envelope.Seal(answer, "answer", h.Nonce))
}

// toToolServer sends a request of another host to a tool server of this host.
func (mg *Migrator) toToolServer(ctx context.Context, h *TunnelHead, body io.Reader) *TunnelAnswer {
	failed := func(err error) *TunnelAnswer {
		mg.Log.Warn("request through a tunnel not passed on", "session", quote.Text(h.Session), "toolset", quote.Text(h.Toolset), "error", err)
		return &TunnelAnswer{Status: http.StatusBadGateway, ContentType: "text/plain; charset=utf-8", Body: []byte("the tool server cannot be reached\n")}
	}
	s := mg.Catalog.WithToolset(ctx, h.Toolset)
	if s == nil {
		return failed(errors.New("there is no such tool server"))
	}
	s.Expect()
	if h.Method == http.MethodGet {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, h.Method, s.Base+h.Path, body)
	if err != nil {
		return failed(edge.WithoutURL(err))
	}
	if body != nil && h.Length >= 0 {
		req.ContentLength = h.Length // a body that is longer or shorter is an error of the client
	}
	if h.ContentType != "" {
		req.Header.Set("Content-Type", h.ContentType)
	}
	mg.Peers.Introduce(req, s)
	a, err := mg.Peers.Client.Do(req, peer.MaxManifest)
	if err == nil {
		err = a.Broken
	}
	if err != nil {
		if errors.Is(err, envelope.ErrForged) || errors.Is(err, envelope.ErrStale) {
			mg.Peers.Count(nil, tally.Forged)
		}
		return failed(err)
	}
	return &TunnelAnswer{Status: a.Status, ContentType: a.Header.Get("Content-Type"), RetryAfter: a.Header.Get("Retry-After"), Body: a.Body}
}
