package toolserver

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/oauth2"
)

var errNotRenewed = errors.New("the access could not be renewed")

// Token returns the access token of the user that a tool function is running for,
// renewed if it has expired. It returns [ErrUnauthorized] if it could not be
// renewed: a function that returns this error has the user asked again. It panics
// if the tool was added without RequireOAuth.
func Token(ctx context.Context) (Secret, error) {
	c := callOf(ctx, "Token")
	if c.tool.provider == nil {
		panic("toolserver: Token: the tool was added without RequireOAuth")
	}
	t, err := c.server.tokens.get(ctx, c.tool.provider, c.fullKey())
	if err != nil {
		return Secret{}, err
	}
	return t.Access, nil
}

// Client returns an HTTP client that puts the access token of [Token] on every
// request. Requests must be https, or go to this machine. An answer of 401 becomes
// the error [ErrUnauthorized], and a redirect to another origin is an error, since
// the token is not for it. It panics if the tool was added without RequireOAuth.
func Client(ctx context.Context) *http.Client {
	c := callOf(ctx, "Client")
	if c.tool.provider == nil {
		panic("toolserver: Client: the tool was added without RequireOAuth")
	}
	return &http.Client{
		Transport: &bearer{ctx: ctx, base: c.server.opts.ProviderTransport},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if origin(r.URL) != origin(via[0].URL) || len(via) >= 10 {
				return errors.New("toolserver: redirect refused")
			}
			return nil
		},
	}
}

// A bearer is a transport that puts the token on requests.
type bearer struct {
	ctx  context.Context // of the tool function
	base http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := protected(r.URL); err != nil {
		return nil, err
	}
	t, err := Token(b.ctx)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.Reveal())
	resp, err := b.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		discard(resp.Body)
		return nil, ErrUnauthorized
	}
	return resp, nil
}

// protected refuses to send a token where others could read it.
func protected(u *url.URL) error {
	if u.Scheme != "https" && !isLoopback(u) {
		return errors.New("toolserver: an access token is sent over https only")
	}
	return nil
}

// tokens gets, renews and saves the users' tokens.
type tokens struct {
	server *Server
	client *http.Client // for token requests

	mu       sync.Mutex
	renewals map[TokenKey]*renewal
}

// A renewal is a refresh that is going on. Everybody who needs the token waits for
// the same one: a provider that rotates refresh tokens takes a second use of one
// for theft.
type renewal struct {
	done  chan struct{}
	token *UserToken
	err   error
}

func newTokens(s *Server) *tokens {
	return &tokens{
		server:   s,
		client:   &http.Client{Transport: s.opts.ProviderTransport, CheckRedirect: noRedirects},
		renewals: make(map[TokenKey]*renewal),
	}
}

// get returns a token that is good now, as far as one can tell. It returns
// ErrUnauthorized if the user has to be asked.
func (ts *tokens) get(ctx context.Context, p *provider, key TokenKey) (*UserToken, error) {
	t, err := ts.load(ctx, key)
	if err != nil || t.valid() {
		return t, err
	}
	ts.mu.Lock()
	r := ts.renewals[key]
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		ts.renewals[key] = r
		go ts.renew(r, p, key)
	}
	ts.mu.Unlock()
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (ts *tokens) load(ctx context.Context, key TokenKey) (*UserToken, error) {
	t, err := ts.server.opts.Vault.Load(ctx, key)
	switch {
	case errors.Is(err, ErrNoToken):
		return nil, ErrUnauthorized
	case err != nil:
		ts.server.log.Error("token not loaded", "provider", key.Provider, "error", err)
		return nil, errAuthFailed
	}
	ts.server.guard.replace(key, t)
	return t, nil
}

// renew refreshes a token. Like an exchange it goes on when the call that needed
// it is cancelled: the provider may have rotated the refresh token already.
func (ts *tokens) renew(r *renewal, p *provider, key TokenKey) {
	ctx, stop := ts.server.providerContext()
	defer stop()
	r.token, r.err = ts.refresh(ctx, p, key)
	ts.mu.Lock()
	delete(ts.renewals, key)
	ts.mu.Unlock()
	close(r.done)
}

func (ts *tokens) refresh(ctx context.Context, p *provider, key TokenKey) (*UserToken, error) {
	old, err := ts.load(ctx, key) // again: a renewal may just have ended
	switch {
	case err != nil || old.valid():
		return old, err
	case old.Refresh.Empty():
		return nil, ErrUnauthorized
	}
	fresh, err := p.config.TokenSource(ctx, &oauth2.Token{RefreshToken: old.Refresh.Reveal()}).Token()
	if err != nil {
		ts.server.logProvider("token not renewed", p, err)
		if !isRejection(err) {
			return nil, errNotRenewed
		}
		if err := ts.server.opts.Vault.Delete(ctx, key); err != nil {
			ts.server.log.Error("token not deleted", "provider", key.Provider, "error", err)
			return nil, errAuthFailed
		}
		return nil, ErrUnauthorized
	}
	if err := ts.save(ctx, p, key, fresh); err != nil {
		return nil, err
	}
	return ts.load(ctx, key)
}

// isRejection reports whether a provider said that a refresh token is no good, as
// opposed to being unable to answer, or to refusing the client itself.
func isRejection(err error) bool {
	var re *oauth2.RetrieveError
	if !errors.As(err, &re) {
		return false
	}
	if re.ErrorCode != "" {
		return re.ErrorCode == "invalid_grant"
	}
	return re.Response != nil && (re.Response.StatusCode == http.StatusBadRequest || re.Response.StatusCode == http.StatusUnauthorized)
}

// save stores what a provider issued, before anybody uses it.
func (ts *tokens) save(ctx context.Context, p *provider, key TokenKey, t *oauth2.Token) error {
	if !strings.EqualFold(t.Type(), "Bearer") {
		ts.server.log.Error("token is not a bearer token", "provider", p.ID)
		return errAuthFailed
	}
	kept := &UserToken{Access: NewSecret(t.AccessToken), Refresh: NewSecret(t.RefreshToken), Expiry: t.Expiry}
	ts.server.guard.replace(key, kept)
	// What was issued is kept even if the time for asking is over.
	if err := ts.server.opts.Vault.Save(context.WithoutCancel(ctx), key, kept); err != nil {
		ts.server.log.Error("token not saved", "provider", p.ID, "error", err)
		return errAuthFailed
	}
	return nil
}

// reject notes that the access token of used was refused. Unless it is for good,
// the refresh token, if there is one, gets a chance.
func (ts *tokens) reject(ctx context.Context, key TokenKey, used *UserToken, forGood bool) error {
	now, err := ts.load(ctx, key)
	switch {
	case errors.Is(err, ErrUnauthorized):
		return nil
	case err != nil:
		return err
	case now.Access.Reveal() != used.Access.Reveal():
		return nil // it has been renewed meanwhile
	}
	now.Access = Secret{}
	if forGood || now.Refresh.Empty() {
		err = ts.server.opts.Vault.Delete(ctx, key)
	} else {
		err = ts.server.opts.Vault.Save(ctx, key, now)
	}
	if err != nil {
		ts.server.log.Error("token not marked", "provider", key.Provider, "error", err)
		return errAuthFailed
	}
	return nil
}
