package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// authorizing does a job of the authorizations.
func (s *Server) authorizing(ctx context.Context, runtime string, j authorize.Job) authorize.Outcome {
	done := make(chan authorize.Outcome, 1)
	go func() { // it goes on when the server ends: a provider may have issued a token
		done <- s.authorizeOnce(runtime, j)
	}()
	select {
	case o := <-done:
		if o.Class != authorize.Good && s.ctx.Err() != nil {
			<-ctx.Done() // it failed because the server ends
		}
		return o
	case <-ctx.Done():
		return authorize.Outcome{}
	}
}

func (s *Server) authorizeOnce(runtime string, j authorize.Job) authorize.Outcome {
	ctx, stop := s.providerContext()
	defer stop()
	key, p := TokenKey{runtime, j.Key.User, j.Key.Provider}, s.providers[j.Key.Provider]
	var t *UserToken
	err := errAuthFailed
	switch {
	case j.Kind == authorize.Discard:
		s.discard(ctx, p, j)
		return authorize.Outcome{Class: authorize.Good}
	case j.Kind == authorize.Revoke:
		s.giveBack(ctx, p, key)
		return authorize.Outcome{Class: authorize.Good}
	case j.Kind == authorize.Keep:
		err = errAuthLost
		if u := s.unconfirmed.take(j.ID); u != nil {
			t, err = u.token, s.tokens.save(ctx, key, u.token)
		}
	case p == nil:
	case j.Kind == authorize.Fetch:
		t, err = s.tokens.fetch(ctx, p, key, j)
	case j.Kind == authorize.Exchange:
		t, err = s.exchange(ctx, p, key, j)
	}
	o := authorize.Outcome{Class: classOf(err)}
	if err == nil {
		o.Access, o.Scopes = s.accessPrint(t.Access), t.Scopes
	}
	return o
}

// classOf returns what the flow is told of an error.
func classOf(err error) authorize.Class {
	switch {
	case err == nil:
		return authorize.Good
	case errors.Is(err, ErrUnauthorized):
		return authorize.None
	case errors.Is(err, errNotRenewed):
		return authorize.Unrenewed
	case errors.Is(err, errOtherUser):
		return authorize.Other
	case errors.Is(err, errAuthLost):
		return authorize.Lost
	case errors.Is(err, errUnconfirmed):
		return authorize.Unconfirmed
	default:
		return authorize.Failed
	}
}

// A transitText is an entry of the vault for a code: the code, then that it was sent to the
// provider, then the token. So a code is sent once, whatever happens to the process, and what the
// provider has issued for it is not lost once it is here.
type transitText struct {
	Code   string       `json:",omitempty"`
	Sent   bool         `json:",omitempty"`
	Token  *vault.Token `json:",omitempty"`
	Scopes []string     `json:",omitempty"`
}

func (t transitText) encode() []byte {
	text, _ := json.Marshal(t)
	return text
}

// exchange turns the code of a redirect into a token of the user who was asked, once.
func (s *Server) exchange(ctx context.Context, p *provider, key TokenKey, j authorize.Job) (*UserToken, error) {
	text, err := s.state.Transit.Get(j.Code)
	var e transitText
	if err == nil && text != nil {
		err = json.Unmarshal(text, &e)
	}
	switch {
	case err != nil:
		s.log.Error("code cannot be read", "provider", p.ID, "error", err)
		return nil, errAuthFailed
	case e.Token != nil:
		e.Token.Scopes = e.Scopes
		t := userToken(e.Token)
		return t, s.tokens.save(ctx, key, t)
	case e.Code == "":
		return nil, errAuthLost
	case j.Print != s.print(p):
		return nil, errAuthFailed
	}
	if err := s.state.Transit.Put(j.Code, transitText{Sent: true}.encode()); err != nil {
		s.log.Error("code not used up", "provider", p.ID, "error", err)
		return nil, errAuthFailed
	}
	issued, err := p.config.Exchange(ctx, e.Code, oauth2.VerifierOption(s.derived(j.ID, forVerifier)))
	if err != nil {
		s.logProvider("code not exchanged", p, err)
		return nil, errAuthFailed
	}
	s.guard.AddOnce(leak.Owner(key), e.Code) // now that the provider has said that it is one
	t, err := s.tokens.accept(p, key, issued, j.Scopes)
	if err == nil {
		err = s.identify(ctx, p, key, j.ID, issued)
	}
	if err != nil {
		return nil, err
	}
	if p.Confirm {
		s.unconfirmed.put(j.ID, t)
		return nil, errUnconfirmed
	}
	if err := s.state.Transit.Put(j.Code, transitText{Token: t.revealed(), Scopes: t.Scopes}.encode()); err != nil {
		s.log.Error("token not kept in transit", "provider", p.ID, "error", err)
	}
	return t, s.tokens.save(ctx, key, t)
}

