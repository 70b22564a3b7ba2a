package outgoing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/agentproto/internal/tracing"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// Why a message was not delivered.
var (
	errGone    = errors.New("toolserver: the callback address is gone")
	errRefused = errors.New("toolserver: the message was refused")
	errExpired = errors.New("toolserver: the message could not be delivered in time")
)

// Options are the settings of a [Sender].
type Options struct {
	Transport http.RoundTripper
	Timeout   time.Duration // of an attempt
	Rules     tools.Rules
	Sign      func(h http.Header, runtime, id string, body []byte) error
	Tracer    agentproto.Tracer
	Log       *slog.Logger
}

// A Sender sends messages.
type Sender struct {
	o      Options
	client *edge.Client
	limit  originLimiter
}

// NewSender returns a sender.
func NewSender(o Options) *Sender { return &Sender{o: o, client: edge.NewClient(o.Transport)} }

// Send makes one attempt to send a message.
func (s *Sender) Send(ctx context.Context, j tools.Job) tools.Outcome {
	to, err := url.Parse(j.To)
	o := tools.Outcome{Class: tools.Refused}
	if err == nil {
		o.Class, o.After, err = s.traced(ctx, j, to)
	}
	if err != nil && ctx.Err() != nil {
		return tools.Outcome{Suspended: true}
	}
	wait, again := s.o.Rules.Pause(j, o.After)
	switch {
	case o.Class == tools.Again && again:
		s.o.Log.Debug("message will be sent again", "message", j.Message.Kind, "webhook-id", j.ID,
			"callback", origin(to), "attempt", j.Message.Failed+1, "wait", wait, "error", err)
	case err != nil:
		if o.Class == tools.Again {
			err = fmt.Errorf("%w: last: %w", errExpired, err)
		}
		s.o.Log.Warn("message not delivered", "message", j.Message.Kind, "webhook-id", j.ID, "callback", origin(to), "error", err)
	}
	return o
}

// traced is attempt within a span.
func (s *Sender) traced(ctx context.Context, j tools.Job, to *url.URL) (tools.Class, time.Duration, error) {
	ctx, span := tracing.Start(ctx, s.o.Tracer, agentproto.SpanStart{
		Name: agentproto.SpanMessage, Kind: agentproto.SpanClient, Parent: j.Trace,
		Key: agentproto.CallKey{GroupID: j.Call.Group, ID: j.Call.ID}, Peer: origin(to), Message: j.Message.Kind,
	})
	class, after, err := s.attempt(ctx, j, to)
	if err != nil {
		span.End(err.Error(), true)
	} else {
		span.End("accepted", false)
	}
	return class, after, err
}

// attempt posts a message to an address once. If the attempt should be repeated, it returns the
// minimum pause that the runtime asks for.
func (s *Sender) attempt(ctx context.Context, j tools.Job, to *url.URL) (class tools.Class, after time.Duration, err error) {
	release, err := s.limit.acquire(ctx, origin(to))
	if err != nil {
		return tools.Again, 0, err
	}
	defer release()
	ctx, stop := context.WithTimeout(ctx, s.o.Timeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.To, bytes.NewReader(j.Message.Body))
	if err != nil {
		return tools.Refused, 0, errRefused
	}
	req.Header.Set("Content-Type", "application/json")
	tracing.Inject(ctx, req.Header)
	if err := s.o.Sign(req.Header, j.Call.Runtime, j.ID, j.Message.Body); err != nil {
		return tools.Refused, 0, errRefused
	}
	a, err := s.client.Do(req, 0)
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
	default: // including a redirect, since only the given address is allowed
		return tools.Refused, 0, fmt.Errorf("%w: status %d", errRefused, a.Status)
	}
}

// loggable returns a transport's error without the path of the callback_url.
func loggable(to *url.URL, err error) error {
	if path := to.Path; len(path) > 1 && strings.Contains(err.Error(), path) {
		return errors.New("the request failed")
	}
	return err
}

// origin returns the part of an address that may be logged.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }
