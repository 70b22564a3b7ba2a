package toolserver

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/oauth"
)

// An OAuthProvider is a service that users authorize tools for. Authorizations use
// the code flow with PKCE (S256), always.
type OAuthProvider struct {
	// ID names the provider in [ToolOptions.RequireOAuth], in annotations and in the
	// redirect URI: see [Server.RedirectURI]. That URI is the one
	// to register with the provider. It is made of letters, digits, _ and -.
	ID string
	// AuthURL is the authorization endpoint, where the user is sent to, and TokenURL
	// the token endpoint. Both must be https, or lead to this machine by its loopback
	// address or as localhost. So must RevokeURL and KeysURL.
	AuthURL, TokenURL string
	// RevokeURL is the revocation endpoint (RFC 7009). If it is empty,
	// tokens that are no longer needed are deleted here, and expire at the provider.
	RevokeURL string
	// ClientID and ClientSecret are what the provider knows the tool server by.
	// Without a secret it is a public client.
	ClientID     string
	ClientSecret Secret
	// Scopes are asked for whatever the tool, such as openid. What only some tools
	// need is in their [ToolOptions.Scopes].
	Scopes []string
	// Params are added to the authorization request, such as prompt=consent.
	Params map[string]string
	// Resource is the identifier of what the tokens are for (RFC 8707). If it is set, authorization and
	// token requests name it, so that a token is good for nothing else.
	Resource string
	// Issuer is the provider's issuer identifier. If it is set, a redirect that names
	// another issuer is refused.
	Issuer string
	// RequireIssuer refuses redirects that name no issuer. It is to be set for a
	// provider whose metadata has authorization_response_iss_parameter_supported.
	RequireIssuer bool
	// RefuseIssuer refuses redirects that name an issuer, whichever it is. It is for a provider whose metadata does not have
	// authorization_response_iss_parameter_supported: then it is not the provider that has named it (RFC 9207, section 2.4).
	RefuseIssuer bool
	// SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize say who may complete an
	// authorization. One of them must be set. The auth_url of a call can be sent to somebody
	// else, and whoever opens it authorizes with an account of their own; without a check,
	// the user of the call would then work with that account.
	//
	// SubjectIsUser says that the provider and the runtimes know users by the same
	// ids. Whoever authorizes must then be the user of the call: the id_token has to
	// be valid and its subject the user_id of the invocation, or the authorization
	// fails (threat 22). It needs an Issuer, the KeysURL and the scope openid.
	SubjectIsUser bool
	// KeysURL is the address of the keys that id_tokens are signed with, the
	// jwks_uri in the provider's metadata.
	KeysURL string
	// Confirm is for users that the provider knows by other ids: the page at the end
	// shows a code, and the user has to pick it out in the conversation that asked
	// before the token is kept. So nobody can have somebody else authorize an access
	// that he then uses. A wrong pick ends the authorization.
	Confirm bool
	// UnsafeAnyoneMayAuthorize accepts whoever opens the auth_url. It is the reason why that
	// does no harm here, for example that all users of the runtime share one account.
	UnsafeAnyoneMayAuthorize string
	// AuthStyle says how the client authenticates at the token endpoint. Zero means
	// in the header if there is a ClientSecret, else in the parameters; it is never
	// guessed, since guessing sends a code twice.
	AuthStyle oauth2.AuthStyle
}

