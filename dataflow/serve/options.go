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
	// Header is where a client names its request. Empty means Idempotency-Key.
	Header string

	// Idempotent makes the router keep to draft-ietf-httpapi-idempotency-key-header; see
	// [Idempotency]. Nil means that ids are optional and are those of one name space.
	Idempotent *Idempotency

	// Same are the headers that have to be the same in a repeat of a request. Nil means
	// Authorization, Content-Type and Cookie: what was answered to one user is not
	// told to another who knows the id. With Idempotent, which tells callers apart, it
	// means Content-Type and Cookie, and with [Idempotency].Caller only Content-Type.
	Same []string

	// Timeout is how long a request waits for its response. Zero means 30 seconds.
	Timeout time.Duration

	// Patience is how long a request waits for room in the queue of its location. Zero
	// means 100 milliseconds.
	Patience time.Duration

	// RetryAfter is when a client that was answered 503 or 504, or 409 because its request
	// is still being handled, is told to come again, in whole seconds. Zero means a second.
	RetryAfter time.Duration

	// Pending is how many requests there may be between being read and being answered,
	// those included whose client has gone. Zero means 10,000.
	Pending int

	// Body is how large the body of a request may be. Zero means 1 MiB.
	Body int64

	// Retain is how long an answer is kept for repeats of its request. Zero means five
	// minutes, or 24 hours with Idempotent. Only answers to requests whose id a client can
	// know are kept. In a durable flow the time is that of the flow.
	Retain time.Duration

	// Answers is how many answers are kept at most; the oldest goes first. Zero means
	// 10,000. In a durable flow there is no such bound: Retain alone counts.
	Answers int

	// Log is where failures of the flow and responses that cannot be sent are
	// reported. Nil means slog.Default().
	Log *slog.Logger
}

// filled returns o with defaults in place of zeros. It panics if o makes no sense.
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
