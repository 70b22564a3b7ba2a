package conform

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// user returns a user of the provider, a different one each time if there are enough.
func (c *toolCase) user() OAuthUser {
	if c.profile.OAuth == nil || len(c.profile.OAuth.Users) == 0 {
		c.lacks("the profile has no user who could authorize (oauth.users)")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users++
	return c.profile.OAuth.Users[(c.users-1)%len(c.profile.OAuth.Users)]
}

// provider returns the controls of the provider.
func (c *toolCase) provider() Provider {
	if c.target.Provider == nil {
		c.lacks("the runner does not control the OAuth provider")
	}
	return c.target.Provider
}

func (c *toolCase) allow() string { return first(c.profile.OAuth.Allow, "allow") }
func (c *toolCase) deny() string  { return first(c.profile.OAuth.Deny, "deny") }

// decide makes a user follow the address of an oauth message and press a button, and returns the
// address of the redirect.
func (c *toolCase) decide(b *browser, m *message, user OAuthUser, button string) *url.URL {
	back, err := b.decide(c.ctx, m.text("auth_url"), user, button)
	c.must(err, "go through the authorization")
	return back
}

func (c *toolCase) open(b *browser, address string) *page {
	p, err := b.open(c.ctx, address)
	c.must(err, "open a page")
	return p
}

// opened fails unless the page has a good status.
func (c *toolCase) opened(what string, p *page) {
	if p.status >= 400 {
		c.fail(what, p, "a page with status 200")
	}
}

// refused fails unless the page has a status from 400 to 499.
func (c *toolCase) refused(what string, p *page) {
	if p.status < 400 || p.status >= 500 {
		c.fail(what, p, "a page with status 400")
	}
}

// changed returns an address with a parameter changed; an empty value removes it.
func changed(u *url.URL, name, value string) string {
	q, changed := u.Query(), *u
	if q.Del(name); value != "" {
		q.Set(name, value)
	}
	changed.RawQuery = q.Encode()
	return changed.String()
}

// A visit is an authorization up to the redirect back, which was not followed.
type visit struct {
	call *toolCall
	b    *browser
	user OAuthUser
	id   string // the user_id
	back *url.URL
}

// visit makes a call of the role authorize for a new user_id and lets the user consent.
func (c *toolCase) visit() *visit {
	v := &visit{b: c.browser(), user: c.user()}
	v.id = first(v.user.UserID, unique("user"))
	v.call = c.personal(v.id).start()
	v.back = c.decide(v.b, v.call.next("oauth"), v.user, c.allow())
	return v
}

// personal returns a call of the role authorize for a user_id.
func (c *toolCase) personal(id string) *toolCall {
	return c.call("authorize", nil).set(fields{"user_id": id})
}

// authorized returns a visit whose authorization was completed.
func (c *toolCase) authorized() *visit {
	v := c.visit()
	c.opened("the redirect after consent", c.open(v.b, v.back.String()))
	v.call.good(v.user.Shows)
	return v
}

// O08: without a token the user is asked first.
func (c *toolCase) asksForAuthorization() {
	k := c.personal(unique("user")).start()
	k.next("oauth")
	k.quiet("nothing until the user has decided")
	k.cancel()
}

// O09: consent leads to one result, and is remembered for the user.
func (c *toolCase) authorizes() {
	v := c.authorized()
	v.call.quiet("one result")
	again := c.personal(v.id).start()
	again.what = "a second call of a user who has authorized"
	again.good(v.user.Shows)
}

// O10: a denial becomes a result, and neither the result nor the page contains text of the
// redirect.
func (c *toolCase) denied() {
	b, user := c.browser(), c.user()
	k := c.personal(first(user.UserID, unique("user"))).start()
	back := c.decide(b, k.next("oauth"), user, c.deny())
	marker := unique("marker")
	p := c.open(b, changed(back, "error_description", "<b>"+marker+"</b>"))
	if strings.Contains(p.text, marker) || p.status >= 500 {
		c.fail("a denial with an error_description", p, "a page of fixed words")
	}
	k.what = "a denial"
	if m := k.bad(); strings.Contains(m.raw, marker) {
		c.fail(k.what, m, "a result of fixed words")
	}
	k.quiet("one result")
}

// O11: a redirect is valid once, for its own authorization, and for a limited time.
func (c *toolCase) badState() {
	v := c.visit()
	c.refused("a redirect with another state", c.open(v.b, changed(v.back, "state", unique("state"))))
	c.refused("a redirect without state", c.open(v.b, changed(v.back, "state", "")))
	if m, err := v.call.line.next(c.ctx, soonest); err == nil {
		c.fail("redirects with a bad state", m, "the call is not affected")
	}
	// The code still works, so the server did not exchange it before.
	c.opened("the redirect after consent", c.open(v.b, v.back.String()))
	v.call.good(v.user.Shows)
	c.refused("a redirect that was used", c.open(v.b, v.back.String()))

	limit := millis(c.limits.Authorization)
	if limit == 0 {
		return
	}
	late := c.visit()
	late.call.what = fmt.Sprintf("an authorization that takes longer than %v", limit)
	m := late.call.within(limit+millis(c.limits.Retry), "tool_result")
	if !m.isError() {
		c.fail(late.call.what, m, "an error result")
	}
	c.refused("a redirect that is too late", c.open(late.b, late.back.String()))
	late.call.quiet("one result")
}

// O12: a redirect that is opened again has no effect.
func (c *toolCase) redirectTwice() {
	v := c.authorized()
	c.refused("a redirect for the second time", c.open(v.b, v.back.String()))
	v.call.quiet("one result")
	c.personal(v.id).start().good(v.user.Shows)
}

// O13: a code of another authorization is useless (PKCE).
func (c *toolCase) foreignCode() {
	attacker, victim := c.visit(), c.visit()
	if p := c.open(victim.b, changed(victim.back, "code", attacker.back.Query().Get("code"))); p.status < 400 {
		c.fail("the code of another authorization", p, "a page that says that it failed")
	}
	victim.call.what = "the code of another authorization"
	victim.call.bad()
	k := c.personal(victim.id).start()
	k.what = "a call after a foreign code"
	k.next("oauth")
	k.cancel()
	attacker.call.cancel()
}

// O14: a redirect of another issuer is refused before its code is sent anywhere.
func (c *toolCase) mixedUp() {
	issuers := []string{"https://evil.example"}
	if c.profile.OAuth != nil && c.profile.OAuth.Issuer {
		issuers = append(issuers, "")
	}
	for _, iss := range issuers {
		v := c.visit()
		before := 0
		if c.target.Provider != nil {
			before = c.target.Provider.Exchanges()
		}
		what := fmt.Sprintf("a redirect with iss %q", iss)
		c.refused(what, c.open(v.b, changed(v.back, "iss", iss)))
		if c.target.Provider != nil && c.target.Provider.Exchanges() != before {
			c.fail(what, "the code was exchanged", "no exchange")
		}
		if m, err := v.call.line.next(c.ctx, soonest); err == nil && !m.isError() {
			c.fail(what, m, "no result, or an error")
		}
		v.call.cancel()
	}
}

// O15: whatever the token endpoint does, the call gets an error result without the endpoint's own
// words.
func (c *toolCase) tokenEndpointFails() {
	p := c.provider()
	limit := millis(c.limits.Provider) + millis(c.limits.Result)
	var calls []*toolCall
	try := func(what string, prepare func() (undo func())) {
		v := c.visit()
		undo := prepare()
		defer undo()
		shown := make(chan *page, 1)
		go func() {
			page, err := v.b.open(c.ctx, v.back.String())
			if err != nil {
				page = nil
			}
			shown <- page
		}()
		v.call.what = what
		m := v.call.within(limit, "tool_result")
		if !m.isError() {
			c.fail(what, m, "an error result")
		}
		undo()
		select {
		case page := <-shown:
			if page != nil {
				c.secretless(what+" (page)", page.text)
			}
		case <-c.ctx.Done():
			c.must(c.ctx.Err(), "wait for the page")
		}
		c.secretless(what, m.raw)
		calls = append(calls, v.call)
	}
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadRequest, http.StatusOK} {
		try(fmt.Sprintf("a token endpoint that answers %d with its own words", status), func() func() {
			p.FailTokenEndpoint(status, 1000)
			return func() { p.FailTokenEndpoint(http.StatusInternalServerError, 0) }
		})
	}
	try("a token endpoint that does not answer", func() func() {
		_, release := p.HoldTokenEndpoint()
		return sync.OnceFunc(release)
	})
	c.quietAll("one result", calls...)
	c.authorized() // it works again
}

