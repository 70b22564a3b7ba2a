package toolserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/oauth"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A need is the provider and the scopes that a call needs a token for.
type need struct {
	provider *oauth.Provider
	scopes   []string // sorted
}

// maxRuns is how often the function of one call may run because its token was refused: the second time with a renewed token, the
// third with a new one.
const maxRuns = 3

// authorized runs f once there is a token, after asking the user for one if necessary. If the token is refused, it is renewed or
// the user asked again, and f runs once more.
func (c *call) authorized(f func() (any, error)) (any, error) {
	var refused string
	for run := 1; ; run++ {
		if err := c.access(c.tool.need, refused, run > 2); err != nil {
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

// access ensures that there is a token that suffices for the tool and was not refused, and asks the user for one if necessary.
// Renewed says that the refused token had just been renewed.
func (c *call) access(n need, refused string, renewed bool) error {
	c.mu.Lock()
	c.refused = refused
	c.mu.Unlock()
	if t, err := c.stored(c.ctx, n); err != nil && !errors.Is(err, ErrUnauthorized) {
		return err
	} else if err == nil && t.Usable(refused) && authorize.Covers(t.Scopes, n.scopes) {
		c.use(t)
		return nil
	}
	if n.provider.SubjectIsUser && !strings.HasPrefix(c.tokenKey.User, authorize.UserPrefix) {
		return errNoUser
	}
	after := ""
	for {
		told, err := c.ask(n, refused, renewed, after)
		class := told.Class
		if err == nil && class == authorize.Asked {
			class, err = c.await(n, told)
			after = told.ID
		}
		if err == nil && class == authorize.Unconfirmed {
			class, err = c.confirm(n, told.ID)
		}
		switch {
		case (c.server.opts.State != "" || errors.Is(err, ErrMoving)) && (errors.Is(err, ErrClosing) || c.server.ctx.Err() != nil):
			return ErrClosing // the next process continues
		case err != nil:
			return err
		case class == authorize.Lost:
			continue // the user is asked anew
		case class != authorize.Good:
			return classErrors[class]
		}
		t, err := c.stored(c.ctx, n)
		switch {
		case err == nil && refused != "" && t.Access == refused, errors.Is(err, ErrUnauthorized):
			return errAuthRepeated
		case err != nil:
			return err
		case !authorize.Covers(t.Scopes, n.scopes):
			return errScopes // the user, or the provider, has granted less
		}
		c.use(t)
		return nil
	}
}

// classErrors are the errors, in fixed words, that a call gets.
var classErrors = map[authorize.Class]error{
	authorize.None: ErrUnauthorized, authorize.Failed: errAuthFailed, authorize.Unrenewed: errNotRenewed, authorize.Unknown: ErrUnknownClient,
	authorize.Denied: errDenied, authorize.Other: errOtherUser, authorize.Late: errAuthTimeout,
	authorize.Wrong: errNotConfirmed, authorize.Declined: errNotConfirmed, authorize.Lost: errAuthFailed,
	authorize.Paused: errAuthPaused, authorize.Full: errAuthMany, authorize.Over: errEnded,
}

// stored returns the user's token in the vault.
func (c *call) stored(ctx context.Context, n need) (*vault.Token, error) {
	key := c.tokenKey
	key.Provider = n.provider.ID
	t, class := c.server.oauth.Load(ctx, vault.Key(key))
	return t, classErrors[class]
}

// use records which token the function uses.
func (c *call) use(t *vault.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latest = t.Access
}

// tokenFor returns a token of the user that is valid now, as far as can be known, and records that the function uses it. It does
// not ask the user.
func (c *call) tokenFor(ctx context.Context, n need) (*vault.Token, error) {
	c.mu.Lock()
	refused := c.refused
	c.mu.Unlock()
	t, err := c.stored(ctx, n)
	if err == nil && !t.Usable(refused) {
		in := authorize.In{Ask: &authorize.Ask{Key: c.authKey(n), Refused: c.server.oauth.AccessPrint(refused)}}
		var told authorize.Told
		if told, err = c.server.flow.Authorize(ctx, c.tokenKey.Runtime, in); err != nil {
			return nil, err
		}
		if told.Class != authorize.Good {
			return nil, classErrors[told.Class]
		}
		t, err = c.stored(ctx, n)
	}
	if err == nil {
		c.use(t)
	}
	return t, err
}

// used returns the access token that the function got last.
func (c *call) used() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

func (c *call) authKey(n need) authorize.Key {
	return authorize.Key{User: c.tokenKey.User, Provider: n.provider.ID}
}

// ask asks the flow for a token. The flow may ask the user.
func (c *call) ask(n need, refused string, renewed bool, after string) (authorize.Told, error) {
	s := c.server
	user := s.oauth.Request(n.provider, n.scopes)
	user.Call, user.After, user.Epoch = c.id.AskName(), after, s.epoch
	user.All, _ = s.flow.Ports.Opens.Latest()
	in := authorize.In{Ask: &authorize.Ask{Key: c.authKey(n), Need: n.scopes, Refused: s.oauth.AccessPrint(refused), Reject: renewed, User: user}}
	return s.flow.AuthorizeCall(c.ctx, c.at, c.id, in)
}

// cause returns the reason why the call has ended, if err is not nil and it has, and else err.
func (c *call) cause(err error) error {
	if cause := context.Cause(c.ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// await sends the user to the provider and waits for the outcome.
func (c *call) await(n need, told authorize.Told) (authorize.Class, error) {
	s, p := c.server, n.provider
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
	address, release := s.oauth.Begin(p, told.ID, told.Scopes)
	defer release()
	m, err := c.encode(&agentproto.OAuth{GroupID: c.inv.GroupID, ID: c.inv.ID, CallID: c.inv.CallID, AuthURL: address})
	if err != nil {
		s.log.Error("authorization cannot be asked for", "tool", c.inv.Operation, "provider", p.ID)
		return "", errAuthFailed
	}
	if err := c.sendUser(ctx, m, told.ID, func() { ends <- outcome{err: errAuthNotAsked} }); err != nil {
		return "", err
	}
	o := <-ends
	return o.class, c.cause(o.err)
}

// sendUser posts a message that sends the user to an address. Of the messages with one name, only one waits for delivery. If the
// message turns out to be undeliverable before ctx ends, lost is called, also after sendUser has returned.
func (c *call) sendUser(ctx context.Context, m *tools.Message, name string, lost func()) error {
	c.mu.Lock()
	m.Same, m.Lost = name, c.sent[name]
	c.mu.Unlock()
	if m.Lost == "" { // not yet sent in this run of the function
		m.Lost = rand.Text()
		if err := c.post(ctx, tools.Post{Message: m}); err != nil {
			return c.cause(err)
		}
		c.mu.Lock()
		if c.sent == nil {
			c.sent = make(map[string]string)
		}
		c.sent[name] = m.Lost
		c.mu.Unlock()
	}
	go func() {
		if _, err := c.server.answered(ctx, m.Lost); err == nil {
			lost()
		}
	}()
	return nil
}

// sentTo begins the names of the steps that [SendTo] stores. The names of [Step] begin with another character.
const sentTo = "!sent to "

// SendTo asks the user, as for an authorization, to open an https address of another system, and calls until. The page there does
// not lead back to the tool server, so until has to find out when the user is done. The runtime shows the host of the address.
// The request is on disk when SendTo calls until. The context of until ends [Options.OAuthTimeout] after the address was first
// sent, by this run of the function or by one before a restart.
//
// SendTo returns what until returns, [ErrNoAnswer] when the time is over, [ErrNotAsked] if the runtime did not accept the
// request, [ErrAddress] for an address that a runtime does not show, and [ErrClosing] and the causes of the context as [Choose]
// does. It panics if ctx is not one of a tool function.
//
// A function that calls SendTo again with the same address continues to wait, even when it runs again after a restart: a runtime
// that still shows the address does not show it anew. The request stands until the call has a result or asks for something else.
func SendTo(ctx context.Context, address string, until func(ctx context.Context) error) error {
	c := callOf(ctx, "SendTo")
	s, name := c.server, sentTo+digestOf(address)
	m, err := c.encode(&agentproto.OAuth{GroupID: c.inv.GroupID, ID: c.inv.ID, CallID: c.inv.CallID, AuthURL: address})
	if err != nil { // the message is checked as a runtime checks it
		return ErrAddress
	}
	at, known, err := c.recall(ctx, name)
	if err == nil && !known {
		now, _ := time.Now().Round(0).MarshalText() // a year of four digits
		if at, err = c.keep(ctx, name, now); at == nil {
			at = now
		}
	}
	var since time.Time
	if err == nil {
		err = since.UnmarshalText(at)
	}
	if err != nil {
		return c.cause(err)
	}
	ctx, stop := s.whileOpen(ctx)
	defer stop(nil)
	ctx, over := context.WithDeadlineCause(ctx, since.Add(s.opts.OAuthTimeout), ErrNoAnswer)
	defer over()
	if err := c.sendUser(ctx, m, name, func() { stop(ErrNotAsked) }); err != nil {
		return err
	}
	err = until(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// noneOfThem is the choice of a user who did not see the page with the code.
const noneOfThem = "None of these, or I did not authorize anything"

// confirm asks the user of the conversation for the code that the page at the end of the authorization showed (case O24). So the
// person who authorized is the person who asked, or was asked by that person for the code.
func (c *call) confirm(n need, id string) (authorize.Class, error) {
	lists, code := c.server.oauth.Numbers(id)
	if code == nil {
		return authorize.Lost, nil
	}
	class, err := c.pick(lists, code)
	if err != nil && !errors.Is(err, ErrNoAnswer) && !errors.Is(err, ErrNotAsked) && !errors.Is(err, ErrBadAnswer) {
		return "", err // the call is over, or continues elsewhere
	}
	if err != nil {
		class = authorize.Declined
	}
	if class != authorize.Good {
		c.server.log.Warn("authorization not confirmed", "provider", n.provider.ID)
	}
	// A wrong number counts, even if the call is cancelled meanwhile.
	told, failed := c.server.flow.Authorize(c.server.ctx, c.tokenKey.Runtime, authorize.In{Confirm: &authorize.Confirm{ID: id, Class: class}})
	if err == nil {
		err = failed
	}
	return told.Class, err
}

// pick asks the user for the numbers of a code.
func (c *call) pick(lists [][]int, code []int) (authorize.Class, error) {
	for i, numbers := range lists {
		var choices []string
		for _, n := range numbers {
			choices = append(choices, strconv.Itoa(n))
		}
		prompt := fmt.Sprintf("The page after the authorization shows %d numbers. Which is number %d?", len(code), i+1)
		picked, err := Choose(c.ctx, prompt, append(choices, noneOfThem), len(choices))
		switch {
		case err != nil:
			return "", err
		case picked == len(choices):
			return authorize.Declined, nil
		case numbers[picked] != code[i]:
			return authorize.Wrong, nil
		}
	}
	return authorize.Good, nil
}

// digestOf returns the SHA-256 digest of a text in hexadecimal.
func digestOf(text string) string {
	d := sha256.Sum256([]byte(text))
	return hex.EncodeToString(d[:])
}
