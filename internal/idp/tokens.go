package idp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

var errToken = errors.New("token is unknown, expired or revoked")

// CreateAccessToken implements op.Storage, for an exchange that did not ask for
// offline access.
func (s *store) CreateAccessToken(_ context.Context, r op.TokenRequest) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req, ok := r.(*authRequest)
	if !ok {
		return "", time.Time{}, oidc.ErrUnsupportedGrantType()
	}
	if err := s.redeem(req.id); err != nil {
		return "", time.Time{}, err
	}
	id, t := s.issueAccess(req.id, req.clientID, req.subject, req.scopes)
	return id, t.expires, nil
}

// CreateAccessAndRefreshTokens implements op.Storage. It serves exchanges that asked for offline access,
// and refreshes, in which current is the token to replace.
func (s *store) CreateAccessAndRefreshTokens(_ context.Context, r op.TokenRequest, current string) (string, string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &refreshToken{expires: s.now().Add(s.options.RefreshTokenLifetime)}
	scopes := r.GetScopes()
	switch r := r.(type) {
	case *authRequest:
		if err := s.redeem(r.id); err != nil {
			return "", "", time.Time{}, err
		}
		next.grant, next.clientID, next.audience, next.subject = r.id, r.clientID, r.audience, r.subject
		next.scopes, next.authTime = r.scopes, r.authTime
	case *refreshToken:
		old := s.refresh[current]
		if old == nil {
			// Another refresh with the same token came first, or a revocation.
			if grant, ok := s.replaced[current]; ok {
				s.replay(grant)
			}
			return "", "", time.Time{}, oidc.ErrInvalidGrant().WithDescription("refresh token was used before")
		}
		delete(s.refresh, current)
		s.replaced[current] = old.grant
		// The grant's scopes stay, even if this access token asked for fewer.
		next.grant, next.clientID, next.audience, next.subject = old.grant, old.clientID, old.audience, old.subject
		next.scopes, next.authTime = old.scopes, old.authTime
	default:
		return "", "", time.Time{}, oidc.ErrUnsupportedGrantType()
	}
	token := randomText()
	s.refresh[token] = next
	id, access := s.issueAccess(next.grant, next.clientID, next.subject, scopes)
	return id, token, access.expires, nil
}

// issueAccess makes an access token. The caller holds mu.
func (s *store) issueAccess(grant, clientID, subject string, scopes []string) (string, *accessToken) {
	id := randomText()
	t := &accessToken{
		grant: grant, clientID: clientID, subject: subject, scopes: slices.Clone(scopes),
		expires: s.now().Add(s.options.AccessTokenLifetime),
	}
	s.access[id] = t
	return id, t
}

// TokenRequestByRefreshToken implements op.Storage.
func (s *store) TokenRequestByRefreshToken(_ context.Context, token string) (op.RefreshTokenRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant, ok := s.replaced[token]; ok {
		s.replay(grant)
		return nil, errors.New("refresh token was used before")
	}
	t := s.refresh[token]
	if t == nil || !s.now().Before(t.expires) {
		return nil, errToken
	}
	c := *t
	return &c, nil
}

// replay revokes a grant because a secret of it was used twice. The caller holds mu.
func (s *store) replay(grant string) {
	s.replays++
	s.dropGrant(grant)
}

// dropGrant forgets all tokens of a grant. The caller holds mu.
func (s *store) dropGrant(grant string) {
	maps.DeleteFunc(s.access, func(_ string, t *accessToken) bool { return t.grant == grant })
	maps.DeleteFunc(s.refresh, func(_ string, t *refreshToken) bool { return t.grant == grant })
}

// GetRefreshTokenInfo implements op.Storage.
func (s *store) GetRefreshTokenInfo(_ context.Context, clientID, token string) (string, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.refresh[token]
	if t == nil || t.clientID != clientID {
		return "", "", op.ErrInvalidRefreshToken
	}
	return t.subject, token, nil
}

// RevokeToken implements op.Storage. Revoking a refresh token revokes its whole grant. Revoking an unknown
// token succeeds, as RFC 7009 requires.
func (s *store) RevokeToken(_ context.Context, token, _, clientID string) *oidc.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.access[token]; t != nil {
		if t.clientID != clientID {
			return oidc.ErrInvalidClient().WithDescription("the token belongs to another client")
		}
		delete(s.access, token)
	}
	if t := s.refresh[token]; t != nil {
		if t.clientID != clientID {
			return oidc.ErrInvalidClient().WithDescription("the token belongs to another client")
		}
		s.dropGrant(t.grant)
	}
	return nil
}

// TerminateSession implements op.Storage. There are no sessions to end: every
// authorization asks for the password.
func (s *store) TerminateSession(context.Context, string, string) error { return nil }

// SetUserinfoFromToken implements op.Storage.
func (s *store) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, id, _, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.access[id]
	if t == nil || !s.now().Before(t.expires) {
		return errToken
	}
	return s.fill(info, t.subject, t.scopes)
}

// SetUserinfoFromScopes implements op.Storage. The library calls it for ID tokens, and takes their subject
// from info.
func (s *store) SetUserinfoFromScopes(_ context.Context, info *oidc.UserInfo, subject, _ string, scopes []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fill(info, subject, scopes)
}

// fill sets the claims that the scopes allow. The caller holds mu.
func (s *store) fill(info *oidc.UserInfo, subject string, scopes []string) error {
	u, ok := s.bySub[subject]
	if !ok {
		return fmt.Errorf("no user has the subject %q", subject)
	}
	info.Subject = u.Subject
	if slices.Contains(scopes, oidc.ScopeProfile) {
		info.Name = u.Name
		info.PreferredUsername = u.Name
	}
	return nil
}

// SetIntrospectionFromToken implements op.Storage. The endpoint is not served.
func (s *store) SetIntrospectionFromToken(context.Context, *oidc.IntrospectionResponse, string, string, string) error {
	return errToken
}

// GetPrivateClaimsFromScopes implements op.Storage. It adds the scope claim to a JWT (RFC 9068, section
// 2.2.3).
func (s *store) GetPrivateClaimsFromScopes(_ context.Context, _, _ string, scopes []string) (map[string]any, error) {
	return map[string]any{"scope": strings.Join(scopes, " ")}, nil
}

// ValidateJWTProfileScopes implements op.Storage. No client has a key with which it could sign such a
// request.
func (s *store) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, oidc.ErrUnsupportedGrantType()
}
