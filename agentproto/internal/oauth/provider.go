package oauth

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// A Provider is a service that users authorize tools for. The fields are those of toolserver.OAuthProvider.
// They must not be changed after the provider was added.
type Provider struct {
	ID                           string
	AuthURL, TokenURL, RevokeURL string
	ClientID, ClientSecret       string
	Scopes                       []string
	Params                       map[string]string
	Issuer                       string
	RequireIssuer, RefuseIssuer  bool
	SubjectIsUser, Confirm       bool
	UnsafeAnyoneMayAuthorize     string
	KeysURL                      string
	Resource                     string
	AuthStyle                    oauth2.AuthStyle

	config   *oauth2.Config
	params   []oauth2.AuthCodeOption
	verifier *oidc.IDTokenVerifier // nil unless SubjectIsUser
}

var providerID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// reserved are the parameters of an authorization request that Params may not set.
var reserved = []string{"resource", "response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce", "code_challenge", "code_challenge_method"}

// Add adds a provider. It returns an error if the provider is invalid, or if there is one with its ID.
func (c *Client) Add(p *Provider) error {
	if c.Provider(p.ID) != nil {
		return errors.New("there is another one with this ID")
	}
	return c.Set(p)
}

// Set adds a provider, or replaces the one with its ID. Authorizations that were started with different
// settings than p's are not completed: see print. It returns an error if p is invalid.
func (c *Client) Set(p *Provider) error {
	if err := p.check(); err != nil {
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
	if p.Resource != "" {
		p.params = append(p.params, oauth2.SetAuthURLParam("resource", p.Resource))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.providers[p.ID] = p
	return nil
}

func (p *Provider) check() error {
	checks := 0
	for _, set := range []bool{p.SubjectIsUser, p.Confirm, p.UnsafeAnyoneMayAuthorize != ""} {
		if set {
			checks++
		}
	}
	switch {
	case !providerID.MatchString(p.ID):
		return errors.New("its ID is not of 1 to 64 letters, digits, _ and -")
	case !isEndpoint(p.AuthURL):
		return errors.New("AuthURL must be an absolute https URL")
	case !isEndpoint(p.TokenURL):
		return errors.New("TokenURL must be an absolute https URL")
	case p.RevokeURL != "" && !isEndpoint(p.RevokeURL):
		return errors.New("RevokeURL must be an absolute https URL")
	case p.ClientID == "":
		return errors.New("it has no ClientID")
	case p.RequireIssuer && p.RefuseIssuer:
		return errors.New("RequireIssuer and RefuseIssuer leave no redirect")
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

// isEndpoint reports whether raw may be an endpoint of a provider. Requests to it must not be readable on a
// network, so plain http is only for this machine.
func isEndpoint(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}
