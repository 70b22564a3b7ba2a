package toolserver

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/oauth"
)

// An OAuthProvider is a service that users authorize tools for. Authorizations always use the code flow with PKCE (S256).
type OAuthProvider struct {
	// ID names the provider in [ToolOptions.RequireOAuth], in annotations and in the redirect URI, which must be registered with
	// the provider: see [Server.RedirectURI]. It consists of letters, digits, _ and -.
	ID string
	// AuthURL is the authorization endpoint, to which the user is sent, and TokenURL the token endpoint. These, RevokeURL and
	// KeysURL must be https, or name this machine by its loopback address or as localhost.
	AuthURL, TokenURL string
	// RevokeURL is the revocation endpoint (RFC 7009). If it is empty, tokens that are no longer needed are only deleted here,
	// and expire at the provider.
	RevokeURL string
	// ClientID and ClientSecret identify the tool server to the provider. Without a secret it is a public client.
	ClientID     string
	ClientSecret Secret
	// Scopes are requested for every tool, such as openid. Scopes that only some tools need are in [ToolOptions.Scopes].
	Scopes []string
	// Params are added to the authorization request, such as prompt=consent.
	Params map[string]string
	// Resource identifies the resource that the tokens are for (RFC 8707). If it is set, authorization and token requests name
	// it, so that a token is valid for nothing else.
	Resource string
	// Issuer is the provider's issuer identifier. If it is set, a redirect that names
	// another issuer is refused.
	Issuer string
	// RequireIssuer refuses redirects that name no issuer. Set it for a provider whose metadata contains
	// authorization_response_iss_parameter_supported.
	RequireIssuer bool
	// RefuseIssuer refuses redirects that name any issuer. Set it for a provider whose metadata does not contain
	// authorization_response_iss_parameter_supported: then the provider did not add the issuer (RFC 9207, section 2.4).
	RefuseIssuer bool
	// SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize say who may complete an authorization. Exactly one of them must be
	// set. A user can send the auth_url of a call to somebody else, who then authorizes with an account of their own; without a
	// check, the user of the call would work with that account.
	//
	// SubjectIsUser says that the provider and the runtimes use the same ids for users. The person who authorizes must then be
	// the user of the call: the authorization fails unless the id_token is valid and its subject is the user_id of the invocation
	// (threat 22). It needs an Issuer, the KeysURL and the scope openid.
	SubjectIsUser bool
	// KeysURL is the address of the keys that sign id_tokens, the jwks_uri in the provider's metadata.
	KeysURL string
	// Confirm is for users whose ids at the provider differ. The page at the end shows a code, and the user has to pick it in the
	// conversation that asked before the token is kept. So nobody can make somebody else authorize an access and then use it. A
	// wrong pick ends the authorization.
	Confirm bool
	// UnsafeAnyoneMayAuthorize accepts anyone who opens the auth_url. Its value is the reason why that is harmless, for example
	// that all users of the runtime share one account.
	UnsafeAnyoneMayAuthorize string
	// AuthStyle says how the client authenticates at the token endpoint. Zero means in the header if there is a ClientSecret, and
	// otherwise in the parameters. It is never guessed, since guessing sends a code twice.
	AuthStyle oauth2.AuthStyle
}

// newOAuth returns the client of the providers. It panics if a provider is invalid.
func (s *Server) newOAuth() *oauth.Client {
	start := s.opts.PagesURL + startPath
	if s.opts.NoStartPage {
		start = ""
	}
	client := oauth.New(s.ctx, oauth.Options{
		Name: s.opts.Name, Epoch: s.epoch, Start: start, Redirect: s.opts.PagesURL + redirectPath,
		UserTimeout: s.opts.OAuthTimeout, Timeout: s.opts.ProviderTimeout, Transport: s.opts.ProviderTransport,
		Flow: s.flow, Vault: tokenVault{s.opts.Vault}, Transit: s.state.Transit, Key: s.state.Asking, Guard: s.guard, Log: s.log,
	})
	for _, p := range s.opts.Providers {
		if err := client.Add(p.inside()); err != nil {
			s.state.Close()
			panic(fmt.Sprintf("toolserver: New: OAuthProvider %q: %v", p.ID, err))
		}
		s.keepInside(p.ClientSecret, "ClientSecret of "+p.ID)
	}
	return client
}

