package callback

import (
	"io"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

// tooLarge refuses a message of more than limit bytes, of which read bytes were read.
func (p *posted) tooLarge(limit, read int64) {
	if p.over > 0 && !p.exempt(quota.Settles) {
		p.later(p.over)
		return
	}
	p.w.Header().Set("Connection", "close")
	// The way in which an HTTP server drains a body after an early answer does not fit here; drain does it below.
	http.NewResponseController(p.w).EnableFullDuplex()
	if !p.elsewhere(&Forwarded{TooLarge: limit}) {
		p.malformed(http.StatusRequestEntityTooLarge, "", tooLongFor(limit))
	}
	p.drain(maxDrained - read)
}

// The limits of draining a body that is too large: how many bytes are read in total, for how long, and how long without a byte.
const (
	maxDrained  = 24 << 20
	drainFor    = 5 * time.Second
	drainSilent = time.Second
)

// drain reads the rest of a body after an early answer. Otherwise a client that reads no answer before it has sent everything
// would find the connection reset, and send everything again.
func (p *posted) drain(left int64) {
	if p.r.Body == nil || p.r.Header.Get("Expect") != "" {
		return // no body, or one that is sent only on request
	}
	control := http.NewResponseController(p.w)
	control.Flush()
	end := time.Now().Add(drainFor)
	for left > 0 {
		now := time.Now()
		if !now.Before(end) || control.SetReadDeadline(earlier(end, now.Add(drainSilent))) != nil {
			return
		}
		n, err := io.CopyN(io.Discard, p.r.Body, min(left, 256<<10))
		if left -= n; err != nil {
			return
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
