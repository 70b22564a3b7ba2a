package main

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/edge"
)

// users are the users whose tokens the API accepts, besides the operator's. The zero value
// accepts none.
type users struct {
	file *userTokens // of --tokens, or nil
	oidc *issuer     // of --oidc-issuer, or nil
}

// openUsers reads the users that the flags name.
func (f *serveFlags) openUsers() (u users, err error) {
	if *f.tokens != "" {
		u.file, err = openTokens(*f.tokens)
	}
	if *f.oidc.issuer != "" {
		u.oidc = newIssuer(*f.oidc.issuer, cmp.Or(*f.oidc.audience, f.apiURL()+mcpPath), f.tools.networks, slog.New(slog.NewTextHandler(stderr, nil)))
	}
	return u, err
}

// apiURL returns the URL at which clients reach the API.
func (f *serveFlags) apiURL() string {
	scheme := "http://"
	if f.apiTLS.given() {
		scheme = "https://"
	}
	return cmp.Or(*f.oidc.api, scheme+*f.address)
}

// guard returns the policy that says which callers may use the API.
func (u users) guard(token, api string, hosts []string) edge.Policy {
	p := edge.Policy{Token: edge.NewToken(token), Hosts: hosts, JSON: true, Pages: inspectPages}
	if u.file != nil || u.oidc != nil {
		p.Token.Others = u.admit
	}
	if u.oidc != nil {
		p.Token.Metadata, p.Token.Scope = api+resourceMetadata+mcpPath, scopeCall.name()
		p.Open = map[string]bool{resourceMetadata: true, resourceMetadata + mcpPath: true}
	}
	return p
}

// admit is for [edge.Token].Others.
func (u users) admit(r *http.Request, text string) (ctx context.Context, end func(), err error) {
	err = errToken
	if u.file != nil {
		ctx, end, err = u.file.admit(r, text)
	}
	if err != nil && u.oidc != nil && strings.Count(text, ".") == 2 {
		return u.oidc.admit(r, text)
	}
	return ctx, end, err
}

// serve adds the description of the API as a protected resource to a mux.
func (u users) serve(mux *http.ServeMux, api string) {
	if u.oidc != nil {
		mux.Handle("GET "+resourceMetadata, u.oidc.metadata(api+mcpPath))
		mux.Handle("GET "+resourceMetadata+mcpPath, u.oidc.metadata(api+mcpPath))
	}
}
