package toolserver

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// maxRuns is how often the function of one call may run because its token was
// refused: the second time with a renewed token, the third with a new one.
const maxRuns = 3

// authorized runs f when there is a token, after asking the user for one if
// necessary. If the token turns out to be refused, it is renewed or the user asked
// again, and f runs once more.
func (c *call) authorized(f func() (any, error)) (any, error) {
	var refused Secret
	for run := 1; ; run++ {
		if err := c.access(refused); err != nil {
			return nil, err
		}
		out, err := f()
		if err == nil || !errors.Is(err, ErrUnauthorized) {
			return out, err
		}
		if run == maxRuns {
			return nil, errAuthRepeated
		}
		refused = c.used()
		if run > 1 { // a renewed one was refused, too
			if err := c.server.tokens.reject(c.ctx, c.fullKey(), refused); err != nil {
				return nil, err
			}
		}
	}
}

// access sees to it that there is a token that is good for the tool and was not
// refused, and asks the user for one if it must.
func (c *call) access(refused Secret) error {
	c.mu.Lock()
	c.refused = refused
	c.mu.Unlock()
	need, asked := c.tool.scopes, false
	for {
		t, err := c.tokenFor(c.ctx)
		switch {
		case err == nil && covers(t.Scopes, need):
			if a := c.server.states.of(c.digest()); a != nil { // of the process before; the user was faster
				c.server.states.drop(a)
			}
			return nil
		case err == nil && asked:
			return errScopes // the user, or the provider, has granted less
		case err == nil:
			err = c.authorize(t.Scopes)
		case errors.Is(err, ErrUnauthorized) && asked:
			return errAuthRepeated
		case errors.Is(err, ErrUnauthorized):
			err = c.authorize(nil)
		}
		if err != nil {
			return err
		}
		asked = true
	}
}

// tokenFor returns the user's token and notes that it is what the function uses.
func (c *call) tokenFor(ctx context.Context) (*UserToken, error) {
	c.mu.Lock()
	refused := c.refused
	c.mu.Unlock()
	t, err := c.server.tokens.get(ctx, c.tool.provider, c.fullKey(), refused)
	if err == nil {
		c.mu.Lock()
		c.latest = t.Access
		c.mu.Unlock()
	}
	return t, err
}

// used returns the access token that was given out last.
func (c *call) used() Secret {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// fullKey returns the key of the user's token for the tool's provider.
func (c *call) fullKey() TokenKey {
	k := c.tokenKey
	k.Provider = c.tool.provider.ID
	return k
}

// authorize asks the user for authorization, for the tool's scopes and those that
// there are, and waits until there is a token. A call that begins anew after a
// restart goes on waiting for what it has asked before. The errors that authorize
// returns have fixed words.
func (c *call) authorize(have []string) error {
	s := c.server
	a, err := c.authorization(have)
	if err != nil {
		return err
	}
	// Another call's authorization may have given a token before this one was known
	// as one that it makes unnecessary.
	if t, err := c.tokenFor(c.ctx); err == nil && covers(t.Scopes, a.Need) {
		return s.states.drop(a)
	}
	ctx, stop := context.WithDeadlineCause(c.ctx, a.Expires, errAuthTimeout)
	defer stop()
	o := c.await(ctx, a)
	if (s.opts.State != "" || errors.Is(o.err, ErrMoving)) && (errors.Is(o.err, ErrClosing) || s.ctx.Err() != nil) {
		return ErrClosing // a is for the next process
	}
	if err := s.states.drop(a); err != nil {
		s.log.Error("authorization not forgotten", "provider", a.Provider, "error", err)
	}
	if o.err != nil || o.token == nil {
		return o.err
	}
	if err := c.confirm(o.code); err != nil {
		return err
	}
	return s.keep(a, o.token)
}

// authorization returns the authorization that the call is waiting for, or makes
// one.
func (c *call) authorization(have []string) (*authorization, error) {
	s, p, key := c.server, c.tool.provider, c.fullKey()
	if p.SubjectIsUser && !strings.HasPrefix(key.User, userPrefix) {
		return nil, errNoUser
	}
	old := s.states.of(c.digest())
	if old != nil && old.provider == p && old.key() == key && slices.Equal(old.Need, c.tool.scopes) {
		return old, nil
	}
	if old != nil {
		s.states.drop(old)
	}
	a := s.states.newAuthorization(authorizationText{
		Call:     c.digest(),
		Name:     tools.Name{Runtime: c.at.Runtime, Group: c.inv.GroupID, ID: c.inv.ID},
		Runtime:  key.Runtime,
		User:     key.User,
		Provider: key.Provider,
		Scopes:   union(p.Scopes, c.tool.scopes, have),
		Need:     c.tool.scopes,
		Expires:  time.Now().Add(s.opts.OAuthTimeout),
	}, p)
	if err := s.states.put(a); err != nil {
		s.log.Error("authorization not kept", "provider", p.ID, "error", err)
		return nil, errAuthFailed
	}
	return a, nil
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

// await sends the user to the provider and waits for the outcome.
func (c *call) await(ctx context.Context, a *authorization) outcome {
	s := c.server
	if len(a.done) > 0 { // the user was faster than a call that begins anew
		return <-a.done
	}
	address := a.address()
	if !s.opts.NoStartPage {
		address = s.opts.PublicURL + startPath + a.Secret
	}
	m, err := c.encode(&agentproto.OAuth{GroupID: c.inv.GroupID, ID: c.inv.ID, CallID: c.inv.CallID, AuthURL: address})
	if err != nil {
		s.log.Error("authorization cannot be asked for", "tool", c.inv.Operation, "provider", a.Provider)
		return outcome{err: errAuthFailed}
	}
	m.Same, m.Lost = hex.EncodeToString(a.id[:]), rand.Text()
	if err := c.post(ctx, tools.Post{Message: m}); err != nil {
		return outcome{err: err}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lost := make(chan error, 1)
	go func() {
		_, err := s.answered(ctx, m.Lost)
		if err == nil {
			err = errAuthNotAsked
		}
		lost <- err
	}()
	select {
	case o := <-a.done:
		return o
	case err := <-lost:
		if cause := context.Cause(c.ctx); cause != nil {
			err = cause
		}
		return outcome{err: err}
	}
}

// exchange turns the code of a redirect into a token of the user who was asked. It
// does not depend on the browser staying connected. The token is kept, or, if the
// user has to confirm it, returned for the call.
func (s *Server) exchange(a *authorization, code string) outcome {
	ctx, stop := s.providerContext()
	defer stop()
	t, err := a.provider.config.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		s.logProvider("code not exchanged", a.provider, err)
		return outcome{err: errAuthFailed}
	}
	s.guard.AddOnce(leak.Owner(a.key()), code) // now that the provider has said that it is one
	token, err := s.tokens.accept(a.provider, a.key(), t, a.Scopes)
	if err == nil {
		err = s.identify(ctx, a, t)
	}
	if err != nil {
		return outcome{err: err}
	}
	if a.provider.Confirm {
		return outcome{token: token, code: newCode()}
	}
	return outcome{err: s.keep(a, token)}
}

// keep saves the token of an authorization.
func (s *Server) keep(a *authorization, t *UserToken) (err error) {
	s.tokens.exclusive(a.key(), func() {
		ctx, stop := s.providerContext()
		defer stop()
		err = s.tokens.save(ctx, a.key(), t)
	})
	if err != nil {
		return err
	}
	for _, other := range s.states.settled(a.key(), t) {
		other.done <- outcome{}
	}
	return nil
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
