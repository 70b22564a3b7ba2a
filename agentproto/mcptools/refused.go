package mcptools

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/internal/edge"
)

// A turnedAway is an answer which says that the server has not carried the request out.
type turnedAway struct {
	status int
	after  time.Duration // the server's Retry-After; negative if it does not want the request again
}

// Error implements error.
func (t *turnedAway) Error() string { return fmt.Sprintf("%d %s", t.status, http.StatusText(t.status)) }

// turnedAwayBy returns the refusal in an answer, or nil if the request may have been carried out.
func turnedAwayBy(res *http.Response) *turnedAway {
	after := edge.RetryAfter(res.Header, time.Now())
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &turnedAway{res.StatusCode, -1}
	case http.StatusTooManyRequests:
		return &turnedAway{res.StatusCode, after}
	case http.StatusServiceUnavailable:
		if res.Header.Get("Retry-After") != "" {
			return &turnedAway{res.StatusCode, after}
		}
	}
	return nil
}

// A downError says that a server was given up for now.
type downError struct {
	server string
	err    error
}

// Error implements error.
func (e downError) Error() string { return e.server + " is down: " + e.err.Error() }

// Unwrap returns the reason.
func (e downError) Unwrap() error { return e.err }

// unsent reports whether a call certainly was not carried out: the server was not reached, has refused it, or has forgotten its
// session.
func unsent(err error) bool {
	return errors.Is(err, errNotSent) || errors.Is(err, mcp.ErrSessionMissing)
}

// The pauses before a call that was not carried out is sent again, and their total time, which is that for which a runtime tries
// to reach a tool server.
const (
	shortPause  = 200 * time.Millisecond
	longPause   = 5 * time.Second
	patientTime = 30 * time.Second
)

// A patience schedules the repetitions of a call that was not carried out.
type patience struct {
	until time.Time
	pause time.Duration
}

// wait waits until a failed call is to be sent again, and reports whether it is. It returns an error if the call ends.
func (p *patience) wait(ctx context.Context, err error) (bool, error) {
	if !unsent(err) {
		return false, nil
	}
	if _, down := errors.AsType[downError](err); down {
		return false, nil
	}
	t, answered := errors.AsType[*turnedAway](err)
	if answered && t.after < 0 {
		return false, nil
	}
	if !answered && !errors.Is(err, mcp.ErrSessionMissing) && !errors.Is(err, syscall.ECONNREFUSED) {
		return false, nil // such as an invalid certificate
	}
	now := time.Now()
	if p.until.IsZero() {
		p.until = now.Add(patientTime)
	}
	p.pause = min(max(shortPause, 2*p.pause), longPause)
	pause := p.pause
	if answered {
		pause = max(pause, t.after)
	}
	if now.Add(pause).After(p.until) {
		return false, nil
	}
	return true, wait(ctx, pause, nil)
}