// O16: an expired token is renewed without the user. The new one is stored before it is used, so
// that a crash does not lose it.
func (c *toolCase) refreshes() {
	p := c.provider()
	v := c.authorized()
	for i := range 3 {
		before, replays := p.Refreshes(), p.Replays()
		if p.ExpireTokens(v.user.Name) == 0 {
			c.must(fmt.Errorf("user %q has no tokens", v.user.Name), "expire tokens")
		}
		if i == 2 && c.proc != nil {
			c.restart(nil)
		}
		k := c.personal(v.id).start()
		k.what = "a call with an expired token"
		k.good(v.user.Shows)
		if n := p.Refreshes() - before; n != 1 || p.Replays() != replays {
			c.fail(k.what, fmt.Sprintf("%d refreshes, %d with a token that was used", n, p.Replays()-replays), "one refresh, with the newest token")
		}
	}
}

// O17: when a token cannot be renewed, the user is asked again.
func (c *toolCase) refreshRefused() {
	p := c.provider()
	v := c.authorized()
	p.RevokeRefresh(v.user.Name)
	p.ExpireTokens(v.user.Name)
	k := c.personal(v.id).start()
	k.what = "a call with a token that cannot be renewed"
	b := c.browser()
	back := c.decide(b, k.next("oauth"), v.user, c.allow())
	c.opened("the redirect", c.open(b, back.String()))
	k.good(v.user.Shows)
}