// newOAuth returns the client of the providers. It panics if one of them cannot work.
func (s *Server) newOAuth() *oauth.Client {
	start := s.opts.PagesURL + startPath
	if s.opts.NoStartPage {
		start = ""
	}
	client := oauth.New(s.ctx, oauth.Options{
		Name: s.opts.Name, Start: start, Redirect: s.opts.PagesURL + redirectPath,
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

// inside returns the provider as package oauth knows it.
func (p *OAuthProvider) inside() *oauth.Provider {
	return &oauth.Provider{
		ID: p.ID, AuthURL: p.AuthURL, TokenURL: p.TokenURL, RevokeURL: p.RevokeURL, KeysURL: p.KeysURL,
		ClientID: p.ClientID, ClientSecret: p.ClientSecret.Reveal(), AuthStyle: p.AuthStyle,
		Scopes: p.Scopes, Params: p.Params, Resource: p.Resource, Issuer: p.Issuer, RequireIssuer: p.RequireIssuer, RefuseIssuer: p.RefuseIssuer,
		SubjectIsUser: p.SubjectIsUser, Confirm: p.Confirm, UnsafeAnyoneMayAuthorize: p.UnsafeAnyoneMayAuthorize,
	}
}

// SetProvider adds a provider that is known only when the program runs, or replaces the one with its
// ID, for [Authorize]; a tool that requires the ID keeps the one that it was added with. An authorization that was
// begun with another provider of that ID is not completed, and its user is asked anew. A provider of an
// earlier process has to be set before its authorizations can be completed. It returns an error if the provider
// cannot work. [Options.AllowNetworks] has to allow its addresses.
func (s *Server) SetProvider(p OAuthProvider) error {
	if err := s.oauth.Set(p.inside()); err != nil {
		return fmt.Errorf("toolserver: SetProvider: %q: %w", p.ID, err)
	}
	s.keepInside(p.ClientSecret, "ClientSecret of "+p.ID)
	return nil
}

// RedirectURI returns where the provider with an ID has to send users back to:
// [Options.PagesURL] + "/oauth/callback/" + ID.
func (s *Server) RedirectURI(id string) string { return s.opts.PagesURL + redirectPath + id }

// Vault returns the vault of the server: that of the options, or its own.
func (s *Server) Vault() Vault { return s.opts.Vault }

// Authorize returns an access token of the user for a provider, good for scopes, to a tool that was added
// without RequireOAuth because it finds out only when it runs what it needs. If there is no such token the
// user is asked, as for a tool with RequireOAuth, and Authorize waits for it. Refused is the token that the resource
// did not take, or empty: then it is renewed or, if it was renewed already, the user is asked. When a
// third token of a call is refused, Authorize returns an error.
//
// When the function runs again after a restart and calls Authorize, it goes on waiting for the authorization that
// was begun. Errors are of those that a model may see, and [ErrClosing] and the causes of the context as for
// [Choose]. It panics if ctx is not one of a tool function, or there is no such provider.
func Authorize(ctx context.Context, provider string, scopes []string, refused Secret) (Secret, error) {
	c := callOf(ctx, "Authorize")
	n := c.needOf("Authorize", provider)
	n.scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
	c.mu.Lock()
	if !refused.Empty() {
		c.refusals++
	}
	refusals := c.refusals
	c.mu.Unlock()
	if refusals >= maxRuns {
		return Secret{}, errAuthRepeated
	}
	if err := c.access(n, refused.Reveal(), refusals > 1); err != nil {
		return Secret{}, err
	}
	return NewSecret(c.used()), nil
}

// StoredToken returns an access token of the user for a provider, renewed if it has expired. The user is not asked: if there is none
// that is good, it returns [ErrUnauthorized]. It panics where [Authorize] does.
func StoredToken(ctx context.Context, provider string) (Secret, error) {
	c := callOf(ctx, "StoredToken")
	t, err := c.tokenFor(ctx, c.needOf("StoredToken", provider))
	if err != nil {
		return Secret{}, err
	}
	return NewSecret(t.Access), nil
}

// Owner returns whose tokens a call uses. Its Provider is empty. It panics if ctx is not one of a tool
// function.
func Owner(ctx context.Context) TokenKey { return callOf(ctx, "Owner").tokenKey }

func (c *call) needOf(op, provider string) need {
	p := c.server.oauth.Provider(provider)
	if p == nil {
		panic(fmt.Sprintf("toolserver: %s: the server has no provider %q", op, provider))
	}
	return need{provider: p}
}
