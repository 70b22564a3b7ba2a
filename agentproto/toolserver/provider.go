package toolserver

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
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

// A provider is an OAuthProvider of a server.
type provider struct {
	OAuthProvider
	config   *oauth2.Config
	params   []oauth2.AuthCodeOption
	verifier *oidc.IDTokenVerifier // nil unless SubjectIsUser
}

var providerID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// reserved are the parameters of an authorization request that are not for the
// user of this package to set.
var reserved = []string{"response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method"}

// addProvider adds a provider to the server. It panics if it cannot work.
func (s *Server) addProvider(p OAuthProvider) {
	wrong := func(format string, args ...any) {
		panic(fmt.Sprintf("toolserver: New: OAuthProvider %q: ", p.ID) + fmt.Sprintf(format, args...))
	}
	checks := 0
	for _, set := range []bool{p.SubjectIsUser, p.Confirm, p.UnsafeAnyoneMayAuthorize != ""} {
		if set {
			checks++
		}
	}
	switch {
	case !providerID.MatchString(p.ID):
		wrong("its ID is not of 1 to 64 letters, digits, _ and -")
	case s.providers[p.ID] != nil:
		wrong("there is another one with this ID")
	case !isEndpoint(p.AuthURL):
		wrong("AuthURL must be an absolute https URL")
	case !isEndpoint(p.TokenURL):
		wrong("TokenURL must be an absolute https URL")
	case p.RevokeURL != "" && !isEndpoint(p.RevokeURL):
		wrong("RevokeURL must be an absolute https URL")
	case p.ClientID == "":
		wrong("it has no ClientID")
	case p.RequireIssuer && p.Issuer == "":
		wrong("RequireIssuer needs an Issuer")
	case p.SubjectIsUser && (p.Issuer == "" || !slices.Contains(p.Scopes, oidc.ScopeOpenID)):
		wrong("SubjectIsUser needs an Issuer and the scope openid")
	case p.SubjectIsUser && !isEndpoint(p.KeysURL):
		wrong("KeysURL must be an absolute https URL")
	case checks == 0:
		wrong("somebody who is sent an auth_url would authorize for the user of the call: set SubjectIsUser if the provider and the runtimes know users by the same ids, or else Confirm")
	case checks > 1:
		wrong("SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize exclude each other: set one of them")
	}
	style := p.AuthStyle
	if style == oauth2.AuthStyleAutoDetect {
		style = oauth2.AuthStyleInParams
		if !p.ClientSecret.Empty() {
			style = oauth2.AuthStyleInHeader
		}
	}
	added := &provider{OAuthProvider: p, config: &oauth2.Config{
		ClientID:     p.ClientID,
		ClientSecret: p.ClientSecret.Reveal(),
		Endpoint:     oauth2.Endpoint{AuthURL: p.AuthURL, TokenURL: p.TokenURL, AuthStyle: style},
		RedirectURL:  s.opts.PublicURL + redirectPath + p.ID,
		Scopes:       slices.Clone(p.Scopes),
	}}
	for name, value := range p.Params {
		if slices.Contains(reserved, name) {
			wrong("Params must not set %s", name)
		}
		added.params = append(added.params, oauth2.SetAuthURLParam(name, value))
	}
	if p.SubjectIsUser {
		added.verifier = s.newVerifier(p)
	}
	s.keepInside(p.ClientSecret, "ClientSecret of "+p.ID)
	s.providers[p.ID] = added
}

func isEndpoint(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.Fragment == ""
}
