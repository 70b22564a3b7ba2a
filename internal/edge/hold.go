package edge

import (
	"net/http"
	"time"
)

// Hold lets the answer to r take d longer than the server's other answers. The requests that
// are held at once are bounded by [Options].Waiting, so that they cannot use up the
// connections of all others; above that Hold answers 503 with Retry-After, and ok is false.
// The caller calls release when the answer is written. Under a server that is not a [Server]
// nothing is bounded.
func Hold(w http.ResponseWriter, r *http.Request, d time.Duration) (release func(), ok bool) {
	s, found := r.Context().Value(serverKey{}).(*Server)
	if !found {
		return func() {}, true
	}
	select {
	case s.waiting <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "1")
		Refuse(w, r, http.StatusServiceUnavailable, "too many requests wait for an answer")
		return nil, false
	}
	// A writer that has no deadline needs none. The next request of the connection gets the
	// server's own again.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + s.http.WriteTimeout))
	return func() { <-s.waiting }, true
}
