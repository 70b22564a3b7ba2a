package toolserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/internal/netguard"
)

// A message is on its way to a runtime.
type message struct {
	kind   string // its type member
	body   []byte
	id     string          // the webhook-id: the same for every attempt
	number uint64          // its place among the messages of the call
	ctx    context.Context // ends when the message is not wanted any more
	lost   chan error      // receives why the message could not be delivered

	posted    time.Time
	notBefore time.Time // what the runtime asked for, if it did
	failed    int       // attempts
	to        *address  // what these two are of; nil before the first attempt
}

var (
	errLeak     = errors.New("the result was withheld because it contained a credential")
	errEncoding = errors.New("the result could not be encoded")
)

// encode makes a message of the call. One in which the tool has written a secret is refused.
func (s *Server) encode(c *call, msg agentproto.Callback) (*message, error) {
	for _, text := range written(msg) {
		if s.guard.finds([]byte(text)) {
			return nil, errLeak
		}
	}
	return s.pack(c, msg)
}

// written returns the strings of a message that are the tool's own. The others are ids, which
// the runtime has chosen, and addresses, which the server has made.
func written(msg agentproto.Callback) (texts []string) {
	switch m := msg.(type) {
	case *agentproto.ToolResult:
		if m.Text != nil {
			texts = append(texts, *m.Text)
		}
		for _, c := range m.Content {
			texts = append(texts, c.Type, c.Text, c.Data, c.MediaType)
		}
		for _, d := range m.DisplayAs {
			texts = append(texts, d.Type, d.Text)
			if d.Diff != nil {
				texts = append(texts, d.Diff.Path, d.Diff.Patch)
			}
			if d.Image != nil {
				texts = append(texts, d.Image.Data, d.Image.MediaType)
			}
		}
	case *agentproto.SubscriptionEvent:
		texts = append(texts, m.Text)
	case *agentproto.UserChoice:
		texts = append(append(texts, m.Prompt), m.Choices...)
	case *agentproto.ViewUpdate:
		texts = append(texts, m.ViewType, string(m.Content))
	}
	return texts
}

// pack makes a message of the call without looking into it.
func (s *Server) pack(c *call, msg agentproto.Callback) (*message, error) {
	body, err := agentproto.Encode(msg)
	if err != nil {
		s.log.Error("message cannot be encoded", "message", msg.Type(), "tool", c.inv.Operation, "error", err)
		return nil, errEncoding
	}
	return &message{
		kind: msg.Type(),
		body: body,
		id:   "msg_" + rand.Text(),
		ctx:  c.life, // the function's context ends before the result is delivered
		lost: make(chan error, 1),
	}, nil
}

// attempt posts a message to an address once. After an error that is not final it returns how
// long the runtime wants the next attempt to wait.
func (s *Server) attempt(ctx context.Context, c *call, to *address, m *message) (after time.Duration, err error) {
	leave, err := s.lanes.enter(ctx, to.url)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, stop := context.WithTimeout(ctx, s.opts.CallbackTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url.String(), bytes.NewReader(m.body))
	if err != nil {
		return 0, errRefused
	}
	req.Header.Set("Content-Type", "application/json")
	if err := s.sign(req.Header, c.key.runtime, to.messageID(m), m.body); err != nil {
		return 0, errRefused
	}
	a, err := s.callbacks.Do(req, 0)
	switch {
	case errors.Is(err, netguard.ErrBlocked):
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	case err != nil:
		return 0, loggable(to.url, err)
	case a.OK():
		return 0, nil
	case a.Status == http.StatusGone:
		return 0, errGone
	case a.Status == http.StatusTooManyRequests || a.Status >= 500:
		return a.RetryAfter, fmt.Errorf("status %d", a.Status)
	default: // a redirect too: the address that was given is the only one
		return 0, fmt.Errorf("%w: status %d", errRefused, a.Status)
	}
}

// loggable returns a transport's error without the callback_url.
func loggable(to *url.URL, err error) error {
	if path := to.Path; len(path) > 1 && strings.Contains(err.Error(), path) {
		return errors.New("the request failed")
	}
	return err
}
