package toolserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
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
		if err := c.access(refused, run > 2); err != nil {
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
	}
}

// access sees to it that there is a token that is good for the tool and was not
// refused, and asks the user for one if it must. Renewed says that the one which was
// refused had just been renewed.
func (c *call) access(refused Secret, renewed bool) error {
	c.mu.Lock()
	c.refused = refused
	c.mu.Unlock()
	if t, err := c.stored(); err != nil && !errors.Is(err, ErrUnauthorized) {
		return err
	} else if err == nil && t.usable(refused) && authorize.Covers(t.Scopes, c.tool.scopes) {
		c.use(t)
		return nil
	}
	if p := c.tool.provider; p.SubjectIsUser && !strings.HasPrefix(c.tokenKey.User, userPrefix) {
		return errNoUser
	}
	after := ""
	for {
		told, err := c.ask(refused, renewed, after)
		class := told.Class
		if err == nil && class == authorize.Asked {
			class, err = c.await(told)
			after = told.ID
		}
		if err == nil && class == authorize.Unconfirmed {
			class, err = c.confirm(told.ID)
		}
		switch {
		case (c.server.opts.State != "" || errors.Is(err, ErrMoving)) && (errors.Is(err, ErrClosing) || c.server.ctx.Err() != nil):
			return ErrClosing // the next process goes on with it
		case err != nil:
			return err
		case class == authorize.Lost:
			continue // the user is asked anew
		case class != authorize.Good:
			return classErrors[class]
		}
		t, err := c.stored()
		switch {
		case err == nil && !refused.Empty() && t.Access.equal(refused), errors.Is(err, ErrUnauthorized):
			return errAuthRepeated
		case err != nil:
			return err
		case !authorize.Covers(t.Scopes, c.tool.scopes):
			return errScopes // the user, or the provider, has granted less
		}
		c.use(t)
		return nil
	}
}

// classErrors are what a call is told, in fixed words.
var classErrors = map[authorize.Class]error{
	authorize.None: ErrUnauthorized, authorize.Failed: errAuthFailed, authorize.Unrenewed: errNotRenewed,
	authorize.Denied: errDenied, authorize.Other: errOtherUser, authorize.Late: errAuthTimeout,
	authorize.Wrong: errNotConfirmed, authorize.Declined: errNotConfirmed, authorize.Lost: errAuthFailed,
	authorize.Paused: errAuthPaused, authorize.Full: errAuthMany, authorize.Over: errEnded,
}

// stored returns the user's token as it is in the vault.
func (c *call) stored() (*UserToken, error) { return c.server.tokens.load(c.ctx, c.fullKey()) }

// use notes which token the function uses.
func (c *call) use(t *UserToken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = t.Access
}

