package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// Of the places for requests that last, one owner may have half, so that nobody's token can shut out all others. The operator may
// have all.
const (
	mostWaits   = 32  // of the 64 of edge.Hold
	mostStreams = 128 // of the 256 of package follow, and of those of package agui
)

// shares count how many requests of each owner are in progress.
type shares struct {
	most int

	mu sync.Mutex
	of map[string]int
}

func newShares(most int) *shares { return &shares{most: most, of: make(map[string]int)} }

// enter counts a request until leave is called. If its owner has as many as may be, it answers 503, and ok is false.
func (s *shares) enter(w http.ResponseWriter, r *http.Request) (leave func(), ok bool) {
	b := bearerOf(r)
	if b == nil {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[b.owner] >= s.most {
		w.Header().Set("Retry-After", "1")
		edge.Refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d requests of %s last already; that is as many as may", s.most, b.owner))
		return nil, false
	}
	s.of[b.owner]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[b.owner]--; s.of[b.owner] == 0 {
			delete(s.of, b.owner)
		}
	}, true
}

// handler counts the requests of a handler.
func (s *shares) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if leave, ok := s.enter(w, r); ok {
			defer leave()
			h.ServeHTTP(w, r)
		}
	})
}

// hold is edge.Hold for a request that wants to wait. Requests that do not wait are not limited.
func (a api) hold(w http.ResponseWriter, r *http.Request, wait time.Duration) (release func(), ok bool) {
	if wait <= atOnce {
		return func() {}, true
	}
	leave, ok := a.waits.enter(w, r)
	if !ok {
		return nil, false
	}
	end, ok := edge.Hold(w, r, wait)
	if !ok {
		leave()
		return nil, false
	}
	return func() { end(); leave() }, true
}
