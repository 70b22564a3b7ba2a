package toolserver

import (
	"context"
	"errors"
	"time"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto"
)

// maxRuns is how often the function of one call may run because its token was
// refused: the second time with a renewed token, the third with a new one.
const maxRuns = 3

// authorized runs f when there is a token, after asking the user for one if
// necessary. If the token turns out to be refused, it is renewed or the user asked
// again, and f runs once more.
func (c *call) authorized(f func() (any, error)) (any, error) {
	p, key := c.tool.provider, c.fullKey()
	for run := 1; ; run++ {
		used, err := c.server.tokens.get(c.ctx, p, key)
		if errors.Is(err, ErrUnauthorized) {
			if err := c.authorize(); err != nil {
				return nil, err
			}
			used, err = c.server.tokens.get(c.ctx, p, key)
		}
		if errors.Is(err, ErrUnauthorized) {
			return nil, errAuthRepeated
		}
		if err != nil {
			return nil, err
		}
		out, err := f()
		if err == nil || !errors.Is(err, ErrUnauthorized) {
			return out, err
		}
		if run == maxRuns {
			return nil, errAuthRepeated
		}
		if err := c.server.tokens.reject(c.ctx, key, used, run > 1); err != nil {
			return nil, err
		}
	}
}

// fullKey returns the key of the user's token for the tool's provider.
func (c *call) fullKey() TokenKey {
	k := c.tokenKey
	k.Provider = c.tool.provider.ID
	return k
}

// authorize asks the user for authorization and waits until there is a token. The
// errors it returns have fixed words.
func (c *call) authorize() error {
	s, p := c.server, c.tool.provider
	ctx, stop := context.WithTimeoutCause(c.ctx, s.opts.OAuthTimeout, errAuthTimeout)
	defer stop()

	state, stateID := newState()
	secret, startID := newState()
	a := &authorization{
		key:      c.fullKey(),
		provider: p,
		verifier: oauth2.GenerateVerifier(),
		expires:  time.Now().Add(s.opts.OAuthTimeout),
		done:     make(chan error, 1),
	}
	params := append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.verifier)}, p.params...)
	a.address = p.config.AuthCodeURL(state, params...)
	address := a.address
	if s.opts.StartPage {
		a.browser, _ = newState()
		address = s.opts.PublicURL + startPath + secret
	}
	s.states.put(stateID, startID, a)
	defer s.states.drop(stateID, startID)

	m, err := s.encode(c, &agentproto.OAuth{GroupID: c.inv.GroupID, ID: c.inv.ID, CallID: c.inv.CallID, AuthURL: address})
	if err != nil {
		s.log.Error("authorization cannot be asked for", "tool", c.inv.Operation, "provider", p.ID)
		return errAuthFailed
	}
	m.ctx = ctx
	c.post(m)

	select {
	case err := <-a.done:
		return err
	case <-m.lost:
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return errAuthNotAsked
	case <-s.leaving:
		return ErrClosing
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// exchange turns the code of a redirect into a token of the user who was asked. It
// does not depend on the browser staying connected.
func (s *Server) exchange(a *authorization, code string) error {
	ctx, stop := s.providerContext()
	defer stop()
	t, err := a.provider.config.Exchange(ctx, code, oauth2.VerifierOption(a.verifier))
	if err != nil {
		s.logProvider("code not exchanged", a.provider, err)
		return errAuthFailed
	}
	return s.tokens.save(ctx, a.provider, a.key, t)
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
