package serve

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// Options are the optional settings of a [Router]. The zero value is ready to use.
type Options struct {
	// Header is the header in which a client sends the id of its request. Empty means
	// Idempotency-Key.
	Header string

	// Idempotent makes the router follow draft-ietf-httpapi-idempotency-key-header; see
	// [Idempotency]. Nil means that ids are optional and share one name space.
	Idempotent *Idempotency

	// Same lists the headers that must be the same in a repeat of a request. Nil means
	// Authorization, Content-Type and Cookie, so that an answer to one user is not sent to
	// another who knows the id. With Idempotent, which distinguishes callers, nil means
	// Content-Type and Cookie, and with [Idempotency].Caller only Content-Type.
	Same []string

	// Timeout is how long a request waits for its response. Zero means 30 seconds.
	Timeout time.Duration

	// Patience is how long a request waits for room in the queue of its location. Zero
	// means 100 milliseconds.
	Patience time.Duration

	// RetryAfter is the Retry-After, in whole seconds, of an answer 503 or 504, or of a 409
	// to a request that is still being handled. Zero means a second.
	RetryAfter time.Duration

	// Pending limits the number of requests between being read and being answered, including
	// those whose client has disconnected. Zero means 10,000.
	Pending int

	// Body is the maximum size of the body of a request. Zero means 1 MiB.
	Body int64

	// Retain is how long an answer is kept for repeats of its request. Zero means five
	// minutes, or 24 hours with Idempotent. Only answers to requests whose id a client can
	// know are kept. In a durable flow the time is that of the flow.
	Retain time.Duration

	// Answers is the maximum number of answers kept; the oldest is dropped first. Zero means
	// 10,000. It has no effect in a durable flow, where Retain alone counts.
	Answers int

	// Log receives failures of the flow and responses that cannot be sent. Nil means
	// slog.Default().
	Log *slog.Logger
}

// filled returns o with defaults in place of zeros. It panics if o is invalid.
func (o Options) filled(op string) Options {
	for _, d := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(o.Timeout)}, {"Patience", int64(o.Patience)}, {"RetryAfter", int64(o.RetryAfter)},
		{"Pending", int64(o.Pending)}, {"Body", o.Body}, {"Retain", int64(o.Retain)}, {"Answers", int64(o.Answers)},
	} {
		if d.value < 0 {
			engine.Misuse(op, "Options.%s is %d: it must not be negative", d.name, d.value)
		}
	}
	if strings.ContainsAny(o.Header, " :\r\n") {
		engine.Misuse(op, "Options.Header is %q: that is not the name of a header", o.Header)
	}
	o.Header = http.CanonicalHeaderKey(cmp.Or(o.Header, "Idempotency-Key"))
	o.Idempotent = o.Idempotent.filled()
	if o.Same == nil {
		o.Same = o.Idempotent.same()
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.Patience = cmp.Or(o.Patience, 100*time.Millisecond)
	o.RetryAfter = cmp.Or(o.RetryAfter, time.Second)
	o.Pending = cmp.Or(o.Pending, 10_000)
	o.Body = cmp.Or(o.Body, 1<<20)
	o.Retain = cmp.Or(o.Retain, o.Idempotent.retain())
	o.Answers = cmp.Or(o.Answers, 10_000)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
