package toolserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/internal/netguard"
)

// A message is on its way to a runtime.
type message struct {
	kind string // its type member
	body []byte
	id   string          // the webhook-id: the same for every attempt
	ctx  context.Context // ends when the message is not wanted any more
	lost chan error      // receives why the message could not be delivered
}

var (
	errLeak     = errors.New("the result was withheld because it contained a credential")
	errEncoding = errors.New("the result could not be encoded")
)

// encode makes a message of the call. A message with a live secret in it is
// refused.
func (s *Server) encode(c *call, msg agentproto.Callback) (*message, error) {
	body, err := agentproto.Encode(msg)
	if err != nil {
		s.log.Error("message cannot be encoded", "message", msg.Type(), "tool", c.inv.Operation, "error", err)
		return nil, errEncoding
	}
	if s.guard.finds(body) {
		return nil, errLeak
	}
	return &message{
		kind: msg.Type(),
		body: body,
		id:   "msg_" + rand.Text(),
		ctx:  c.ctx,
		lost: make(chan error, 1),
	}, nil
}

// post queues a message behind the ones that the call has posted before.
func (c *call) post(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, m)
	if !c.posting {
		c.posting = true
		go c.deliver()
	}
}

// deliver delivers the messages of the call, one after the other. The queue is in
// memory; a message that was not delivered is lost with the process.
func (c *call) deliver() {
	for {
		c.mu.Lock()
		if len(c.messages) == 0 {
			c.posting = false
			finished := c.ended
			c.mu.Unlock()
			if finished {
				c.server.finish(c)
			}
			return
		}
		m := c.messages[0]
		c.messages = c.messages[1:]
		c.mu.Unlock()

		err := context.Cause(m.ctx)
		if err == nil {
			err = c.server.send(c, m)
		}
		if err == nil {
			continue
		}
		if m.ctx.Err() == nil || m.kind == agentproto.TypeToolResult {
			c.server.log.Warn("message not delivered", "message", m.kind, "webhook-id", m.id,
				"tool", c.inv.Operation, "callback", origin(c.callback), "error", err)
		}
		m.lost <- err
		if errors.Is(err, errGone) {
			c.abandon(ErrCancelled)
		}
	}
}

// send tries to deliver a message until it is accepted, refused, not wanted any
// more, or the horizon is reached.
func (s *Server) send(c *call, m *message) error {
	end := time.Now().Add(s.opts.CallbackHorizon)
	for failed := 1; ; failed++ {
		after, err := s.attempt(c, m)
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, errGone) {
			return err
		}
		wait := max(waitAfter(failed), after)
		if time.Now().Add(wait).After(end) {
			return fmt.Errorf("%w: last: %w", errExpired, err)
		}
		s.log.Debug("message will be sent again", "message", m.kind, "webhook-id", m.id,
			"callback", origin(c.callback), "attempt", failed, "wait", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.ctx.Done():
			timer.Stop()
			return context.Cause(m.ctx)
		}
	}
}

// attempt posts a message once. After an error that is not final it returns how
// long the runtime wants the next attempt to wait.
func (s *Server) attempt(c *call, m *message) (after time.Duration, err error) {
	ctx, stop := context.WithTimeout(m.ctx, s.opts.CallbackTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.callback.String(), bytes.NewReader(m.body))
	if err != nil {
		return 0, errRefused
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("webhook-id", m.id)
	resp, err := s.callbacks.Do(req)
	if errors.Is(err, netguard.ErrBlocked) {
		return 0, fmt.Errorf("%w: %w", errRefused, bare(err))
	}
	if err != nil {
		return 0, s.loggable(c, err)
	}
	discard(resp.Body)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case code == http.StatusGone:
		return 0, errGone
	case code == http.StatusTooManyRequests || code >= 500:
		return retryAfter(resp.Header), fmt.Errorf("status %d", code)
	default: // a redirect too: the address that was given is the only one
		return 0, fmt.Errorf("%w: status %d", errRefused, code)
	}
}

// loggable returns a transport's error without the callback_url.
func (s *Server) loggable(c *call, err error) error {
	err = bare(err)
	if path := c.callback.Path; len(path) > 1 && strings.Contains(err.Error(), path) {
		return errors.New("the request failed")
	}
	return err
}
