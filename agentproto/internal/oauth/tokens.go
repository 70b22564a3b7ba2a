package oauth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// Load returns a user's token in the vault. The class is None if there is none, and otherwise Good
// or Failed.
func (c *Client) Load(ctx context.Context, key vault.Key) (*vault.Token, authorize.Class) {
	t, err := c.o.Vault.Load(ctx, key)
	switch {
	case errors.Is(err, vault.ErrNoToken):
		return nil, authorize.None
	case err != nil:
		c.o.Log.Error("token not loaded", "provider", key.Provider, "error", err)
		return nil, authorize.Failed
	}
	c.keepInside(key, t)
	return t, authorize.Good
}

// keepInside makes the guard search everything that leaves for a user's token.
func (c *Client) keepInside(key vault.Key, t *vault.Token) {
	if !c.o.Guard.Replace(leak.Owner(key), t.Access, t.Refresh) {
		c.weak.Do(func() {
			c.o.Log.Warn("a provider's token is too short or too simple to be looked for in messages", "provider", key.Provider)
		})
	}
}

// fetch returns a token that is valid now, as far as can be known, renewed if necessary. It returns
// None if there is none; then the user has to be asked.
func (c *Client) fetch(ctx context.Context, p *Provider, key vault.Key, j authorize.Job) (*vault.Token, authorize.Class) {
	old, class := c.Load(ctx, key)
	if class != authorize.Good {
		return nil, class
	}
	refused := j.Refused != "" && c.AccessPrint(old.Access) == j.Refused
	switch {
	case old.Usable("") && !refused:
		return old, authorize.Good
	case old.Refresh == "", refused && j.Reject, old.Client != "" && old.Client != p.ClientID: // only its client can renew a token
		return nil, c.forget(ctx, key)
	}
	fresh, err := p.config.TokenSource(ctx, &oauth2.Token{RefreshToken: old.Refresh}).Token()
	if err != nil {
		c.logProvider("token not renewed", p, err)
		switch {
		case isUnknownClient(err):
			return nil, authorize.Unknown
		case isRejection(err):
			return nil, c.forget(ctx, key)
		case isStrangeCode(err):
			return nil, authorize.None // but the token stays, in case the next renewal succeeds
		}
		return nil, authorize.Unrenewed
	}
	kept, class := c.accept(p, key, fresh, old.Scopes)
	if class != authorize.Good {
		return nil, class
	}
	return kept, c.save(ctx, key, kept)
}

// forget deletes a token that is useless, and returns None, or Failed on error.
func (c *Client) forget(ctx context.Context, key vault.Key) authorize.Class {
	if err := c.o.Vault.Delete(ctx, key); err != nil {
		c.o.Log.Error("token not deleted", "provider", key.Provider, "error", err)
		return authorize.Failed
	}
	return authorize.None
}

// isRejection reports whether a provider rejected a refresh token, rather than being unable to
// answer or rejecting the client itself.
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

// isUnknownClient reports whether a provider does not accept the tool server as its client.
func isUnknownClient(err error) bool {
	var re *oauth2.RetrieveError
	return errors.As(err, &re) && re.ErrorCode == "invalid_client"
}

// isStrangeCode reports whether a provider answered with an error code that is not one of RFC 6749. Some providers
// reject a refresh token that way, such as with bad_refresh_token and the status 200. If their users were not asked,
// they could not authorize ever again, since each call would fail at the renewal.
func isStrangeCode(err error) bool {
	var re *oauth2.RetrieveError
	if !errors.As(err, &re) || re.ErrorCode == "" || providerErrors[re.ErrorCode] {
		return false
	}
	return re.Response != nil && re.Response.StatusCode < 500 && re.Response.StatusCode != http.StatusTooManyRequests
}

// Limits of the scopes of a token. They are in the state of the flow, whose steps compare them one by one.
const (
	maxScopes  = 1 << 10
	maxGranted = 16 << 10 // bytes of all scopes
)

// accept checks a token that a provider issued for a user. Its scopes are those that the provider
// names, or else the given ones.
func (c *Client) accept(p *Provider, key vault.Key, t *oauth2.Token, scopes []string) (*vault.Token, authorize.Class) {
	kept := &vault.Token{Access: t.AccessToken, Refresh: t.RefreshToken, Expiry: t.Expiry, Client: p.ClientID, Scopes: scopes}
	c.o.Guard.AddOnce(leak.Owner(key), t.AccessToken, t.RefreshToken) // even if the token is refused below
	if !strings.EqualFold(t.Type(), "Bearer") {
		c.o.Log.Error("token is not a bearer token", "provider", p.ID)
		return nil, authorize.Failed
	}
	if strings.ContainsFunc(t.AccessToken, func(r rune) bool { return r < ' ' || r > '~' }) {
		c.o.Log.Error("token has characters that cannot be in a request", "provider", p.ID) // RFC 6749, appendix A.12
		return nil, authorize.Failed
	}
	if granted, ok := t.Extra("scope").(string); ok && granted != "" {
		kept.Scopes = strings.FieldsFunc(granted, func(r rune) bool { return r == ' ' || r == ',' }) // GitHub separates them by commas
		if len(granted) > maxGranted || len(kept.Scopes) > maxScopes {
			c.o.Log.Error("token has too many scopes", "provider", p.ID)
			return nil, authorize.Failed
		}
	}
	kept.Scopes = slices.Sorted(slices.Values(kept.Scopes)) // the given ones belong to the state of the flow
	return kept, authorize.Good
}

// save stores a token before it is used.
func (c *Client) save(ctx context.Context, key vault.Key, t *vault.Token) authorize.Class {
	c.keepInside(key, t)
	// A token that was issued is stored even if the time for the request is over.
	if err := c.o.Vault.Save(context.WithoutCancel(ctx), key, t); err != nil {
		c.o.Log.Error("token not saved", "provider", key.Provider, "error", err)
		return authorize.Failed
	}
	return authorize.Good
}
