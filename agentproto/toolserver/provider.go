package toolserver

import (
	"fmt"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/oauth"
)

// An OAuthProvider is a service that users authorize tools for. Authorizations use
// the code flow with PKCE (S256), always.
type OAuthProvider struct {
	// ID names the provider in [ToolOptions.RequireOAuth], in annotations and in the
	// redirect URI, which is PublicURL + "/oauth/callback/" + ID. That URI is the one
	// to register with the provider. It is made of letters, digits, _ and -.
	ID string
	// AuthURL is the authorization endpoint, where the user is sent to, and TokenURL
	// the token endpoint. Both must be https.
	AuthURL, TokenURL string
	// RevokeURL is the revocation endpoint (RFC 7009), which must be https. If it is empty,
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
	// Issuer is the provider's issuer identifier. If it is set, a redirect that names
	// another issuer is refused.
	Issuer string
	// RequireIssuer refuses redirects that name no issuer. It is to be set for a
	// provider whose metadata has authorization_response_iss_parameter_supported.
	RequireIssuer bool
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
	// KeysURL is the https address of the keys that id_tokens are signed with, the
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
	start := s.opts.PublicURL + startPath
	if s.opts.NoStartPage {
		start = ""
	}
	client := oauth.New(s.ctx, oauth.Options{
		Name: s.opts.Name, Start: start, Redirect: s.opts.PublicURL + redirectPath,
		UserTimeout: s.opts.OAuthTimeout, Timeout: s.opts.ProviderTimeout, Transport: s.opts.ProviderTransport,
		Flow: s.flow, Vault: tokenVault{s.opts.Vault}, Transit: s.state.Transit, Key: s.state.Asking, Guard: s.guard, Log: s.log,
	})
	for _, p := range s.opts.Providers {
		if err := client.Add(&oauth.Provider{
			ID: p.ID, AuthURL: p.AuthURL, TokenURL: p.TokenURL, RevokeURL: p.RevokeURL, KeysURL: p.KeysURL,
			ClientID: p.ClientID, ClientSecret: p.ClientSecret.Reveal(), AuthStyle: p.AuthStyle,
			Scopes: p.Scopes, Params: p.Params, Issuer: p.Issuer, RequireIssuer: p.RequireIssuer,
			SubjectIsUser: p.SubjectIsUser, Confirm: p.Confirm, UnsafeAnyoneMayAuthorize: p.UnsafeAnyoneMayAuthorize,
		}); err != nil {
			s.state.Close()
			panic(fmt.Sprintf("toolserver: New: OAuthProvider %q: %v", p.ID, err))
		}
		s.keepInside(p.ClientSecret, "ClientSecret of "+p.ID)
	}
	return client
}
