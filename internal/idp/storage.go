package idp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// requestLifetime is how long a person may take to log in and to consent.
const requestLifetime = 10 * time.Minute

// maxFailures is the number of wrong passwords that end an authorization.
const maxFailures = 10

var errNoRequest = errors.New("no such authorization request")

// A store holds everything that the provider knows. It implements op.Storage.
//
// It maintains, whenever mu is free:
//
//  1. a code in codes names a request in requests that is not redeemed,
//  2. a code is in codes or in spent, never in both,
//  3. a refresh token is in refresh or in replaced, never in both.
type store struct {
	options Options
	issuer  string
	key     signingKey
	now     func() time.Time

	mu       sync.Mutex
	byName   map[string]User
	bySub    map[string]User
	clients  map[string]Client
	requests map[string]*authRequest
	codes    map[string]string // code → request
	spent    map[string]string // exchanged code → grant
	access   map[string]*accessToken
	refresh  map[string]*refreshToken
	replaced map[string]string // rotated refresh token → grant
	replays  int               // how often spent codes and replaced tokens were used again
	secrets  map[string]bool   // see Provider.Secrets
}

var _ op.Storage = (*store)(nil)

func newStore(o Options, issuer string) (*store, error) {
	key, err := newSigningKey()
	if err != nil {
		return nil, err
	}
	s := &store{
		options: o, issuer: issuer, key: key, now: time.Now,
		byName: map[string]User{}, bySub: map[string]User{}, clients: map[string]Client{},
		requests: map[string]*authRequest{}, codes: map[string]string{}, spent: map[string]string{},
		access: map[string]*accessToken{}, refresh: map[string]*refreshToken{},
		replaced: map[string]string{}, secrets: map[string]bool{},
	}
	for _, u := range o.Users {
		u.Subject = u.subject()
		s.byName[u.Name], s.bySub[u.Subject] = u, u
	}
	for _, c := range o.Clients {
		c.RedirectURIs = slices.Clone(c.RedirectURIs)
		s.clients[c.ID] = c
	}
	return s, nil
}

// Health implements op.Storage.
func (s *store) Health(context.Context) error { return nil }

// CreateAuthRequest implements op.Storage. The library has already checked the
// client, the redirect URI, the scopes and the response type. What the library
// leaves optional is required here.
func (s *store) CreateAuthRequest(_ context.Context, r *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !slices.Contains(s.clients[r.ClientID].RedirectURIs, r.RedirectURI):
		// The library unescapes the URI before it compares, so differently
		// spelled URIs would be accepted.
		return nil, oidc.ErrInvalidRequestRedirectURI().WithDescription("redirect_uri is not registered")
	case r.CodeChallenge == "" || r.CodeChallengeMethod != oidc.CodeChallengeMethodS256:
		return nil, oidc.ErrInvalidRequest().WithDescription("PKCE with S256 is required")
	case r.ResponseMode != "" && r.ResponseMode != oidc.ResponseModeQuery:
		return nil, oidc.ErrInvalidRequest().WithDescription("response_mode must be query")
	case slices.Contains(r.Prompt, oidc.PromptNone):
		return nil, oidc.ErrLoginRequired()
	}
	s.sweep()
	req := &authRequest{
		id:          randomText(),
		clientID:    r.ClientID,
		audience:    registeredClient{Client: s.clients[r.ClientID]}.audience(),
		redirectURI: r.RedirectURI,
		state:       r.State,
		nonce:       r.Nonce,
		challenge:   r.CodeChallenge,
		scopes:      slices.Clone(r.Scopes),
		created:     s.now(),
	}
	s.requests[req.id] = req
	return req.clone(), nil
}

func (r *authRequest) clone() *authRequest {
	c := *r
	return &c
}

// sweep forgets what has expired. Spent codes and replaced tokens stay, since
// otherwise their reuse would not be noticed. The caller holds mu.
func (s *store) sweep() {
	now := s.now()
	maps.DeleteFunc(s.requests, func(_ string, r *authRequest) bool {
		return now.Sub(r.created) > requestLifetime+s.options.CodeLifetime
	})
	maps.DeleteFunc(s.codes, func(_ string, id string) bool { return s.requests[id] == nil })
	maps.DeleteFunc(s.access, func(_ string, t *accessToken) bool { return !now.Before(t.expires) })
	maps.DeleteFunc(s.refresh, func(_ string, t *refreshToken) bool { return !now.Before(t.expires) })
}

