package oauth

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// A Provider is a service that users authorize tools for. The fields are those of
// toolserver.OAuthProvider; when it has been added, they are only read.
type Provider struct {
	ID                           string
	AuthURL, TokenURL, RevokeURL string
	ClientID, ClientSecret       string
	Scopes                       []string
	Params                       map[string]string
	Issuer                       string
	RequireIssuer                bool
	SubjectIsUser, Confirm       bool
	UnsafeAnyoneMayAuthorize     string
	KeysURL                      string
	AuthStyle                    oauth2.AuthStyle

	config   *oauth2.Config
	params   []oauth2.AuthCodeOption
	verifier *oidc.IDTokenVerifier // nil unless SubjectIsUser
}

var providerID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// reserved are the parameters of an authorization request that are not for the
// user of this package to set.
var reserved = []string{"response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method"}

// Add adds a provider. It returns an error if that cannot work.
func (c *Client) Add(p *Provider) error {
	if err := c.check(p); err != nil {
		return err
	}
	style := p.AuthStyle
	if style == oauth2.AuthStyleAutoDetect {
		style = oauth2.AuthStyleInParams
		if p.ClientSecret != "" {
			style = oauth2.AuthStyleInHeader
		}
	}
	p.config = &oauth2.Config{
		ClientID:     p.ClientID,
		ClientSecret: p.ClientSecret,
		Endpoint:     oauth2.Endpoint{AuthURL: p.AuthURL, TokenURL: p.TokenURL, AuthStyle: style},
		RedirectURL:  c.o.Redirect + p.ID,
		Scopes:       slices.Clone(p.Scopes),
	}
	for name, value := range p.Params {
		p.params = append(p.params, oauth2.SetAuthURLParam(name, value))
	}
	if p.SubjectIsUser {
		p.verifier = c.newVerifier(p)
	}
	c.providers[p.ID] = p
	return nil
}

func (c *Client) check(p *Provider) error {
	checks := 0
	for _, set := range []bool{p.SubjectIsUser, p.Confirm, p.UnsafeAnyoneMayAuthorize != ""} {
		if set {
			checks++
		}
	}
	switch {
	case !providerID.MatchString(p.ID):
		return errors.New("its ID is not of 1 to 64 letters, digits, _ and -")
	case c.providers[p.ID] != nil:
		return errors.New("there is another one with this ID")
	case !isEndpoint(p.AuthURL):
		return errors.New("AuthURL must be an absolute https URL")
	case !isEndpoint(p.TokenURL):
		return errors.New("TokenURL must be an absolute https URL")
	case p.RevokeURL != "" && !isEndpoint(p.RevokeURL):
		return errors.New("RevokeURL must be an absolute https URL")
	case p.ClientID == "":
		return errors.New("it has no ClientID")
	case p.RequireIssuer && p.Issuer == "":
		return errors.New("RequireIssuer needs an Issuer")
	case p.SubjectIsUser && (p.Issuer == "" || !slices.Contains(p.Scopes, oidc.ScopeOpenID)):
		return errors.New("SubjectIsUser needs an Issuer and the scope openid")
	case p.SubjectIsUser && !isEndpoint(p.KeysURL):
		return errors.New("KeysURL must be an absolute https URL")
	case checks == 0:
		return errors.New("somebody who is sent an auth_url would authorize for the user of the call: set SubjectIsUser if the provider and the runtimes know users by the same ids, or else Confirm")
	case checks > 1:
		return errors.New("SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize exclude each other: set one of them")
	}
	for _, name := range reserved {
		if _, set := p.Params[name]; set {
			return fmt.Errorf("%s must not be in Params", name)
		}
	}
	return nil
}

func isEndpoint(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.Fragment == ""
}
