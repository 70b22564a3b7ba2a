package idp

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// DefaultClientID is the client of a [Provider] that was started without clients. It has no secret, so
// only PKCE ties the exchange to the authorization.
const DefaultClientID = "millrace-demo"

// Options are the settings of a [Provider]. The zero value is ready to use.
type Options struct {
	// Addr is the listen address, which must be loopback. Empty means 127.0.0.1:0, a free port.
	Addr string
	// Users are the people who can log in. Empty means one, ada with the password lovelace.
	Users []User
	// Clients are the applications that can request authorization. Empty means one, [DefaultClientID].
	Clients []Client
	// Scopes can be requested besides openid, profile and offline_access. Other scopes are not granted,
	// without an error.
	Scopes []string
	// Registration lets clients register themselves (RFC 7591).
	Registration bool
	// SilentIssuer leaves out of the metadata that authorization responses name the issuer, although they
	// do.
	SilentIssuer bool
	// AccessTokenLifetime is how long an access token is valid. Zero means five minutes. Less than a
	// second is refused, because a client receives whole seconds and treats 0 as never. Package
	// golang.org/x/oauth2 refreshes ten seconds early, so with a lifetime of up to ten seconds it
	// refreshes before every call.
	AccessTokenLifetime time.Duration
	// RefreshTokenLifetime is how long a refresh token can be used. Zero means a
	// day.
	RefreshTokenLifetime time.Duration
	// CodeLifetime is how long an authorization code can be exchanged. Zero means
	// a minute.
	CodeLifetime time.Duration
}

// A User is a person who can log in.
type User struct {
	// Name is what the person types, and the name claim.
	Name string
	// Password is compared as it is.
	Password string
	// Subject is the sub claim. Empty means the name.
	Subject string
}

// A Client is an application that can ask for authorization.
type Client struct {
	ID string
	// Secret authenticates the client at the token endpoint, in the header or in
	// the body. Empty means that the client is public.
	Secret string
	// RedirectURIs are compared byte for byte. Plain http is for loopback only.
	RedirectURIs []string
	// Audience is the resource of its access tokens, which are then JWTs of RFC 9068 with the scopes. If
	// it is empty, access tokens are opaque and valid for the userinfo endpoint.
	Audience string
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if len(o.Users) == 0 {
		// The subject differs from the name, to expose clients that confuse them.
		o.Users = []User{{Name: "ada", Password: "lovelace", Subject: "user-1815"}}
	}
	if len(o.Clients) == 0 {
		o.Clients = []Client{{ID: DefaultClientID}}
	}
	if o.AccessTokenLifetime == 0 {
		o.AccessTokenLifetime = 5 * time.Minute
	}
	if o.RefreshTokenLifetime == 0 {
		o.RefreshTokenLifetime = 24 * time.Hour
	}
	if o.CodeLifetime == 0 {
		o.CodeLifetime = time.Minute
	}
	return o
}

// validate returns an error if the options, with their defaults, are invalid.
func (o Options) validate() error {
	if o.AccessTokenLifetime < time.Second {
		return fmt.Errorf("idp: access tokens cannot live for %v, a second is the least", o.AccessTokenLifetime)
	}
	if o.RefreshTokenLifetime < 0 || o.CodeLifetime < 0 {
		return errors.New("idp: a lifetime is negative")
	}
	names, subjects := map[string]bool{}, map[string]bool{}
	for _, u := range o.Users {
		sub := u.subject()
		switch {
		case u.Name == "" || u.Password == "":
			return fmt.Errorf("idp: user %q needs a name and a password", u.Name)
		case strings.Contains(sub, ":"):
			// The library joins the parts of an access token with a colon.
			return fmt.Errorf("idp: subject %q contains a colon", sub)
		case names[u.Name]:
			return fmt.Errorf("idp: two users are called %q", u.Name)
		case subjects[sub]:
			return fmt.Errorf("idp: two users have the subject %q", sub)
		}
		names[u.Name], subjects[sub] = true, true
	}
	ids := map[string]bool{}
	for _, c := range o.Clients {
		if err := c.validate(); err != nil {
			return err
		}
		if ids[c.ID] {
			return fmt.Errorf("idp: two clients are called %q", c.ID)
		}
		ids[c.ID] = true
	}
	return nil
}

func (u User) subject() string {
	if u.Subject == "" {
		return u.Name
	}
	return u.Subject
}

func (c Client) validate() error {
	if c.ID == "" {
		return errors.New("idp: a client needs an ID")
	}
	for _, uri := range c.RedirectURIs {
		if err := validateRedirect(uri); err != nil {
			return fmt.Errorf("idp: client %q: %w", c.ID, err)
		}
	}
	return nil
}

// validateRedirect refuses redirect URIs that no provider should register. Plain http beyond loopback
// would send the code over a network in the clear.
func validateRedirect(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return err
	case u.Host == "":
		return fmt.Errorf("redirect URI %q is not absolute", uri)
	case strings.Contains(uri, "#"):
		return fmt.Errorf("redirect URI %q has a fragment", uri)
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u):
		return nil
	}
	return fmt.Errorf("redirect URI %q is neither https nor http on loopback", uri)
}

func isLoopback(u *url.URL) bool {
	return u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
}
