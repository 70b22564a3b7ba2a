package idp

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// knobs are what a test can set and read.
type knobs struct {
	mu        sync.Mutex
	exchanges int
	refreshes int
	userInfos int
	failures  int    // token requests still to fail
	status    int    // the status of these failures
	hold      *hold  // nil if token requests need not wait
	iss       string // the iss of authorization responses
}

// Exchanges returns the number of requests to exchange a code that reached the
// token endpoint, whatever their result. A client that guesses how to authenticate
// sends a failing one twice.
func (p *Provider) Exchanges() int {
	p.knobs.mu.Lock()
	defer p.knobs.mu.Unlock()
	return p.knobs.exchanges
}

// Refreshes returns the number of refresh requests that reached the token
// endpoint, whatever their result.
func (p *Provider) Refreshes() int {
	p.knobs.mu.Lock()
	defer p.knobs.mu.Unlock()
	return p.knobs.refreshes
}

// UserInfos returns the number of requests that reached the userinfo endpoint.
func (p *Provider) UserInfos() int {
	p.knobs.mu.Lock()
	defer p.knobs.mu.Unlock()
	return p.knobs.userInfos
}

// Replays returns how often a code or a refresh token was received that had been
// used before.
func (p *Provider) Replays() int {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return p.store.replays
}

// Secrets returns every code, code verifier and token that was issued or sent to
// the token endpoint. A test looks for them where they must not be: in results,
// logs, pages and files.
func (p *Provider) Secrets() []string {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return slices.Sorted(maps.Keys(p.store.secrets))
}

// remember adds to what [Provider.Secrets] returns.
func (p *Provider) remember(secrets ...string) {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	for _, s := range secrets {
		if s != "" {
			p.store.secrets[s] = true
		}
	}
}

// ExpireTokens invalidates the access tokens of a user and returns how many there
// were. Refresh tokens stay valid. The client is not notified: it still relies on
// the expiry that it knows.
func (p *Provider) ExpireTokens(user string) int {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.access)
	maps.DeleteFunc(s.access, func(_ string, t *accessToken) bool { return s.bySub[t.subject].Name == user })
	return before - len(s.access)
}

// RevokeRefresh invalidates the refresh tokens of a user and returns how many
// there were. Access tokens stay valid.
func (p *Provider) RevokeRefresh(user string) int {
	s := p.store
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.refresh)
	maps.DeleteFunc(s.refresh, func(_ string, t *refreshToken) bool { return s.bySub[t.subject].Name == user })
	return before - len(s.refresh)
}

// FailTokenEndpoint makes the next n requests to the token endpoint fail with a
// status. Codes and tokens in these requests stay valid. It replaces an earlier
// call.
//
// The answer is an OAuth error whose description repeats the code, the verifier
// and the refresh token of the request, as some real providers do; a client that
// passes it on leaks them. With a status below 400 the answer is an HTML page
// instead.
func (p *Provider) FailTokenEndpoint(status, n int) {
	p.knobs.mu.Lock()
	defer p.knobs.mu.Unlock()
	p.knobs.status, p.knobs.failures = status, n
}

// A hold makes token requests wait.
type hold struct {
	arrived chan struct{} // one value for each request, as long as there is room
	release chan struct{} // closed
}

// HoldTokenEndpoint makes requests to the token endpoint wait until release is
// called. One value can be received from arrived for each waiting request, so a
// test need not poll. A later hold replaces it for later requests.
func (p *Provider) HoldTokenEndpoint() (arrived <-chan struct{}, release func()) {
	h := &hold{arrived: make(chan struct{}, 256), release: make(chan struct{})}
	p.knobs.mu.Lock()
	defer p.knobs.mu.Unlock()
	p.knobs.hold = h
	return h.arrived, sync.OnceFunc(func() {
		p.knobs.mu.Lock()
		defer p.knobs.mu.Unlock()
		if p.knobs.hold == h {
			p.knobs.hold = nil
		}
		close(h.release)
	})
}

// wait returns when the request may continue. It reports false if the client gave
// up first.
func (h *hold) wait(ctx context.Context) bool {
	if h == nil {
		return true
	}
	select {
	case h.arrived <- struct{}{}:
	default: // a test does not need more values than fit
	}
	select {
	case <-h.release:
		return true
	case <-ctx.Done():
		return false
	}
}

// SetResponseIssuer changes the iss parameter of authorization responses, to
// simulate a mix-up of providers. Empty leaves the parameter out. The metadata
// still promises the right one.
func (p *Provider) SetResponseIssuer(iss string) {
	p.knobs.mu.Lock()
	defer p.knobs.mu.Unlock()
	p.knobs.iss = iss
}

func (k *knobs) responseIssuer() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.iss
}

// countGrant counts a request to the token endpoint and returns the hold for which
// it has to wait, or nil.
func (k *knobs) countGrant(grant string) *hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch grant {
	case "authorization_code":
		k.exchanges++
	case "refresh_token":
		k.refreshes++
	}
	return k.hold
}

func (k *knobs) countUserInfo() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.userInfos++
}

// takeFailure returns the status with which the next request should fail, if it
// should.
func (k *knobs) takeFailure() (status int, fail bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failures <= 0 {
		return 0, false
	}
	k.failures--
	return k.status, true
}
