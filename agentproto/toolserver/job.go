package toolserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/internal/netguard"
)

// deliver makes one attempt to send a message.
func (s *Server) deliver(ctx context.Context, at tools.Place, j tools.Job) tools.Outcome {
	s.local.Attempted(j)
	ctx, stop := s.stoppable(ctx, at, j.Number)
	defer stop(nil)
	to, err := url.Parse(j.To)
	o := tools.Outcome{Class: tools.Refused}
	if err == nil {
		o.Class, o.After, err = s.attempt(ctx, j, to)
	}
	if err != nil && ctx.Err() != nil {
		return tools.Outcome{Suspended: true}
	}
	wait, again := s.rules.Pause(j, o.After)
	switch {
	case o.Class == tools.Again && again:
		s.log.Debug("message will be sent again", "message", j.Message.Kind, "webhook-id", j.ID,
			"callback", origin(to), "attempt", j.Message.Failed+1, "wait", wait, "error", err)
	case err != nil:
		if o.Class == tools.Again {
			err = fmt.Errorf("%w: last: %w", errExpired, err)
		}
		s.log.Warn("message not delivered", "message", j.Message.Kind, "webhook-id", j.ID, "callback", origin(to), "error", err)
	}
	o.Load = s.flow.Load()
	return o
}

// attempt posts a message to an address once. After an error that is not final it returns how
// long the runtime wants the next attempt to wait.
func (s *Server) attempt(ctx context.Context, j tools.Job, to *url.URL) (class tools.Class, after time.Duration, err error) {
	leave, err := s.lanes.Enter(ctx, origin(to))
	if err != nil {
		return tools.Again, 0, err
	}
	defer leave()
	ctx, stop := context.WithTimeout(ctx, s.opts.CallbackTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.To, bytes.NewReader(j.Message.Body))
	if err != nil {
		return tools.Refused, 0, errRefused
	}
	req.Header.Set("Content-Type", "application/json")
	if err := s.sign(req.Header, j.Call.Runtime, j.ID, j.Message.Body); err != nil {
		return tools.Refused, 0, errRefused
	}
	a, err := s.callbacks.Do(req, 0)
	switch {
	case errors.Is(err, netguard.ErrBlocked):
		return tools.Refused, 0, fmt.Errorf("%w: %w", errRefused, err)
	case err != nil:
		return tools.Again, 0, loggable(to, err)
	case a.OK():
		return tools.Accepted, 0, nil
	case a.Status == http.StatusGone:
		return tools.Gone, 0, errGone
	case a.Status == http.StatusTooManyRequests || a.Status >= 500:
		return tools.Again, a.RetryAfter, fmt.Errorf("status %d", a.Status)
	default: // a redirect too: the address that was given is the only one
		return tools.Refused, 0, fmt.Errorf("%w: status %d", errRefused, a.Status)
	}
}

// loggable returns a transport's error without the callback_url.
func loggable(to *url.URL, err error) error {
	if path := to.Path; len(path) > 1 && strings.Contains(err.Error(), path) {
		return errors.New("the request failed")
	}
	return err
}
