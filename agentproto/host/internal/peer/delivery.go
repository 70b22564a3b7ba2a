package peer

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// A Delivery is one message that is posted until it is accepted, refused or given up: an invocation, or the answer to a prompt.
type Delivery struct {
	Server  *Server // its secrets sign the message; nil if unknown
	What    string  // names the message in texts: the call, the answer
	To      string
	ID      string // the webhook-id of every attempt
	Body    []byte
	Attempt time.Duration   // timeout of one attempt
	Total   time.Duration   // timeout of all attempts; zero for none
	Settled <-chan struct{} // when closed, no further attempt is made; may be nil
	Started func()          // called for each attempt; may be nil
}

// An ending is the outcome of a delivery.
type ending struct {
	Accepted  bool
	Ambiguous bool   // the server may have the message although it did not acknowledge it
	Failure   string // what the server did, as a predicate
	Attempts  int
	Err       error // of the last attempt, for the log
}

// Outcome describes the outcome of a delivery in a few words.
func (e *ending) Outcome() string {
	switch {
	case e.Accepted && e.Attempts == 1:
		return "accepted"
	case e.Accepted:
		return fmt.Sprintf("accepted after %d attempts", e.Attempts)
	}
	return fmt.Sprintf("%s, after %d attempts", e.Failure, e.Attempts)
}

// Deliver posts a message until it is accepted or given up.
//
// A status of 4xx other than 429 is final, and so is a redirect, which could lead anywhere. After 429, 5xx, silence and failed
// connections it tries again. The message is ambiguous if any attempt may have reached the server's program.
func (ps *Peers) Deliver(ctx context.Context, d *Delivery) (end ending) {
	if d.Total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Total)
		defer cancel()
	}
	for {
		if d.Started != nil {
			d.Started()
		}
		end.Attempts++
		once, cancel := context.WithTimeout(ctx, d.Attempt)
		a, err := ps.Post(once, d.Server, d.To, d.ID, d.Body, 0)
		silent := once.Err() != nil
		cancel()

		end.Err = err
		switch {
		case err == nil && a.OK():
			end.Accepted = true
			return end
		case err == nil && a.Status == http.StatusTooManyRequests:
			end.Failure = "is overloaded: 429"
		case err == nil && a.Status >= 500:
			end.Failure = fmt.Sprintf("failed: %d", a.Status)
			end.Ambiguous = true
		case err == nil && a.Status >= 400:
			end.Failure = fmt.Sprintf("refused %s: %d", d.What, a.Status)
			return end
		case err == nil:
			end.Failure = fmt.Sprintf("redirected %s, which is not followed: %d", d.What, a.Status)
			return end
		case !edge.Reached(err):
			end.Failure = "is unreachable"
		case silent:
			end.Failure = "did not acknowledge " + d.What + " in time"
			end.Ambiguous = true
		default:
			end.Failure = "broke the connection"
			end.Ambiguous = true
		}
		after := time.Duration(0)
		if err == nil {
			after = a.RetryAfter
		}
		if !ps.Retry().Wait(ctx, end.Attempts, after, d.Settled) {
			return end
		}
	}
}

// Retry returns the pauses before a failed message is tried again.
func (ps *Peers) Retry() edge.Curve { return edge.Curve{First: ps.config.Retry} }
