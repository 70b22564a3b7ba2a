package main

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/internal/edge"
)

// users are whom the API takes tokens of, besides the operator's. The zero value is nobody.
type users struct {
	file *userTokens // of --tokens, or nil
}

// openUsers reads what the flags say of users.
func (f *serveFlags) openUsers() (u users, err error) {
	if *f.tokens != "" {
		u.file, err = openTokens(*f.tokens)
	}
	return u, err
}

// guard returns who may use the API.
func (u users) guard(token string, hosts []string) edge.Policy {
	p := edge.Policy{Token: edge.NewToken(token), Hosts: hosts, JSON: true, Pages: inspectPages}
	if u.file != nil {
		p.Token.Others = u.admit
	}
	return p
}

// admit is for [edge.Token].Others.
func (u users) admit(r *http.Request, text string) (ctx context.Context, end func(), ok bool) {
	return u.file.admit(r, text)
}