// discard forgets a code, and a token that nobody has confirmed.
func (s *Server) discard(ctx context.Context, p *provider, j authorize.Job) {
	if j.Code != "" {
		if err := s.state.Transit.Delete(j.Code); err != nil {
			s.log.Error("code not deleted", "error", err)
		}
	}
	if u := s.unconfirmed.take(j.ID); u != nil && p != nil {
		s.revoke(ctx, p, u.token)
	}
}

// giveBack revokes the token of a session that is over, and deletes it.
func (s *Server) giveBack(ctx context.Context, p *provider, key TokenKey) {
	if t, err := s.tokens.load(ctx, key); err == nil {
		if p != nil {
			s.revoke(ctx, p, t)
		}
		s.tokens.forget(context.WithoutCancel(ctx), key)
	}
}

// revoke tells a provider that a token is not needed (RFC 7009), if it can be told. The refresh
// token goes with all that was issued for it; one that cannot be revoked expires.
func (s *Server) revoke(ctx context.Context, p *provider, t *UserToken) {
	if p.RevokeURL == "" {
		return
	}
	form := url.Values{"token": {t.Access.Reveal()}, "token_type_hint": {"access_token"}}
	if !t.Refresh.Empty() {
		form = url.Values{"token": {t.Refresh.Reveal()}, "token_type_hint": {"refresh_token"}}
	}
	inHeader := p.config.Endpoint.AuthStyle == oauth2.AuthStyleInHeader
	if !inHeader {
		form.Set("client_id", p.ClientID)
		if !p.ClientSecret.Empty() {
			form.Set("client_secret", p.ClientSecret.Reveal())
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.RevokeURL, strings.NewReader(form.Encode()))
	if err != nil {
		return // it was checked by addProvider
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if inHeader {
		req.SetBasicAuth(url.QueryEscape(p.ClientID), url.QueryEscape(p.ClientSecret.Reveal()))
	}
	resp, err := s.tokens.client.Do(req)
	if err != nil {
		s.logProvider("token not revoked", p, err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		s.log.Warn("token not revoked", "provider", p.ID, "status", resp.StatusCode)
	}
}

// providerContext returns the context of a token request. It belongs to the server
// and not to a call, because a token that a provider has issued must not get lost
// when a call is cancelled.
func (s *Server) providerContext() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(s.ctx, s.opts.ProviderTimeout)
	return context.WithValue(ctx, oauth2.HTTPClient, s.tokens.client), stop
}

// providerErrors are the error codes of RFC 6749 that may be logged. Others, and
// every description, are a provider's own words, and some have been seen to repeat
// the code.
var providerErrors = map[string]bool{
	"invalid_request": true, "invalid_client": true, "invalid_grant": true, "unauthorized_client": true,
	"unsupported_grant_type": true, "invalid_scope": true, "access_denied": true, "unsupported_response_type": true,
	"server_error": true, "temporarily_unavailable": true,
}

// logProvider logs that a provider did not give a token.
func (s *Server) logProvider(what string, p *provider, err error) {
	attrs := []any{"provider", p.ID}
	var re *oauth2.RetrieveError
	switch {
	case errors.As(err, &re):
		if re.Response != nil {
			attrs = append(attrs, "status", re.Response.StatusCode)
		}
		if providerErrors[re.ErrorCode] {
			attrs = append(attrs, "error", re.ErrorCode)
		}
	case errors.Is(err, context.DeadlineExceeded):
		attrs = append(attrs, "error", "timeout")
	default:
		attrs = append(attrs, "error", "no usable answer")
	}
	s.log.Warn(what, attrs...)
}

// An unconfirmed token is in memory only.
type unconfirmed struct {
	token   *UserToken
	code    [codeParts]int
	numbers [codeParts][]int // to pick the code from
}

type unconfirmeds struct {
	mu  sync.Mutex
	all map[string]*unconfirmed
}

func (us *unconfirmeds) put(id string, t *UserToken) {
	us.mu.Lock()
	defer us.mu.Unlock()
	if us.all == nil {
		us.all = make(map[string]*unconfirmed)
	}
	us.all[id] = newUnconfirmed(t)
}

// get returns the token of an authorization, or nil.
func (us *unconfirmeds) get(id string) *unconfirmed {
	us.mu.Lock()
	defer us.mu.Unlock()
	return us.all[id]
}

// take is get, and forgets it.
func (us *unconfirmeds) take(id string) *unconfirmed {
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.all[id]
	delete(us.all, id)
	return u
}
