package toolserver

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

// serveRedirect receives the user coming back from a provider. Nothing that the
// redirect says is shown, logged or followed.
func (s *Server) serveRedirect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the mux takes HEAD for GET, but a state is used up only once
		w.Header().Set("Allow", http.MethodGet)
		pages.Show(w, http.StatusMethodNotAllowed, pages.Invalid)
		return
	}
	p := s.providers[r.PathValue("provider")]
	query, ok := redirectQuery(r.URL.RawQuery)
	if p == nil || !ok {
		pages.Show(w, http.StatusBadRequest, pages.Invalid)
		return
	}
	state := digestOf(query.Get("state"))
	o, open := s.flow.Ports.Open.Get(state)
	if !open || o.State != state || o.Key.Provider != p.ID || o.Print != s.print(p) || !s.isOpener(r, o.ID) {
		pages.Show(w, http.StatusBadRequest, pages.Invalid)
		return
	}
	back := authorize.Redirect{ID: o.ID, State: state}
	switch {
	case !p.issued(query):
		s.log.Warn("redirect refused: it is another issuer's", "provider", p.ID)
		back.Refused = authorize.Failed
	case query.Get("error") == "access_denied":
		back.Refused = authorize.Denied
	case query.Get("error") != "" || query.Get("code") == "":
		s.log.Warn("authorization failed at the provider", "provider", p.ID)
		back.Refused = authorize.Failed
	default:
		back.Code = rand.Text()
		if err := s.state.Transit.Put(back.Code, transitText{Code: query.Get("code")}.encode()); err != nil {
			s.log.Error("code not kept", "provider", p.ID, "error", err)
			pages.Show(w, http.StatusInternalServerError, pages.Failed)
			return
		}
	}
	s.showOutcome(w, s.back(o, back), back)
}

// back tells the flow of a user who came back, and returns what came of it. It does not depend on
// the browser staying connected.
func (s *Server) back(o authorize.Opened, back authorize.Redirect) authorize.Told {
	ctx, stop := context.WithTimeoutCause(s.ctx, 2*s.opts.ProviderTimeout+running.AskTimeout, running.ErrFlow)
	defer stop()
	told, err := s.flow.Authorize(ctx, o.Runtime, authorize.In{Redirect: &back})
	switch {
	case err != nil:
		s.log.Error("outcome of an authorization is not in the state", "provider", o.Key.Provider, "error", err)
		told.Class = authorize.Lost
	case told.Class == authorize.Over && back.Code != "": // somebody else was first; what the flow has taken it deletes
		if _, needed := s.flow.Ports.Codes.Get(back.Code); !needed {
			s.state.Transit.Delete(back.Code)
		}
	}
	return told
}

// showOutcome shows what came of an authorization.
func (s *Server) showOutcome(w http.ResponseWriter, told authorize.Told, back authorize.Redirect) {
	switch told.Class {
	case authorize.Good:
		pages.Show(w, http.StatusOK, pages.Done)
	case authorize.Unconfirmed:
		if u := s.unconfirmed.get(told.ID); u != nil {
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
	maxQuery     = 16 << 10 // bytes of what follows the question mark of a redirect
	maxParameter = 4 << 10  // bytes of one parameter; codes of some providers have 2 KiB
)

// redirectQuery reads the parameters of a redirect. It reports false if they are larger than
// those of any provider, or if one is there twice: which one would count? Nothing of a
// redirect is looked at before.
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
func (p *provider) issued(query url.Values) bool {
	if p.Issuer == "" {
		return true
	}
	if !query.Has("iss") {
		return !p.RequireIssuer
	}
	return query.Get("iss") == p.Issuer
}

// cookiePrefix begins with what makes browsers insist on TLS and on the host. Each
// start page adds some of its own address, so that a browser may have several
// authorizations under way.
const cookiePrefix = "__Host-authorization-"

// isOpener reports whether a redirect came in the browser that has opened the start page.
func (s *Server) isOpener(r *http.Request, id string) bool {
	if s.opts.NoStartPage {
		return true
	}
	want := []byte(s.derived(id, forBrowser))
	return slices.ContainsFunc(r.Cookies(), func(c *http.Cookie) bool {
		return strings.HasPrefix(c.Name, cookiePrefix) && subtle.ConstantTimeCompare([]byte(c.Value), want) == 1
	})
}

// serveStart shows the page that leads to the provider.
func (s *Server) serveStart(w http.ResponseWriter, r *http.Request) {
	secret := r.PathValue("secret")
	start := digestOf(secret)
	o, open := s.flow.Ports.Open.Get(start)
	p := s.providers[o.Key.Provider]
	if !open || o.Start != start || p == nil || o.Print != s.print(p) || s.opts.NoStartPage {
		pages.Show(w, http.StatusNotFound, pages.Invalid)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name:     cookiePrefix + secret[:8],
		Value:    s.derived(o.ID, forBrowser),
		Path:     "/",
		MaxAge:   int(s.opts.OAuthTimeout.Seconds()),
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // the redirect comes from another site
	})
	address := s.address(p, o.ID, o.Scopes)
	to, _ := url.Parse(address) // checked by addProvider
	pages.Start(w, s.opts.Name, to.Host, address)
}
