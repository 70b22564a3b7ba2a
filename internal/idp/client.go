package idp

import (
	"net/url"
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// A registeredClient is a [Client] in the form that the library needs.
type registeredClient struct {
	Client
	issuer string
	scopes []string // of resources
}

func (c registeredClient) GetID() string                    { return c.ID }
func (c registeredClient) RedirectURIs() []string           { return c.Client.RedirectURIs }
func (c registeredClient) PostLogoutRedirectURIs() []string { return nil }
func (c registeredClient) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c registeredClient) IDTokenLifetime() time.Duration       { return 5 * time.Minute }
func (c registeredClient) DevMode() bool                        { return false }
func (c registeredClient) IsScopeAllowed(s string) bool         { return slices.Contains(c.scopes, s) }
func (c registeredClient) IDTokenUserinfoClaimsAssertion() bool { return false }
func (c registeredClient) ClockSkew() time.Duration             { return 0 }

func (c registeredClient) AccessTokenType() op.AccessTokenType {
	if c.Audience != "" {
		return op.AccessTokenTypeJWT
	}
	return op.AccessTokenTypeBearer
}

// audience returns the audience of the client's tokens.
func (c registeredClient) audience() []string {
	if c.Audience != "" {
		return []string{c.ID, c.Audience}
	}
	return []string{c.ID}
}

// ApplicationType returns web, also for public clients: the library would allow
// a native client any port, while redirect URIs must match exactly here.
func (c registeredClient) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }

func (c registeredClient) AuthMethod() oidc.AuthMethod {
	if c.Secret == "" {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

func (c registeredClient) GrantTypes() []oidc.GrantType {
	return []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken}
}

func (c registeredClient) LoginURL(id string) string {
	return c.issuer + pathLogin + "?" + url.Values{"request": {id}}.Encode()
}

func (c registeredClient) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return slices.Clone[[]string]
}

func (c registeredClient) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return slices.Clone[[]string]
}
