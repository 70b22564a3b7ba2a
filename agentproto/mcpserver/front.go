package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/internal/mcptasks"
)

// A message contains the parts of a body that ServeHTTP needs.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Meta struct {
			Version      string                  `json:"io.modelcontextprotocol/protocolVersion"`
			Capabilities *mcp.ClientCapabilities `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
		TaskID        string `json:"taskId"`
		Notifications struct {
			TaskIDs []string `json:"taskIds"`
		} `json:"notifications"`
	} `json:"params"`
}

// methodListen opens a stream of notifications, since 2026-07-28.
const methodListen = "subscriptions/listen"

// ServeHTTP serves Streamable HTTP at one path. In addition to the statuses of the MCP revisions it
// answers:
//
//	403  a browser sent the request for a page that is not in Options.Origins, or it is addressed to another host
//	401  Options.Owner cannot identify its owner
//	413  its body is longer than Options.Body
//	429  its owner sends more than Options.Rate requests a second, or has Options.Held streams open
//	503  the server is closing
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Values("Origin"); len(origin) > 1 || len(origin) == 1 && !s.origins[origin[0]] {
		http.Error(w, "this Origin is not allowed", http.StatusForbidden)
		return
	}
	if !s.allowed(r) {
		http.Error(w, "not addressed to this server", http.StatusForbidden)
		return
	}
	select {
	case <-s.closing:
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, nil, &jsonrpc.Error{Code: codeBusy, Message: "shutting down: try again"})
		return
	default:
	}
	from, err := s.opts.Owner(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, "who is this?", http.StatusUnauthorized)
		return
	}
	o, err := s.enter(from)
	if err != nil {
		s.log.Error("an owner was refused", "error", err)
		http.Error(w, "too many owners", http.StatusServiceUnavailable)
		return
	}
	defer s.leave(o)
	if !o.bucket.take(time.Now()) {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, nil, &jsonrpc.Error{Code: codeBusy, Message: "too many requests: ask more rarely"})
		return
	}
	modern := r.Header.Get("Mcp-Protocol-Version") >= mcptasks.Since
	var id json.RawMessage
	listens := r.Method == http.MethodGet // a stream for messages that the server sends unasked
	if r.Method == http.MethodPost {
		m, ok := s.read(w, r)
		if !ok {
			return
		}
		modern = modern || m.Params.Meta.Version >= mcptasks.Since
		id, listens = m.ID, m.Method == methodListen
		if modern && !headersFit(w, r, m) {
			return
		}
		if m.Method == "tools/call" { // the SDK looks the tool up before it calls the middleware
			if err := o.offer(r.Context()); err != nil {
				refuse(w, http.StatusOK, m.ID, s.errorOf(r.Context(), err))
				return
			}
		}
	}
	if listens {
		if !o.claim() {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, id, &jsonrpc.Error{Code: codeBusy, Message: "too many streams of this client are open"})
			return
		}
		defer o.release()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go o.watch(ctx)
	}
	// Requests are held as long as calls take, so there are no deadlines.
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
	if modern {
		o.modern.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), perConnectionKey{}, true)))
	} else {
		stream := &commented{ResponseWriter: w}
		defer stream.end()
		session := r.Header.Get("Mcp-Session-Id")
		if session == "" {
			o.clients.makeRoom(o.server)
		}
		defer o.clients.begin(session)()
		o.sessions.ServeHTTP(stream, r)
		if begun := w.Header().Get("Mcp-Session-Id"); session == "" && begun != "" {
			o.clients.add(begun)
		}
	}
}

// read reads the body of a POST, and restores it. It returns false if it has answered the request.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (m message, ok bool) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		http.Error(w, "Content-Type is not application/json", http.StatusUnsupportedMediaType)
		return m, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.Body))
	if err != nil {
		status := http.StatusBadRequest
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "the body cannot be read", status)
		return m, false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	_ = json.Unmarshal(body, &m) // the SDK rejects a body that is not one message
	return m, true
}

// headersFit checks the headers that the SDK does not check, and returns false if it has answered the
// request.
func headersFit(w http.ResponseWriter, r *http.Request, m message) bool {
	switch m.Method {
	case mcptasks.MethodGet, mcptasks.MethodUpdate, mcptasks.MethodCancel:
		if r.Header.Get("Mcp-Method") != m.Method {
			refuse(w, http.StatusBadRequest, m.ID, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "Mcp-Method is not the method of the body"})
			return false
		}
		if name := r.Header.Values("Mcp-Name"); len(name) != 1 || strings.TrimSpace(name[0]) != m.Params.TaskID {
			refuse(w, http.StatusBadRequest, m.ID, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "Mcp-Name is not params.taskId of the body"})
			return false
		}
	case methodListen: // there are no notifications of tasks, and the acknowledgement says so to a client with tasks
		if len(m.Params.Notifications.TaskIDs) > 0 && !mcptasks.Declared(m.Params.Meta.Capabilities) {
			refuse(w, http.StatusBadRequest, m.ID, mcptasks.ErrMissing())
			return false
		}
	}
	return true
}

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, problem error) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   error           `json:"error"`
	}{"2.0", id, problem})
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