// inside returns the provider as package oauth represents it.
func (p *OAuthProvider) inside() *oauth.Provider {
	return &oauth.Provider{
		ID: p.ID, AuthURL: p.AuthURL, TokenURL: p.TokenURL, RevokeURL: p.RevokeURL, KeysURL: p.KeysURL,
		ClientID: p.ClientID, ClientSecret: p.ClientSecret.Reveal(), AuthStyle: p.AuthStyle,
		Scopes: p.Scopes, Params: p.Params, Resource: p.Resource, Issuer: p.Issuer, RequireIssuer: p.RequireIssuer, RefuseIssuer: p.RefuseIssuer,
		SubjectIsUser: p.SubjectIsUser, Confirm: p.Confirm, UnsafeAnyoneMayAuthorize: p.UnsafeAnyoneMayAuthorize,
	}
}

// SetProvider adds a provider that is known only at run time, or replaces the one with its ID, for [Authorize]. A tool that
// requires the ID keeps the provider that it was added with. An authorization that was started with another provider of that ID
// is not completed, and its user is asked anew. A provider of an earlier process must be set before its authorizations can be
// completed. SetProvider returns an error if the provider is invalid. [Options.AllowNetworks] must allow its addresses.
func (s *Server) SetProvider(p OAuthProvider) error {
	if err := s.oauth.Set(p.inside()); err != nil {
		return fmt.Errorf("toolserver: SetProvider: %q: %w", p.ID, err)
	}
	s.keepInside(p.ClientSecret, "ClientSecret of "+p.ID)
	return nil
}

// RedirectURI returns the address to which the provider with an ID must send users back: [Options.PagesURL] + "/oauth/callback/"
// + ID.
func (s *Server) RedirectURI(id string) string { return s.opts.PagesURL + redirectPath + id }

// Vault returns the vault of the server: [Options.Vault], or the server's own.
func (s *Server) Vault() Vault { return s.opts.Vault }

// Authorize returns an access token of the user for a provider, valid for scopes. It is for a tool that was added without
// RequireOAuth because it finds out what it needs only when it runs. If there is no such token, Authorize asks the user, as for a
// tool with RequireOAuth, and waits. Refused is a token that the resource refused, or empty. A refused token is renewed or, if it
// was just renewed, the user is asked. When a third token of a call is refused, Authorize returns an error.
//
// When the function runs again after a restart and calls Authorize, it continues to wait for the pending authorization. Authorize
// returns errors that a model may see, [ErrClosing], and the causes of the context as [Choose] does. It panics if ctx is not one
// of a tool function, or if there is no such provider.
func Authorize(ctx context.Context, provider string, scopes []string, refused Secret) (Secret, error) {
	c := callOf(ctx, "Authorize")
	n := c.needOf("Authorize", provider)
	n.scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
	count, renewed := c.refuse(refusal{provider, refused.Reveal()})
	if count >= maxRuns {
		return Secret{}, errAuthRepeated
	}
	if err := c.access(n, refused.Reveal(), renewed); err != nil {
		return Secret{}, err
	}
	return NewSecret(c.used()), nil
}

// A refusal says that an access token of a provider was refused.
type refusal struct{ provider, token string }

// refuse records a refusal, if r has a token. It returns the number of refusals in the call, and whether another token of the
// provider was refused before, so that r's is a renewed one. A function that uses a token in several goroutines reports it once
// for each: they are one refusal, since the token was not renewed in between.
func (c *call) refuse(r refusal) (count int, renewed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := len(c.refusals) - 1; r.token != "" && (last < 0 || c.refusals[last] != r) {
		c.refusals = append(c.refusals, r)
	}
	return len(c.refusals), slices.ContainsFunc(c.refusals, func(b refusal) bool { return b.provider == r.provider && b.token != r.token })
}

// StoredToken returns an access token of the user for a provider, renewed if it has expired. It does not ask the user: if there
// is no valid token, it returns [ErrUnauthorized]. It panics where [Authorize] does.
func StoredToken(ctx context.Context, provider string) (Secret, error) {
	c := callOf(ctx, "StoredToken")
	t, err := c.tokenFor(ctx, c.needOf("StoredToken", provider))
	if err != nil {
		return Secret{}, err
	}
	return NewSecret(t.Access), nil
}

// Owner returns the key of the tokens that a call uses, with an empty Provider. It panics if ctx is not one of a tool function.
func Owner(ctx context.Context) TokenKey { return callOf(ctx, "Owner").tokenKey }

func (c *call) needOf(op, provider string) need {
	p := c.server.oauth.Provider(provider)
	if p == nil {
		panic(fmt.Sprintf("toolserver: %s: the server has no provider %q", op, provider))
	}
	return need{provider: p}
}
