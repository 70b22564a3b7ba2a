package callback

import (
	"io"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

// tooLarge refuses a message that has more bytes than the limit, and of which so many were read.
func (p *posted) tooLarge(limit, read int64) {
	if p.over > 0 && !p.exempt(quota.Settles) {
		p.later(p.over)
		return
	}
	p.w.Header().Set("Connection", "close")
	// What an HTTP server does with the rest of a body that it answers early does not fit
	// here: it is read below.
	http.NewResponseController(p.w).EnableFullDuplex()
	if !p.elsewhere(nil) { // where it is malformed, too
		p.malformed(http.StatusRequestEntityTooLarge, "", tooLongFor(limit))
	}
	p.drain(maxDrained - read)
}

// How much of a body that is too large is read, most of which is thrown away, for how long, and
// for how long without a byte.
const (
	maxDrained  = 24 << 20
	drainFor    = 5 * time.Second
	drainSilent = time.Second
)

// drain reads on after an answer that came early. A client that reads no answer before it has
// sent everything would find the connection reset otherwise, and send it all again.
func (p *posted) drain(left int64) {
	if p.r.Body == nil || p.r.Header.Get("Expect") != "" {
		return // there is nothing, or it comes only if it is asked for
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
