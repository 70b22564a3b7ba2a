package oauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/pages"
	"github.com/millrace/millrace/agentproto/internal/running"
)

// ServeRedirect receives the user coming back from a provider. No text of the redirect is shown,
// logged or followed.
func (c *Client) ServeRedirect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the mux accepts HEAD for GET, but a state may be used only once
		w.Header().Set("Allow", http.MethodGet)
		pages.Show(w, http.StatusMethodNotAllowed, pages.Invalid)
		return
	}
	p := c.Provider(r.PathValue("provider"))
	query, ok := redirectQuery(r.URL.RawQuery)
	if p == nil || !ok {
		pages.Show(w, http.StatusBadRequest, pages.Invalid)
		return
	}
	state := digest(query.Get("state"))
	o, open := c.o.Flow.Ports.Open.Get(state)
	if !open || o.State != state || o.Key.Provider != p.ID || o.Print != c.print(p) || !c.isOpener(r, o.ID) {
		pages.Show(w, http.StatusBadRequest, pages.Invalid)
		return
	}
	back := authorize.Redirect{ID: o.ID, State: state}
	switch {
	case !p.issued(query):
		c.o.Log.Warn("redirect refused: it is another issuer's", "provider", p.ID)
		back.Refused = authorize.Failed
	case query.Get("error") == "access_denied":
		back.Refused = authorize.Denied
	case query.Get("error") != "" || query.Get("code") == "":
		c.o.Log.Warn("authorization failed at the provider", "provider", p.ID)
		back.Refused = authorize.Failed
	default:
		back.Code = rand.Text()
		if err := c.o.Transit.Put(back.Code, transitText{Code: query.Get("code")}.encode()); err != nil {
			c.o.Log.Error("code not kept", "provider", p.ID, "error", err)
			pages.Show(w, http.StatusInternalServerError, pages.Failed)
			return
		}
	}
	c.showOutcome(w, c.back(o, back), back)
}

// back reports a user who came back to the flow, and returns the outcome. It does not depend on the
// browser's connection.
func (c *Client) back(o authorize.Opened, back authorize.Redirect) authorize.Told {
	ctx, stop := context.WithTimeoutCause(c.ctx, 2*c.o.Timeout+running.AskTimeout, running.ErrFlow)
	defer stop()
	told, err := c.o.Flow.Authorize(ctx, o.Runtime, authorize.In{Redirect: &back})
	switch {
	case err != nil:
		c.o.Log.Error("outcome of an authorization is not in the state", "provider", o.Key.Provider, "error", err)
		told.Class = authorize.Lost
	case told.Class == authorize.Over && back.Code != "": // another redirect was first; the flow deletes the codes that it has taken
		if _, needed := c.o.Flow.Ports.Codes.Get(back.Code); !needed {
			c.o.Transit.Delete(back.Code)
		}
	}
	return told
}

// showOutcome shows the outcome of an authorization.
func (c *Client) showOutcome(w http.ResponseWriter, told authorize.Told, back authorize.Redirect) {
	switch told.Class {
	case authorize.Good:
		pages.Show(w, http.StatusOK, pages.Done)
	case authorize.Unconfirmed:
		if u := c.unconfirmed.get(told.ID); u != nil {
			pages.Code(w, u.code[:])
			return
		}
		pages.Show(w, http.StatusBadGateway, pages.Failed)
	case authorize.Denied:
		pages.Show(w, http.StatusOK, pages.Denied)
	case authorize.Other:
		pages.Show(w, http.StatusForbidden, pages.OtherUser)
	case authorize.Over:
		pages.Show(w, http.StatusBadRequest, pages.Invalid)
	default:
		if back.Refused != "" {
			pages.Show(w, http.StatusBadRequest, pages.Failed)
			return
		}
		pages.Show(w, http.StatusBadGateway, pages.Failed)
	}
}

const (
	maxQuery     = 16 << 10 // length of a redirect's query
	maxParameter = 4 << 10  // length of one parameter; the codes of some providers have 2 KiB
)

// redirectQuery parses the parameters of a redirect. It returns false if they are longer than those
// of any provider, or if one occurs twice, which would be ambiguous. No part of a redirect is used
// before this check.
func redirectQuery(raw string) (query url.Values, ok bool) {
	if len(raw) > maxQuery {
		return nil, false
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, false
	}
	for name, values := range query {
		if len(values) != 1 || len(name) > maxParameter || len(values[0]) > maxParameter {
			return nil, false
		}
	}
	return query, true
}

// issued reports whether a redirect may be the provider's (RFC 9207).
func (p *Provider) issued(query url.Values) bool {
	switch {
	case !query.Has("iss"):
		return !p.RequireIssuer
	case p.RefuseIssuer:
		return false
	}
	return p.Issuer == "" || query.Get("iss") == p.Issuer
}

// cookiePrefix starts with the prefix that makes browsers require TLS and bind the cookie to the
// host. Each start page appends a part of its own address, so that a browser may have several
// authorizations in progress.
const cookiePrefix = "__Host-authorization-"

// isOpener reports whether a redirect came from the browser that opened the start page. It is true
// if there are no start pages.
func (c *Client) isOpener(r *http.Request, id string) bool {
	if c.o.Start == "" {
		return true
	}
	want := []byte(c.derived(id, forBrowser))
	return slices.ContainsFunc(r.Cookies(), func(c *http.Cookie) bool {
		return strings.HasPrefix(c.Name, cookiePrefix) && subtle.ConstantTimeCompare([]byte(c.Value), want) == 1
	})
}

// ServeStart shows the page that links to the provider.
func (c *Client) ServeStart(w http.ResponseWriter, r *http.Request) {
	secret := r.PathValue("secret")
	start := digest(secret)
	o, open := c.o.Flow.Ports.Open.Get(start)
	p := c.Provider(o.Key.Provider)
	if !open || o.Start != start || p == nil || o.Print != c.print(p) || c.o.Start == "" {
		pages.Show(w, http.StatusNotFound, pages.Invalid)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name:     cookiePrefix + secret[:8],
		Value:    c.derived(o.ID, forBrowser),
		Path:     "/",
		MaxAge:   int(c.o.UserTimeout.Seconds()),
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // the redirect comes from another site
	})
	address := c.address(p, o.ID, o.Scopes)
	to, _ := url.Parse(address) // checked by Add
	pages.Start(w, c.o.Name, to.Host, address)
}
