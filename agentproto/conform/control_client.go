package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// A Control is a client of the control interface of a runtime. Its methods may be used
// concurrently.
type Control struct {
	base  string
	token string
	http  *edge.Client
}

// NewControl returns a client of the control interface at a base URL, with a token: the
// Control and the Token of a [Hello]. An empty token is not sent.
func NewControl(base, token string) *Control {
	return &Control{base: strings.TrimSuffix(base, "/"), token: token, http: edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext}.Transport())}
}

// A ControlError is a control request that was not answered 200.
type ControlError struct {
	Request string // such as "POST /sessions"
	Status  int
	Text    string // the member error of the answer, or its beginning
}

// Error returns the refused request and the reason.
func (e *ControlError) Error() string {
	return fmt.Sprintf("control: %s: %d: %s", e.Request, e.Status, e.Text)
}

// Lacking reports whether err says that the runtime lacks a part: status 501.
func Lacking(err error) bool {
	e, ok := errors.AsType[*ControlError](err)
	return ok && e.Status == http.StatusNotImplemented
}

// Open opens a session, or finds it if it is open.
func (c *Control) Open(ctx context.Context, r SessionRequest) (s Session, err error) {
	return s, c.do(ctx, http.MethodPost, "/sessions", r, &s)
}

// Child opens a child of a thread.
func (c *Control) Child(ctx context.Context, parent, id string) error {
	return c.do(ctx, http.MethodPost, threadPath(parent)+"/children", ChildRequest{id}, nil)
}

// Say makes the model say a turn.
func (c *Control) Say(ctx context.Context, thread string, t Turn) error {
	return c.do(ctx, http.MethodPost, threadPath(thread)+"/calls", t, nil)
}

// Text makes the user say something.
func (c *Control) Text(ctx context.Context, thread, text string) error {
	return c.do(ctx, http.MethodPost, threadPath(thread)+"/text", Text{text}, nil)
}

// Interrupt makes the user interrupt the thread's pending calls.
func (c *Control) Interrupt(ctx context.Context, thread string) error {
	return c.do(ctx, http.MethodPost, threadPath(thread)+"/interrupt", struct{}{}, nil)
}

// Close closes a thread.
func (c *Control) Close(ctx context.Context, thread string) error {
	return c.do(ctx, http.MethodDelete, threadPath(thread), nil, nil)
}

// Thread returns the visible state of a thread.
func (c *Control) Thread(ctx context.Context, thread string) (t Thread, err error) {
	return t, c.do(ctx, http.MethodGet, threadPath(thread), nil, &t)
}

// Answer makes the user answer a prompt, or dismiss it.
func (c *Control) Answer(ctx context.Context, thread string, a Answer) error {
	return c.do(ctx, http.MethodPost, threadPath(thread)+"/answers", a, nil)
}

// Migrate moves a session to another runtime.
func (c *Control) Migrate(ctx context.Context, session, to string) error {
	return c.do(ctx, http.MethodPost, "/sessions/"+edge.Segment(session)+"/migrate", Migration{to}, nil)
}

// SetClock sets how far the runtime's clock is ahead of the machine's.
func (c *Control) SetClock(ctx context.Context, ahead time.Duration) error {
	return c.do(ctx, http.MethodPut, "/clock", Clock{ahead.Milliseconds()}, nil)
}

// Stats returns the runtime's counters.
func (c *Control) Stats(ctx context.Context) (s RuntimeStats, err error) {
	return s, c.do(ctx, http.MethodGet, "/stats", nil, &s)
}

func threadPath(id string) string { return "/threads/" + edge.Segment(id) }

// maxControlReply bounds an answer of the control interface.
const maxControlReply = 64 << 20

func (c *Control) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	a, err := c.http.Do(req, maxControlReply)
	switch {
	case err != nil:
		return fmt.Errorf("control: %s %s: %w", method, path, err)
	case a.Status != http.StatusOK:
		return &ControlError{Request: method + " " + path, Status: a.Status, Text: errorText(a.Body)}
	case a.Broken != nil:
		return fmt.Errorf("control: %s %s: %w", method, path, a.Broken)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(a.Body, out); err != nil {
		return fmt.Errorf("control: %s %s: %w", method, path, err)
	}
	return nil
}

// errorText returns the member error of an answer, or the answer's beginning.
func errorText(data []byte) string {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(data, &e) == nil && e.Error != "" {
		return e.Error
	}
	return string(data[:min(len(data), 200)])
}
