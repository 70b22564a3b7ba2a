package idp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/edge"
)

var errForm = errors.New("this form was not made for this browser")

// cookieName returns a name that differs between providers, since cookies do not
// distinguish the ports of a host.
func (p *Provider) cookieName() string {
	u, _ := url.Parse(p.issuer) // made from a listener's address
	return "__Host-idp-" + u.Port()
}

// session returns the identifier of the browser, or "" if it has none.
func (p *Provider) session(r *http.Request) string {
	c, err := r.Cookie(p.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

// csrf returns the token in the forms of one authorization in one browser.
// Another site can make the browser send a form, but cannot know this token.
func (p *Provider) csrf(session, request string) string {
	mac := hmac.New(sha256.New, p.csrfKey[:])
	mac.Write([]byte(session + "|" + request))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// showLogin serves the page to which the authorization endpoint redirects.
func (p *Provider) showLogin(w http.ResponseWriter, r *http.Request) {
	req, err := p.store.request(r.URL.Query().Get("request"))
	if err != nil {
		p.pages.fail(w, err)
		return
	}
	session := p.session(r)
	if session == "" {
		session = randomText()
		http.SetCookie(w, &http.Cookie{
			Name: p.cookieName(), Value: session, Path: "/",
			Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	p.loginPage(w, req, session, formPage{})
}

func (p *Provider) loginPage(w http.ResponseWriter, req *authRequest, session string, page formPage) {
	status := http.StatusOK
	if page.Message != "" {
		status = http.StatusUnprocessableEntity
	}
	page.Request, page.CSRF, page.Client = req.id, p.csrf(session, req.id), req.clientID
	p.pages.show(w, status, "login.html", page)
}

// form reads a submitted form. It refuses a form that another site has sent.
func (p *Provider) form(w http.ResponseWriter, r *http.Request) (req *authRequest, session string, err error) {
	if r.PostForm, err = edge.ReadForm(w, r); err != nil {
		return nil, "", errForm
	}
	id := r.PostForm.Get("request")
	session = p.session(r)
	if session == "" || !sameText(r.PostForm.Get("csrf"), p.csrf(session, id)) {
		return nil, "", errForm
	}
	req, err = p.store.request(id)
	return req, session, err
}

// logIn handles the login form.
func (p *Provider) logIn(w http.ResponseWriter, r *http.Request) {
	req, session, err := p.form(w, r)
	if err != nil {
		p.pages.fail(w, err)
		return
	}
	user := r.PostForm.Get("username")
	err = p.store.logIn(req.id, session, user, r.PostForm.Get("password"))
	switch {
	case errors.Is(err, ErrLogin):
		p.loginPage(w, req, session, formPage{User: user, Message: "That user name or password is not right."})
	case err != nil:
		p.pages.fail(w, err)
	default:
		to := p.issuer + pathConsent + "?" + url.Values{"request": {req.id}}.Encode()
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// showConsent serves the consent page after the login.
func (p *Provider) showConsent(w http.ResponseWriter, r *http.Request) {
	req, err := p.store.request(r.URL.Query().Get("request"))
	session := p.session(r)
	if err != nil || req.session == "" || req.session != session {
		p.pages.fail(w, errNoRequest)
		return
	}
	page := formPage{Request: req.id, CSRF: p.csrf(session, req.id), Client: req.clientID, User: p.store.userName(req.subject)}
	for _, s := range req.scopes {
		page.Scopes = append(page.Scopes, inWords(s))
	}
	if u, err := url.Parse(req.redirectURI); err == nil {
		page.Redirect, page.origin = u.Host, u.Scheme+"://"+u.Host
	}
	p.pages.show(w, http.StatusOK, "consent.html", page)
}

// consent handles the consent form. The client receives the answer either way.
func (p *Provider) consent(w http.ResponseWriter, r *http.Request) {
	req, session, err := p.form(w, r)
	if err != nil {
		p.pages.fail(w, err)
		return
	}
	allow := r.PostForm.Get("decision") == "allow"
	if req, err = p.store.decide(req.id, session, allow); err != nil {
		p.pages.fail(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if allow {
		to := p.issuer + pathCallback + "?" + url.Values{"id": {req.id}}.Encode()
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	to, err := url.Parse(req.redirectURI)
	if err != nil {
		p.pages.fail(w, errNoRequest)
		return
	}
	q := to.Query()
	q.Set("error", "access_denied")
	q.Set("error_description", "the user did not consent")
	if req.state != "" {
		q.Set("state", req.state)
	}
	to.RawQuery = q.Encode()
	http.Redirect(w, r, p.withIssuer(to).String(), http.StatusSeeOther)
}
