package oauth

import (
	"context"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// newVerifier returns what checks the id_tokens of a provider. Its keys are fetched
// when they are needed, and again when a token is signed with one that is not known.
func (c *Client) newVerifier(p *Provider) *oidc.IDTokenVerifier {
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(c.ctx, c.http), p.KeysURL)
	return oidc.NewVerifier(p.Issuer, keys, &oidc.Config{
		ClientID: p.ClientID,
		// Those with a public key: one that is signed with the client's secret
		// proves nothing that the client could not have made itself.
		SupportedSigningAlgs: []string{
			oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
			oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
		},
	})
}

// identify checks that whoever authorized is the user of the call (threat 22). The
// id_token must be this provider's, for this client, made for this authorization.
func (c *Client) identify(ctx context.Context, p *Provider, key vault.Key, id string, t *oauth2.Token) authorize.Class {
	if p.verifier == nil {
		return authorize.Good
	}
	raw, _ := t.Extra("id_token").(string)
	c.o.Guard.AddOnce(leak.Owner(key), raw)
	token, err := p.verifier.Verify(ctx, raw)
	if err != nil || token.Nonce != c.derived(id, forNonce) {
		c.o.Log.Warn("authorization refused: the id_token is not valid", "provider", p.ID)
		return authorize.Failed
	}
	if user, ok := strings.CutPrefix(key.User, authorize.UserPrefix); !ok || token.Subject != user {
		c.o.Log.Warn("authorization refused: somebody else than the user authorized", "provider", p.ID, "tool user", user)
		return authorize.Other
	}
	return authorize.Good
}
