package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestShares checks that one owner cannot take all places of requests that last, that others have the rest, and that a place is free
// again when its request has ended.
func TestShares(t *testing.T) {
	of := func(owner string) *http.Request {
		r := httptest.NewRequest("GET", "/threads/t/events", nil)
		if owner == "" {
			return r // the operator
		}
		return r.WithContext(context.WithValue(r.Context(), bearerKey{}, &bearer{owner: owner, scopes: scopeRead | scopeCall}))
	}
	a := api{waits: newShares(2)}
	streams, begun := newShares(2), make(chan bool)
	stream := streams.handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { begun <- true; <-r.Context().Done() }))
	for what, enter := range map[string]func(r *http.Request) (w *httptest.ResponseRecorder, leave func()){
		"a wait": func(r *http.Request) (*httptest.ResponseRecorder, func()) {
			w := httptest.NewRecorder()
			leave, _ := a.hold(w, r, time.Minute)
			return w, leave
		},
		"a stream": func(r *http.Request) (*httptest.ResponseRecorder, func()) {
			ctx, cancel := context.WithCancel(r.Context())
			w, done := httptest.NewRecorder(), make(chan bool)
			go func() { stream.ServeHTTP(w, r.WithContext(ctx)); close(done) }()
			select {
			case <-begun:
				return w, func() { cancel(); <-done }
			case <-done:
				cancel()
				return w, nil
			}
		},
	} {
		_, first := enter(of("eve"))
		_, second := enter(of("eve"))
		if first == nil || second == nil {
			t.Fatalf("%s of eve is refused", what)
		}
		w, third := enter(of("eve"))
		if third != nil || w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "2 requests of eve") {
			t.Errorf("the third of eve, %s, is answered %d %s", what, w.Code, w.Body)
		}
		for _, other := range []string{"bob", "bob", "", "", ""} {
			_, leave := enter(of(other))
			if leave == nil {
				t.Errorf("%s of %q is refused", what, other)
				continue
			}
			defer leave()
		}
		first()
		if _, again := enter(of("eve")); again == nil {
			t.Errorf("%s of eve is refused although there is a place", what)
		} else {
			again()
		}
		second()
	}
	if len(streams.of) != 1 || len(a.waits.of) != 1 { // those of bob last until the test ends
		t.Errorf("there are %v and %v", streams.of, a.waits.of)
	}
	if leave, ok := a.hold(httptest.NewRecorder(), of("bob"), 0); !ok {
		t.Error("a request that does not wait is refused")
	} else {
		leave()
	}
}
