// Package pages shows users the pages of an authorization. Their texts are fixed.
package pages

import (
	"html/template"
	"net/http"
)

// A Page is the content of a page.
type Page struct{ Title, Text string }

// The pages.
var (
	Done      = Page{"Authorized", "The access is authorized. You can close this window."}
	Denied    = Page{"Not authorized", "The access was not authorized. You can close this window."}
	Failed    = Page{"Not authorized", "The authorization failed. You can close this window."}
	OtherUser = Page{"Not authorized", "The access was authorized by somebody else than the user who asked for it. You can close this window."}
	Invalid   = Page{"Not valid", "This address is not valid, or no longer valid. You can close this window."}
)

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>{{.Title}}</title>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
`))

var startTemplate = template.Must(template.New("start").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Authorization</title>
<h1>Authorization</h1>
<p>{{.Name}} asks for access to your account at {{.Host}}. Go on only if you have just asked for it yourself.</p>
<p><a href="{{.Address}}" rel="noreferrer">Continue to {{.Host}}</a></p>
`))

var codeTemplate = template.Must(template.New("code").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Confirm</title>
<h1>Confirm</h1>
<p>If you have asked for this access yourself, go back to where you did. You will be asked for these numbers:</p>
<p><strong>{{range .}}{{.}} {{end}}</strong></p>
<p>Tell them to nobody. If you were sent here by somebody, close this window: nothing is authorized.</p>
`))

// Code shows the page with the code that the user has to pick.
func Code(w http.ResponseWriter, code []int) {
	header(w.Header())
	codeTemplate.Execute(w, code)
}

// Show shows a page.
func Show(w http.ResponseWriter, status int, p Page) {
	header(w.Header())
	w.WriteHeader(status)
	pageTemplate.Execute(w, p)
}

// Start shows the page that links to the provider.
func Start(w http.ResponseWriter, name, host, address string) {
	header(w.Header())
	startTemplate.Execute(w, struct{ Name, Host, Address string }{name, host, address})
}

// header sets headers that forbid everything that a page of text does not need.
func header(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store")
}
