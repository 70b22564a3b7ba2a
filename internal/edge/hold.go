package edge

import (
	"net/http"
	"time"
)

// Hold allows the answer to r to take d longer than the server's other answers.
// [Options].Waiting limits the number of requests that are held at the same time, so that
// they cannot use up the connections of all others. Above the limit, Hold answers 503 with
// Retry-After, and ok is false. The caller must call release when the answer is written.
// Without a [Server] there is no limit.
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
	// A writer without a deadline needs none. The next request of the connection gets the
	// server's own deadline again.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + s.http.WriteTimeout))
	return func() { <-s.waiting }, true
}
