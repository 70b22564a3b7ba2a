package idp

import (
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// An authRequest is one authorization, from the client's redirect to the exchange
// of the code. It implements op.AuthRequest.
//
// The store returns copies, because the library reads the fields after the
// store's lock is released.
type authRequest struct {
	id          string
	clientID    string
	audience    []string
	redirectURI string
	state       string
	nonce       string
	challenge   string
	scopes      []string
	created     time.Time

	session  string    // the browser that logged in, empty before
	subject  string    // who logged in
	authTime time.Time // when
	failures int       // wrong passwords so far
	allowed  bool      // the user consented
	codeTime time.Time // when the code was issued
	redeemed bool      // the code was exchanged
}

func (r *authRequest) GetID() string                      { return r.id }
func (r *authRequest) GetACR() string                     { return "" }
func (r *authRequest) GetAMR() []string                   { return []string{"pwd"} }
func (r *authRequest) GetAudience() []string              { return r.audience }
func (r *authRequest) GetAuthTime() time.Time             { return r.authTime }
func (r *authRequest) GetClientID() string                { return r.clientID }
func (r *authRequest) GetNonce() string                   { return r.nonce }
func (r *authRequest) GetRedirectURI() string             { return r.redirectURI }
func (r *authRequest) GetResponseType() oidc.ResponseType { return oidc.ResponseTypeCode }
func (r *authRequest) GetResponseMode() oidc.ResponseMode { return "" }
func (r *authRequest) GetScopes() []string                { return r.scopes }
func (r *authRequest) GetState() string                   { return r.state }
func (r *authRequest) GetSubject() string                 { return r.subject }
func (r *authRequest) Done() bool                         { return r.allowed }

func (r *authRequest) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.challenge, Method: oidc.CodeChallengeMethodS256}
}

// A refreshToken is a live refresh token. A copy of it implements
// op.RefreshTokenRequest.
type refreshToken struct {
	grant    string // the authorization from which it comes
	clientID string
	audience []string
	subject  string
	scopes   []string
	authTime time.Time
	expires  time.Time
}

func (r *refreshToken) GetAMR() []string            { return []string{"pwd"} }
func (r *refreshToken) GetAudience() []string       { return r.audience }
func (r *refreshToken) GetAuthTime() time.Time      { return r.authTime }
func (r *refreshToken) GetClientID() string         { return r.clientID }
func (r *refreshToken) GetScopes() []string         { return r.scopes }
func (r *refreshToken) GetSubject() string          { return r.subject }
func (r *refreshToken) SetCurrentScopes(s []string) { r.scopes = s }

// An accessToken is a live access token.
type accessToken struct {
	grant    string
	clientID string
	subject  string
	scopes   []string
	expires  time.Time
}
