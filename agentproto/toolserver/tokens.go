package toolserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/internal/edge"
	"golang.org/x/oauth2"
)

// tokens gets, renews and saves the users' tokens.
type tokens struct {
	server *Server
	client *http.Client // for token requests

	weak sync.Once // a token that the guard cannot look for was told of

	mu       sync.Mutex
	renewals map[TokenKey]*renewal
	busy     map[TokenKey]chan struct{} // closed when whoever changes the token is done
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
		client:   edge.NewClient(s.opts.ProviderTransport).Standard(maxAnswer, s.opts.ProviderTimeout),
		renewals: make(map[TokenKey]*renewal),
		busy:     make(map[TokenKey]chan struct{}),
	}
}

// get returns a token that is good now, as far as one can tell, and whose access
// token is not the one that was refused. It returns ErrUnauthorized if the user
// has to be asked.
func (ts *tokens) get(ctx context.Context, p *provider, key TokenKey, refused Secret) (*UserToken, error) {
	for {
		t, err := ts.load(ctx, key)
		if err != nil || t.usable(refused) {
			return t, err
		}
		r, mine := ts.renewal(p, key, refused)
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		// Somebody else's renewal may have begun for another reason, and found that
		// nothing was to be done.
		if mine || r.err != nil || !r.token.Access.equal(refused) {
			return r.token, r.err
		}
	}
}

// renewal returns the renewal of a token that is going on, or starts one.
func (ts *tokens) renewal(p *provider, key TokenKey, refused Secret) (r *renewal, started bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if r := ts.renewals[key]; r != nil {
		return r, false
	}
	r = &renewal{done: make(chan struct{})}
	ts.renewals[key] = r
	go ts.renew(r, p, key, refused)
	return r, true
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
	ts.keepInside(key, t)
	return t, nil
}

// keepInside looks for a user's token in everything that leaves.
func (ts *tokens) keepInside(key TokenKey, t *UserToken) {
	if !ts.server.guard.Replace(leak.Owner(key), t.Access.Reveal(), t.Refresh.Reveal()) {
		ts.weak.Do(func() {
			ts.server.log.Warn("a provider's token is too short or too simple to be looked for in messages", "provider", key.Provider)
		})
	}
}

// exclusive calls f while nobody else changes the token of key. A renewal must not
// write its outcome over that of a new authorization, or the other way round.
func (ts *tokens) exclusive(key TokenKey, f func()) {
	for {
		ts.mu.Lock()
		other := ts.busy[key]
		if other == nil {
			break
		}
		ts.mu.Unlock()
		<-other
	}
	mine := make(chan struct{})
	ts.busy[key] = mine
	ts.mu.Unlock()
	defer func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		delete(ts.busy, key)
		close(mine)
	}()
	f()
}

// renew refreshes a token. Like an exchange it goes on when the call that needed
// it is cancelled: the provider may have rotated the refresh token already.
func (ts *tokens) renew(r *renewal, p *provider, key TokenKey, refused Secret) {
	ts.exclusive(key, func() {
		ctx, stop := ts.server.providerContext()
		defer stop()
		r.token, r.err = ts.refresh(ctx, p, key, refused)
	})
	ts.mu.Lock()
	delete(ts.renewals, key)
	ts.mu.Unlock()
	close(r.done)
}

func (ts *tokens) refresh(ctx context.Context, p *provider, key TokenKey, refused Secret) (*UserToken, error) {
	old, err := ts.load(ctx, key) // again: a renewal may just have ended
	switch {
	case err != nil || old.usable(refused):
		return old, err
	case old.Refresh.Empty():
		return nil, ts.forget(ctx, key)
	}
	fresh, err := p.config.TokenSource(ctx, &oauth2.Token{RefreshToken: old.Refresh.Reveal()}).Token()
	if err != nil {
		ts.server.logProvider("token not renewed", p, err)
		if !isRejection(err) {
			return nil, errNotRenewed
		}
		return nil, ts.forget(ctx, key)
	}
	kept, err := ts.accept(p, key, fresh, old.Scopes)
	if err != nil {
		return nil, err
	}
	return kept, ts.save(ctx, key, kept)
}

// forget deletes a token that is of no use any more and returns ErrUnauthorized.
func (ts *tokens) forget(ctx context.Context, key TokenKey) error {
	if err := ts.server.opts.Vault.Delete(ctx, key); err != nil {
		ts.server.log.Error("token not deleted", "provider", key.Provider, "error", err)
		return errAuthFailed
	}
	return ErrUnauthorized
}

// reject notes that the access token refused is no good although it has just been
// renewed: the user has to be asked.
func (ts *tokens) reject(ctx context.Context, key TokenKey, refused Secret) (err error) {
	ts.exclusive(key, func() {
		var now *UserToken
		if now, err = ts.load(ctx, key); err == nil && now.Access.equal(refused) {
			err = ts.forget(ctx, key)
		}
	})
	if errors.Is(err, ErrUnauthorized) {
		return nil
	}
	return err
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

// accept takes what a provider issued for a user and scopes, or for those it says itself.
func (ts *tokens) accept(p *provider, key TokenKey, t *oauth2.Token, scopes []string) (*UserToken, error) {
	kept := &UserToken{Access: NewSecret(t.AccessToken), Refresh: NewSecret(t.RefreshToken), Expiry: t.Expiry, Scopes: scopes}
	ts.server.guard.AddOnce(leak.Owner(key), t.AccessToken, t.RefreshToken) // whatever becomes of it
	if !strings.EqualFold(t.Type(), "Bearer") {
		ts.server.log.Error("token is not a bearer token", "provider", p.ID)
		return nil, errAuthFailed
	}
	if granted, ok := t.Extra("scope").(string); ok && granted != "" {
		kept.Scopes = strings.Fields(granted)
	}
	slices.Sort(kept.Scopes)
	return kept, nil
}

// save stores a token before anybody uses it. The caller is in exclusive.
func (ts *tokens) save(ctx context.Context, key TokenKey, t *UserToken) error {
	ts.keepInside(key, t)
	// What was issued is kept even if the time for asking is over.
	if err := ts.server.opts.Vault.Save(context.WithoutCancel(ctx), key, t); err != nil {
		ts.server.log.Error("token not saved", "provider", key.Provider, "error", err)
		return errAuthFailed
	}
	return nil
}
