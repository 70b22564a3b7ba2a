package idp

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

//go:embed pages/*.html
var pageFiles embed.FS

//go:embed pages/style.css
var style []byte

// pages writes what people see.
type pages struct {
	templates *template.Template
	issuer    string
}

// A formPage is the data of the templates.
type formPage struct {
	Request  string // authorization request
	CSRF     string
	Client   string
	Message  string   // why the page is shown again
	User     string   // who logs in or logged in
	Scopes   []string // in words
	Redirect string   // host to which the answer goes
	origin   string   // the same with its scheme
}

func newPages(issuer string) (pages, error) {
	t, err := template.ParseFS(pageFiles, "pages/*.html")
	if err != nil {
		return pages{}, fmt.Errorf("idp: %w", err)
	}
	return pages{templates: t, issuer: issuer}, nil
}

// show writes a page. It renders the page before anything is sent, so that nobody
// sees half of one.
func (p pages) show(w http.ResponseWriter, status int, name string, data formPage) {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "the page could not be made", http.StatusInternalServerError)
		return
	}
	// Some browsers apply form-action to the redirects that follow a form, so the
	// consent page has to name the client to which it leads.
	h := w.Header()
	h.Set("Content-Security-Policy", strings.TrimSpace("default-src 'none'; style-src 'self'; base-uri 'none'; "+
		"frame-ancestors 'none'; form-action 'self' "+data.origin))
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	b.WriteTo(w)
}

// fail writes a page that ends an authorization without returning to the client.
func (p pages) fail(w http.ResponseWriter, reason error) {
	p.show(w, http.StatusBadRequest, "failed.html", formPage{Message: reason.Error()})
}

func (p *Provider) serveStyle(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Write(style)
}

// inWords says what a scope lets a client do.
func inWords(scope string) string {
	switch scope {
	case "openid":
		return "know that it is you"
	case "profile":
		return "see your name"
	case "offline_access":
		return "keep access until you take it back"
	}
	return scope
}
