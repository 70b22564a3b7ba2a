package toolserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"time"
)

// An authorization waits for a user at a provider. It is found by the digest of
// the state parameter alone, and everything that the redirect is trusted for is
// in it: nothing about the user is taken from the redirect itself.
type authorization struct {
	key      TokenKey
	provider *provider
	verifier string // of PKCE; it does not leave the server except to the token endpoint
	address  string // the provider's page, with the state in it
	browser  string // the cookie of the browser that opened the start page
	expires  time.Time
	done     chan error // has room for the one outcome
}

// states are the authorizations that users may complete: each by the digest of its
// state and, if there are start pages, of the secret in the address of that page.
type states struct {
	mu     sync.Mutex
	open   map[digest]*authorization
	starts map[digest]*authorization
}

// newState returns a random text of 256 bits and its digest.
func newState() (string, digest) {
	state := rand.Text() + rand.Text()
	return state, sha256.Sum256([]byte(state))
}

// put makes an authorization known.
func (st *states) put(state, start digest, a *authorization) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.open == nil {
		st.open = make(map[digest]*authorization)
		st.starts = make(map[digest]*authorization)
	}
	st.open[state] = a
	st.starts[start] = a
}

// drop forgets an authorization, so that a redirect that comes later is refused.
func (st *states) drop(state, start digest) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.open, state)
	delete(st.starts, start)
}

// take returns the authorization that a redirect belongs to, once. It returns nil
// if there is none, if it is another provider's or has expired, or if the redirect
// came in another browser than the one that opened the start page; the
// authorization then goes on waiting.
func (st *states) take(state string, p *provider, cookies []string) *authorization {
	d := sha256.Sum256([]byte(state))
	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.open[d]
	if a == nil || a.provider != p || time.Now().After(a.expires) || !slices.ContainsFunc(cookies, a.opened) {
		return nil
	}
	delete(st.open, d)
	return a
}

// opened reports whether a cookie is the one of the authorization's start page.
func (a *authorization) opened(cookie string) bool {
	return subtle.ConstantTimeCompare([]byte(a.browser), []byte(cookie)) == 1
}

// start returns the authorization of a start page.
func (st *states) start(secret string) *authorization {
	d := sha256.Sum256([]byte(secret))
	st.mu.Lock()
	defer st.mu.Unlock()
	a := st.starts[d]
	if a == nil || time.Now().After(a.expires) {
		return nil
	}
	return a
}
