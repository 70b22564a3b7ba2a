package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"slices"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
)

// The purposes of derived secrets.
const (
	forState    = "state"
	forStart    = "start"
	forBrowser  = "browser"
	forVerifier = "verifier"
	forNonce    = "nonce"
	forAccess   = "access"
	forPrint    = "print"
)

func (c *Client) derived(id, what string) string {
	h := hmac.New(sha256.New, c.o.Key)
	h.Write([]byte("authorization " + what + " " + id))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
}

// AccessPrint identifies an access token without revealing anything about it. The print of "" is "".
func (c *Client) AccessPrint(access string) string {
	if access == "" {
		return ""
	}
	return c.derived(access, forAccess)
}

// print identifies the settings of a provider and the key of secrets. It tells whether an authorization was
// started with the current ones, so that an answer is not sent to a provider that was configured in between.
func (c *Client) print(p *Provider) string {
	settings := []any{p.Issuer, p.AuthURL, p.TokenURL, p.ClientID, p.config.RedirectURL, p.Confirm, p.SubjectIsUser, c.o.Start == ""}
	if p.Resource != "" { // without one, the print is the same as in versions before Resource
		settings = append(settings, p.Resource)
	}
	list, _ := json.Marshal(settings)
	return c.derived(string(list), forPrint)
}

// Request returns a request to the user of a call for the provider's own scopes and the needed ones.
func (c *Client) Request(p *Provider, need []string) *authorize.Request {
	id := rand.Text()
	return &authorize.Request{
		ID: id, State: digest(c.derived(id, forState)), Start: digest(c.derived(id, forStart)),
		Print: c.print(p), Scopes: union(p.Scopes, need), Confirm: p.Confirm, For: c.o.UserTimeout,
	}
}

// union returns the scopes of all lists in their order, without duplicates.
func union(lists ...[]string) (all []string) {
	for _, scope := range slices.Concat(lists...) {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// Begin returns the address that the user is sent to for an authorization. The guard searches everything that
// leaves for the authorization's secrets until release is called.
func (c *Client) Begin(p *Provider, id string, scopes []string) (address string, release func()) {
	release = c.guarded(id)
	if c.o.Start != "" {
		return c.o.Start + c.derived(id, forStart), release
	}
	return c.address(p, id, scopes), release
}

// guarded makes the guard search everything that leaves for the secrets of an authorization, until release is
// called. Without a start page the state is not among them, since it is part of the address that the runtime
// gets.
func (c *Client) guarded(id string) (release func()) {
	d := sha256.Sum256([]byte(id))
	secrets := []string{c.derived(id, forVerifier)}
	if c.o.Start != "" {
		secrets = append(secrets, c.derived(id, forBrowser), c.derived(id, forState))
	}
	c.o.Guard.Hold(d, secrets...)
	return func() { c.o.Guard.Release(d) }
}

// address returns the address of the provider's page, with the state in it.
func (c *Client) address(p *Provider, id string, scopes []string) string {
	params := append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(c.derived(id, forVerifier))}, p.params...)
	if p.verifier != nil {
		params = append(params, oauth2.SetAuthURLParam("nonce", c.derived(id, forNonce)))
	}
	known := p.config // not copied, since it contains a cache
	config := oauth2.Config{ClientID: known.ClientID, Endpoint: known.Endpoint, RedirectURL: known.RedirectURL, Scopes: scopes}
	return config.AuthCodeURL(c.derived(id, forState), params...)
}

// digest returns the SHA-256 digest of a text in hexadecimal.
func digest(text string) string {
	d := sha256.Sum256([]byte(text))
	return hex.EncodeToString(d[:])
}
