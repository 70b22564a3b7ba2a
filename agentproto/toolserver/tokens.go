package toolserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/internal/edge"
)

// tokens are those of the users. The flow decides when one is fetched, issued or given back, and
// never has two changes of one token under way.
type tokens struct {
	server *Server
	client *http.Client // for token requests
	weak   sync.Once    // a token that the guard cannot look for was told of
}

func newTokens(s *Server) *tokens {
	return &tokens{server: s, client: edge.NewClient(s.opts.ProviderTransport).Standard(maxAnswer, s.opts.ProviderTimeout)}
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

// fetch returns a token that is good now, as far as one can tell, renewed if it must be. It
// returns ErrUnauthorized if there is none: then the user has to be asked.
func (ts *tokens) fetch(ctx context.Context, p *provider, key TokenKey, j authorize.Job) (*UserToken, error) {
	old, err := ts.load(ctx, key)
	if err != nil {
		return nil, err
	}
	refused := j.Refused != "" && ts.server.accessPrint(old.Access) == j.Refused
	switch {
	case old.valid() && !refused:
		return old, nil
	case old.Refresh.Empty(), refused && j.Reject:
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

// forget deletes a token that is of no use, and returns ErrUnauthorized.
func (ts *tokens) forget(ctx context.Context, key TokenKey) error {
	if err := ts.server.opts.Vault.Delete(ctx, key); err != nil {
		ts.server.log.Error("token not deleted", "provider", key.Provider, "error", err)
		return errAuthFailed
	}
	return ErrUnauthorized
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

// save stores a token before anybody uses it.
func (ts *tokens) save(ctx context.Context, key TokenKey, t *UserToken) error {
	ts.keepInside(key, t)
	// What was issued is kept even if the time for asking is over.
	if err := ts.server.opts.Vault.Save(context.WithoutCancel(ctx), key, t); err != nil {
		ts.server.log.Error("token not saved", "provider", key.Provider, "error", err)
		return errAuthFailed
	}
	return nil
}
