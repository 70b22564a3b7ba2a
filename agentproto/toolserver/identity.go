package toolserver

import (
	"context"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/leak"
)

// newVerifier returns what checks the id_tokens of a provider. Its keys are fetched
// when they are needed, and again when a token is signed with one that is not known.
func (s *Server) newVerifier(p OAuthProvider) *oidc.IDTokenVerifier {
	keys := oidc.NewRemoteKeySet(oidc.ClientContext(s.ctx, s.tokens.client), p.KeysURL)
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
func (s *Server) identify(ctx context.Context, p *provider, key TokenKey, id string, t *oauth2.Token) error {
	if p.verifier == nil {
		return nil
	}
	raw, _ := t.Extra("id_token").(string)
	s.guard.AddOnce(leak.Owner(key), raw)
	token, err := p.verifier.Verify(ctx, raw)
	if err != nil || token.Nonce != s.derived(id, forNonce) {
		s.log.Warn("authorization refused: the id_token is not valid", "provider", p.ID)
		return errAuthFailed
	}
	if user, ok := strings.CutPrefix(key.User, userPrefix); !ok || token.Subject != user {
		s.log.Warn("authorization refused: somebody else than the user authorized", "provider", p.ID, "tool user", user)
		return errOtherUser
	}
	return nil
}

// maxAnswer is how much of a provider's answer is read. One to a token request is kept in memory whole.
const maxAnswer = 1 << 20