// O18: concurrent calls share one refresh.
func (c *toolCase) oneRefresh() {
	p := c.provider()
	v := c.authorized()
	before := p.Refreshes()
	p.ExpireTokens(v.user.Name)
	var calls []*toolCall
	for range 20 {
		calls = append(calls, c.personal(v.id).start())
	}
	for _, k := range calls {
		k.what = "one of 20 calls with an expired token"
		k.good(v.user.Shows)
	}
	if n := p.Refreshes() - before; n != 1 {
		c.fail("20 calls with an expired token", fmt.Sprintf("%d refreshes", n), "one")
	}
}

// O21: the redirect URI is always the registered one.
func (c *toolCase) exactRedirect() {
	var seen [2]string
	for i := range seen {
		k := c.personal(unique("user")).start()
		u, err := url.Parse(k.next("oauth").text("auth_url"))
		c.must(err, "parse auth_url")
		seen[i] = u.Query().Get("redirect_uri") // empty if the server has its own page before the provider's
		k.cancel()
	}
	if seen[0] != seen[1] {
		c.fail("two authorizations", seen, "one redirect_uri")
	}
	c.authorized()
}

// O22: tokens belong to users.
func (c *toolCase) twoUsers() {
	one, two := c.visit(), c.visit()
	if one.user == two.user {
		c.lacks("the profile has one user only (oauth.users)")
	}
	for _, v := range []*visit{two, one} {
		c.opened("the redirect after consent", c.open(v.b, v.back.String()))
	}
	for range 2 {
		one.call.good(one.user.Shows)
		two.call.good(two.user.Shows)
		one.call, two.call = c.personal(one.id).start(), c.personal(two.id).start()
	}
	third := c.personal(unique("user")).start()
	third.what = "a call of a user who has not authorized"
	third.next("oauth")
	third.cancel()
	if c.profile.OtherHeaders != nil {
		k := c.personal(one.id).to(c.lineOf(1)).start(c.as())
		k.what = "a call of another runtime for a user_id of this one"
		k.next("oauth")
		k.cancel()
	}
}

// O23: a pending authorization survives the process.
func (c *toolCase) restartWhileAuthorizing() {
	c.restartable()
	v := c.visit()
	c.restart(nil)
	c.opened("the redirect after kill -9 and a new start", c.open(v.b, v.back.String()))
	v.call.what = "an authorization that was waiting at kill -9"
	m := v.call.next("tool_result", "oauth")
	for m.kind == "oauth" { // the server may ask again, but the old address must work
		m = v.call.next("tool_result", "oauth")
	}
	if m.isError() || !strings.Contains(m.words(), v.user.Shows) {
		c.fail(v.call.what, m, "a result for "+v.user.Shows)
	}
	v.call.quiet("one result")
}

// O24: somebody who was sent the auth_url does not give the sender access to their own account.
func (c *toolCase) otherBrowser() {
	v := c.visit()
	p := c.open(c.browser(), v.back.String())
	m, err := v.call.await(millis(c.limits.Quiet))
	switch {
	case err == nil && m.kind == "user_choice": // asks for confirmation
	case err == nil && !m.isError():
		c.fail("a redirect in another browser", m, "it is refused, or the user is asked to confirm")
	case err != nil && p.status < 400 && !strings.Contains(strings.ToLower(p.text), "<form"):
		c.fail("a redirect in another browser", p, "it is refused, or the user is asked to confirm")
	}
	v.call.cancel()
}
