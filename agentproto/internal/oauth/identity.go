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

// newVerifier returns the verifier of a provider's id_tokens. It fetches the keys on demand, and
// again when a token is signed with an unknown key.
func (c *Client) newVerifier(p *Provider) *oidc.IDTokenVerifier {
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(c.ctx, c.http), p.KeysURL)
	return oidc.NewVerifier(p.Issuer, keys, &oidc.Config{
		ClientID: p.ClientID,
		// Only algorithms with a public key: a token that is signed with the client's secret proves
		// nothing, since the client could have made it itself.
		SupportedSigningAlgs: []string{
			oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
			oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
		},
	})
}

// identify checks that the person who authorized is the user of the call (threat 22). The id_token
// must be from this provider, for this client, and made for this authorization.
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