// AuthRequestByID implements op.Storage.
func (s *store) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	r, err := s.request(id)
	if err != nil {
		return nil, oidc.ErrInvalidRequest().WithDescription("%s", err)
	}
	return r, nil
}

// request returns a copy of an authorization request that can still be answered.
func (s *store) request(id string) (*authRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return nil, err
	}
	return r.clone(), nil
}

// open returns a request that waits for its user. The caller holds mu.
func (s *store) open(id string) (*authRequest, error) {
	r := s.requests[id]
	if r == nil || !r.codeTime.IsZero() || s.now().Sub(r.created) > requestLifetime {
		return nil, errNoRequest
	}
	return r, nil
}

// logIn records that the browser of a session has authenticated as a user.
func (s *store) logIn(id, session, name, password string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return err
	}
	if r.allowed || r.session != "" && r.session != session {
		// Another browser's authorization cannot be taken over.
		return errNoRequest
	}
	u, known := s.byName[name]
	if !sameText(u.Password, password) || !known {
		if r.failures++; r.failures >= maxFailures {
			delete(s.requests, id)
			return errNoRequest
		}
		return ErrLogin
	}
	r.session, r.subject, r.authTime = session, u.Subject, s.now()
	return nil
}

// userName returns the name of the user with a subject.
func (s *store) userName(subject string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySub[subject].Name
}

// decide records the user's answer and returns the request to which it belongs. A
// denied request is over.
func (s *store) decide(id, session string, allow bool) (*authRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return nil, err
	}
	if r.session == "" || r.session != session {
		return nil, errNoRequest
	}
	if !allow {
		delete(s.requests, id)
		return r, nil
	}
	r.allowed = true
	return r.clone(), nil
}

// SaveAuthCode implements op.Storage.
func (s *store) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.open(id)
	if err != nil {
		return oidc.ErrInvalidRequest().WithDescription("%s", err)
	}
	r.codeTime = s.now()
	s.codes[code] = id
	s.secrets[code] = true
	return nil
}

// AuthRequestByCode implements op.Storage. If a code was exchanged before, it
// revokes the tokens of that exchange: one of the two who had the code has stolen
// it.
func (s *store) AuthRequestByCode(_ context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if grant, ok := s.spent[code]; ok {
		s.replay(grant)
		return nil, errors.New("code was used before")
	}
	r := s.requests[s.codes[code]]
	if r == nil || s.now().Sub(r.codeTime) > s.options.CodeLifetime {
		return nil, errors.New("code is unknown or has expired")
	}
	return r.clone(), nil
}

// redeem marks the request's code as spent. Two concurrent exchanges may both
// have found the code; one of them fails here. The caller holds mu.
func (s *store) redeem(id string) error {
	r := s.requests[id]
	if r == nil || r.redeemed {
		s.replay(id)
		return oidc.ErrInvalidGrant().WithDescription("code was used before")
	}
	r.redeemed = true
	for code, of := range s.codes {
		if of == id {
			delete(s.codes, code)
			s.spent[code] = id
		}
	}
	return nil
}

// DeleteAuthRequest implements op.Storage.
func (s *store) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	maps.DeleteFunc(s.codes, func(_, of string) bool { return of == id })
	return nil
}

// GetClientByClientID implements op.Storage.
func (s *store) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clients[id]
	if !ok {
		return nil, oidc.ErrInvalidClient().WithDescription("client is not registered")
	}
	c.RedirectURIs = slices.Clone(c.RedirectURIs)
	return registeredClient{Client: c, issuer: s.issuer, scopes: s.options.Scopes}, nil
}

// AuthorizeClientIDSecret implements op.Storage.
func (s *store) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clients[id]
	if !ok || !sameText(c.Secret, secret) {
		return errors.New("client authentication failed")
	}
	return nil
}

// addRedirect registers one more redirect URI.
func (s *store) addRedirect(id, uri string) error {
	if err := validateRedirect(uri); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.clients[id]
	if !ok {
		return fmt.Errorf("unknown client %q", id)
	}
	if !slices.Contains(c.RedirectURIs, uri) {
		c.RedirectURIs = append(slices.Clone(c.RedirectURIs), uri)
		s.clients[id] = c
	}
	return nil
}
