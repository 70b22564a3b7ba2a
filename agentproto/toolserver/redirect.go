package toolserver

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// serveRedirect receives the user coming back from a provider. Nothing that the
// redirect says is shown, logged or followed.
func (s *Server) serveRedirect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // the mux takes HEAD for GET, but a state is used up only once
		w.Header().Set("Allow", http.MethodGet)
		showPage(w, http.StatusMethodNotAllowed, pageInvalid)
		return
	}
	p := s.providers[r.PathValue("provider")]
	query, ok := redirectQuery(r.URL.RawQuery)
	if p == nil || !ok {
		showPage(w, http.StatusBadRequest, pageInvalid)
		return
	}
	a, err := s.states.take(query.Get("state"), p, s.cookies(r))
	if a == nil {
		showPage(w, http.StatusBadRequest, pageInvalid)
		return
	}
	// From here on the state is used up and the call gets its outcome.
	switch {
	case err != nil:
		s.log.Error("state not used up", "provider", p.ID, "error", err)
		a.done <- outcome{err: errAuthFailed}
		showPage(w, http.StatusInternalServerError, pageFailed)
	case !p.issued(query):
		s.log.Warn("redirect refused: it is another issuer's", "provider", p.ID)
		a.done <- outcome{err: errAuthFailed}
		showPage(w, http.StatusBadRequest, pageFailed)
	case query.Get("error") == "access_denied":
		a.done <- outcome{err: errDenied}
		showPage(w, http.StatusOK, pageDenied)
	case query.Get("error") != "" || query.Get("code") == "":
		s.log.Warn("authorization failed at the provider", "provider", p.ID)
		a.done <- outcome{err: errAuthFailed}
		showPage(w, http.StatusBadRequest, pageFailed)
	default:
		o := s.exchange(a, query.Get("code"))
		a.done <- o
		switch {
		case errors.Is(o.err, errOtherUser):
			showPage(w, http.StatusForbidden, pageOtherUser)
		case o.err != nil:
			showPage(w, http.StatusBadGateway, pageFailed)
		case o.token != nil:
			showCode(w, o.code)
		default:
			showPage(w, http.StatusOK, pageDone)
		}
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

// cookies returns what start pages have given to the browser.
func (s *Server) cookies(r *http.Request) (values []string) {
	if s.opts.NoStartPage {
		return []string{""}
	}
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, cookiePrefix) {
			values = append(values, c.Value)
		}
	}
	return values
}

// serveStart shows the page that leads to the provider.
func (s *Server) serveStart(w http.ResponseWriter, r *http.Request) {
	secret := r.PathValue("secret")
	a := s.states.begin(secret)
	if a == nil || s.opts.NoStartPage {
		showPage(w, http.StatusNotFound, pageInvalid)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name:     cookiePrefix + secret[:8],
		Value:    a.Browser,
		Path:     "/",
		MaxAge:   int(s.opts.OAuthTimeout.Seconds()),
		Secure:   true,
		HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // the redirect comes from another site
	})
	address := a.address()
	to, _ := url.Parse(address) // checked by addProvider
	showStart(w, s.opts.Name, to.Host, address)
}