// tokenFor returns a token of the user that is good now, as far as one can tell, and notes that
// it is what the function uses. The user is not asked.
func (c *call) tokenFor(ctx context.Context) (*UserToken, error) {
	c.mu.Lock()
	refused := c.refused
	c.mu.Unlock()
	t, err := c.server.tokens.load(ctx, c.fullKey())
	if err == nil && !t.usable(refused) {
		in := authorize.In{Ask: &authorize.Ask{Key: c.authKey(), Refused: c.server.accessPrint(refused)}}
		var told authorize.Told
		if told, err = c.server.flow.Authorize(ctx, c.tokenKey.Runtime, in); err != nil {
			return nil, err
		}
		if told.Class != authorize.Good {
			return nil, classErrors[told.Class]
		}
		t, err = c.server.tokens.load(ctx, c.fullKey())
	}
	if err == nil {
		c.use(t)
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

func (c *call) authKey() authorize.Key {
	return authorize.Key{User: c.tokenKey.User, Provider: c.tool.provider.ID}
}

// ask asks the flow for a token, which may have the user asked.
func (c *call) ask(refused Secret, renewed bool, after string) (authorize.Told, error) {
	s, p := c.server, c.tool.provider
	id := rand.Text()
	all, _ := s.flow.Ports.Opens.Latest()
	in := authorize.In{Ask: &authorize.Ask{
		Key: c.authKey(), Need: c.tool.scopes, Refused: s.accessPrint(refused), Reject: renewed,
		User: &authorize.Request{
			Call: c.id.AskName(), After: after, ID: id, State: digestOf(s.derived(id, forState)), Start: digestOf(s.derived(id, forStart)),
			Print: s.print(p), Scopes: union(p.Scopes, c.tool.scopes), Confirm: p.Confirm, Epoch: s.epoch, All: all, For: s.opts.OAuthTimeout,
		},
	}}
	return s.flow.AuthorizeCall(c.ctx, c.at, c.id, in)
}

// cause returns why the call has ended, if it has.
func (c *call) cause(err error) error {
	if cause := context.Cause(c.ctx); err != nil && cause != nil {
		return cause
	}
	return err
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
func (c *call) await(told authorize.Told) (authorize.Class, error) {
	s, p := c.server, c.tool.provider
	ctx, stop := s.whileOpen(c.ctx)
	defer stop(nil)
	type outcome struct {
		class authorize.Class
		err   error
	}
	ends := make(chan outcome, 2)
	go func() {
		class, err := s.flow.Ports.Settled.Await(ctx, told.ID)
		if err != nil {
			err = context.Cause(ctx)
		}
		ends <- outcome{class, err}
	}()
	release := s.guarded(told.ID)
	defer release()
	address := s.address(p, told.ID, told.Scopes)
	if !s.opts.NoStartPage {
		address = s.opts.PublicURL + startPath + s.derived(told.ID, forStart)
	}
	m, err := c.encode(&agentproto.OAuth{GroupID: c.inv.GroupID, ID: c.inv.ID, CallID: c.inv.CallID, AuthURL: address})
	if err != nil {
		s.log.Error("authorization cannot be asked for", "tool", c.inv.Operation, "provider", p.ID)
		return "", errAuthFailed
	}
	m.Same, m.Lost = told.ID, rand.Text()
	if err := c.post(ctx, tools.Post{Message: m}); err != nil {
		return "", c.cause(err)
	}
	go func() {
		if _, err := s.answered(ctx, m.Lost); err == nil {
			ends <- outcome{err: errAuthNotAsked}
		}
	}()
	o := <-ends
	return o.class, c.cause(o.err)
}

// What is secret of an authorization is made of its name and of a secret of the vault, so that no
// history has it and nothing is to be kept.
const (
	forState    = "state"
	forStart    = "start"
	forBrowser  = "browser"
	forVerifier = "verifier"
	forNonce    = "nonce"
	forAccess   = "access"
	forPrint    = "print"
)

func (s *Server) derived(id, what string) string {
	h := hmac.New(sha256.New, s.state.Asking)
	h.Write([]byte("authorization " + what + " " + id))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
}

// accessPrint tells access tokens apart, and says nothing of them.
func (s *Server) accessPrint(access Secret) string {
	if access.Empty() {
		return ""
	}
	return s.derived(access.Reveal(), forAccess)
}

// print tells whether an authorization was begun with the provider as it is now, and with secrets
// that are known: an answer is not sent to a provider that was configured in between.
func (s *Server) print(p *provider) string {
	list, _ := json.Marshal([]any{p.Issuer, p.AuthURL, p.TokenURL, p.ClientID, p.config.RedirectURL, p.Confirm, p.SubjectIsUser, s.opts.NoStartPage})
	return s.derived(string(list), forPrint)
}

// guarded looks for what is secret of an authorization in everything that leaves, until it is
// released. The runtime is told the state if there is no start page.
func (s *Server) guarded(id string) (release func()) {
	d := sha256.Sum256([]byte(id))
	secrets := []string{s.derived(id, forVerifier)}
	if !s.opts.NoStartPage {
		secrets = append(secrets, s.derived(id, forBrowser), s.derived(id, forState))
	}
	s.guard.Hold(d, secrets...)
	return func() { s.guard.Release(d) }
}

// address returns the provider's page, with the state in it.
func (s *Server) address(p *provider, id string, scopes []string) string {
	params := append([]oauth2.AuthCodeOption{oauth2.S256ChallengeOption(s.derived(id, forVerifier))}, p.params...)
	if p.verifier != nil {
		params = append(params, oauth2.SetAuthURLParam("nonce", s.derived(id, forNonce)))
	}
	known := p.config // which is not copied: it has a cache in it
	config := oauth2.Config{ClientID: known.ClientID, Endpoint: known.Endpoint, RedirectURL: known.RedirectURL, Scopes: scopes}
	return config.AuthCodeURL(s.derived(id, forState), params...)
}

// digestOf returns a digest as a text.
func digestOf(text string) string {
	d := sha256.Sum256([]byte(text))
	return hex.EncodeToString(d[:])
}
