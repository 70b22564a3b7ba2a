package idp

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
)

// serveRegistration registers a client (RFC 7591): a public one if it says that
// it does not authenticate, and otherwise one with a secret.
func (p *Provider) serveRegistration(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_client_metadata", "the body is no description of a client")
		return
	}
	c := Client{ID: rand.Text(), RedirectURIs: asked.Redirects}
	if asked.Method != "none" {
		asked.Method, c.Secret = "client_secret_basic", rand.Text()
	}
	if err := c.validate(); err != nil || len(c.RedirectURIs) == 0 {
		writeError(w, http.StatusBadRequest, "invalid_redirect_uri", "a redirect URI is not permitted, or there is none")
		return
	}
	p.remember(c.Secret)
	p.store.mu.Lock()
	p.store.clients[c.ID] = c
	p.registered++
	p.store.mu.Unlock()
	answer := map[string]any{"client_id": c.ID, "client_name": asked.Name, "redirect_uris": c.RedirectURIs, "token_endpoint_auth_method": asked.Method}
	if c.Secret != "" {
		answer["client_secret"], answer["client_secret_expires_at"] = c.Secret, 0
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusCreated, answer)
}

// ForgetRegistered makes the provider forget the clients that have registered themselves.
func (p *Provider) ForgetRegistered() {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	for id := range p.store.clients {
		if !slices.ContainsFunc(p.store.options.Clients, func(c Client) bool { return c.ID == id }) {
			delete(p.store.clients, id)
		}
	}
}

// Registered returns the number of clients that have registered themselves.
func (p *Provider) Registered() int {
	p.store.mu.Lock()
	defer p.store.mu.Unlock()
	return p.registered
}
