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

// What a secret of an authorization is for.
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

// AccessPrint tells access tokens apart, and says nothing of them.
func (c *Client) AccessPrint(access string) string {
	if access == "" {
		return ""
	}
	return c.derived(access, forAccess)
}

// print tells whether an authorization was begun with the provider as it is now, and with secrets
// that are known: an answer is not sent to a provider that was configured in between.
func (c *Client) print(p *Provider) string {
	settings := []any{p.Issuer, p.AuthURL, p.TokenURL, p.ClientID, p.config.RedirectURL, p.Confirm, p.SubjectIsUser, c.o.Start == ""}
	if p.Resource != "" { // without one, prints are those of before there were any
		settings = append(settings, p.Resource)
	}
	list, _ := json.Marshal(settings)
	return c.derived(string(list), forPrint)
}

// Request asks the user of a call for what the provider is asked for always, and for the scopes that are
// needed.
func (c *Client) Request(p *Provider, need []string) *authorize.Request {
	id := rand.Text()
	return &authorize.Request{
		ID: id, State: digest(c.derived(id, forState)), Start: digest(c.derived(id, forStart)),
		Print: c.print(p), Scopes: union(p.Scopes, need), Confirm: p.Confirm, For: c.o.UserTimeout,
	}
}

// union returns the scopes of all lists, each once, in their order.
func union(lists ...[]string) (all []string) {
	for _, scope := range slices.Concat(lists...) {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}

// Begin returns where the user is sent for an authorization. What is secret of it is looked for in everything
// that leaves until it is released.
func (c *Client) Begin(p *Provider, id string, scopes []string) (address string, release func()) {
	release = c.guarded(id)
	if c.o.Start != "" {
		return c.o.Start + c.derived(id, forStart), release
	}
	return c.address(p, id, scopes), release
}

// guarded looks for what is secret of an authorization in everything that leaves, until it is
// released. The runtime is told the state if there is no start page.
func (c *Client) guarded(id string) (release func()) {
	d := sha256.Sum256([]byte(id))
	secrets := []string{c.derived(id, forVerifier)}
	if c.o.Start != "" {
		secrets = append(secrets, c.derived(id, forBrowser), c.derived(id, forState))
	}
	c.o.Guard.Hold(d, secrets...)
	return func() { c.o.Guard.Release(d) }
}

// address returns the provider's page, with the state in it.
func (c *Client) address(p *Provider, id string, scopes []string) string {
	params := append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(c.derived(id, forVerifier))}, p.params...)
	if p.verifier != nil {
		params = append(params, oauth2.SetAuthURLParam("nonce", c.derived(id, forNonce)))
	}
	known := p.config // which is not copied: it has a cache in it
	config := oauth2.Config{ClientID: known.ClientID, Endpoint: known.Endpoint, RedirectURL: known.RedirectURL, Scopes: scopes}
	return config.AuthCodeURL(c.derived(id, forState), params...)
}

// digest returns a digest as a text.
func digest(text string) string {
	d := sha256.Sum256([]byte(text))
	return hex.EncodeToString(d[:])
}
