package idp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/edge"
)

// maxPage limits the size of the pages that a Browser reads, and maxRedirects the
// number of redirects.
const (
	maxPage      = 1 << 20
	maxRedirects = 10
)

// A Browser is a user agent without a window. It loads the pages of an
// authorization, fills in their forms, keeps cookies and follows redirects, which
// is all that a person's browser does for it.
//
// It trusts the provider that made it, and plain http on loopback. One Browser is
// one person at one machine: make another one for another person.
type Browser struct {
	issuer string
	client *http.Client
}

// NewBrowser returns a browser without cookies.
func (p *Provider) NewBrowser() *Browser {
	transport := edge.Outbound{Dial: new(net.Dialer).DialContext, TLS: &tls.Config{RootCAs: p.CertPool()}}.Transport()
	transport.DisableKeepAlives = true // there are many short-lived browsers
	client := edge.NewClient(transport).Standard(0, 0)
	client.Jar, _ = cookiejar.New(nil) // never fails
	return &Browser{issuer: p.issuer, client: client}
}

// A document is the answer to a request.
type document struct {
	url    *url.URL // after redirects
	status int
	next   *url.URL // a redirect that was not followed
	page   string
}

// Allow goes through an authorization and consents. It returns the page to which
// the last redirect led, usually the tool's.
//
// The error is [ErrLogin] if the password is wrong, and a [*PageError] if a page
// on the way, or the last one, has a status of 400 or more. In the latter case the
// page is returned as well.
func (b *Browser) Allow(ctx context.Context, authURL, user, password string) (page string, err error) {
	return b.finish(ctx, authURL, user, password, "allow")
}

// Deny is like [Browser.Allow], but does not consent. The tool receives
// error=access_denied.
func (b *Browser) Deny(ctx context.Context, authURL, user, password string) (page string, err error) {
	return b.finish(ctx, authURL, user, password, "deny")
}

func (b *Browser) finish(ctx context.Context, authURL, user, password, decision string) (string, error) {
	d, err := b.authorize(ctx, authURL, user, password, decision, true)
	if err != nil {
		return d.page, err
	}
	return d.page, d.failure()
}

// Grant is like [Browser.Allow], but stops before the redirect to the tool and
// returns its target. A test can change the code or the state and go there with
// [Browser.Open], or not go there at all.
func (b *Browser) Grant(ctx context.Context, authURL, user, password string) (*url.URL, error) {
	d, err := b.authorize(ctx, authURL, user, password, "allow", false)
	if err != nil {
		return nil, err
	}
	if d.next == nil {
		return nil, errors.Join(ErrNoForm, d.failure())
	}
	return d.next, nil
}

// Open loads a page, following redirects.
func (b *Browser) Open(ctx context.Context, address string) (page string, err error) {
	d, err := b.load(ctx, http.MethodGet, address, nil, true)
	if err != nil {
		return "", err
	}
	return d.page, d.failure()
}

// authorize logs in and answers the consent form. If away is false, it does not
// follow the redirect that leaves the provider.
func (b *Browser) authorize(ctx context.Context, authURL, user, password, decision string, away bool) (document, error) {
	d, err := b.load(ctx, http.MethodGet, authURL, nil, true)
	if err != nil {
		return d, err
	}
	login, err := d.form(form.isLogin)
	if err != nil {
		return d, err
	}
	d, err = b.submit(ctx, d, login, login.values(map[string]string{"text": user, "password": password}), true)
	if err != nil {
		return d, err
	}
	if again := parseForms(d.page); slices.ContainsFunc(again, form.isLogin) {
		return d, ErrLogin
	}
	consent, err := d.form(func(f form) bool { _, ok := f.button(decision); return ok })
	if err != nil {
		return d, err
	}
	values := consent.values(nil)
	button, _ := consent.button(decision)
	values.Set(button.name, button.value)
	return b.submit(ctx, d, consent, values, away)
}

func (f form) isLogin() bool { return f.has("text") && f.has("password") }

// form finds a form on the page.
func (d document) form(is func(form) bool) (form, error) {
	forms := parseForms(d.page)
	i := slices.IndexFunc(forms, is)
	if i < 0 {
		return form{}, errors.Join(ErrNoForm, d.failure())
	}
	return forms[i], nil
}

// failure returns a PageError if the page is one.
func (d document) failure() error {
	if d.status < http.StatusBadRequest {
		return nil
	}
	return &PageError{URL: bare(d.url), Status: d.status, Page: d.page}
}

func (b *Browser) submit(ctx context.Context, on document, f form, values url.Values, away bool) (document, error) {
	action, err := on.url.Parse(f.action)
	if err != nil {
		return on, fmt.Errorf("idp: form of %s: %w", bare(on.url), err)
	}
	method := http.MethodPost
	if f.method != "post" {
		method = http.MethodGet
	}
	return b.load(ctx, method, action.String(), values, away)
}

// load sends a request and reads the answer.
func (b *Browser) load(ctx context.Context, method, address string, values url.Values, away bool) (document, error) {
	body := io.Reader(http.NoBody)
	if method == http.MethodPost {
		body = strings.NewReader(values.Encode())
	} else if len(values) > 0 {
		address += "?" + values.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return document{}, errors.New("idp: the address cannot be parsed")
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "text/html")
	if err := allowed(req.URL); err != nil {
		return document{}, err
	}
	client := *b.client
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case !away && r.URL.Scheme+"://"+r.URL.Host != b.issuer:
			return http.ErrUseLastResponse
		case len(via) > maxRedirects:
			return errors.New("too many redirects")
		}
		return allowed(r.URL)
	}
	resp, err := client.Do(req)
	if err != nil {
		return document{}, withoutQuery(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err != nil {
		return document{}, fmt.Errorf("idp: %s: %w", bare(resp.Request.URL), err)
	}
	d := document{url: resp.Request.URL, status: resp.StatusCode, page: string(text)}
	if next, err := resp.Location(); err == nil {
		d.next = next
	}
	return d, nil
}

// allowed returns an error if a request to u would carry a code in the clear.
func allowed(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u) {
		return nil
	}
	return fmt.Errorf("%s is neither https nor http on loopback", bare(u))
}

// bare returns an address without its query, which may contain codes.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// withoutQuery removes the query from a client's error.
func withoutQuery(err error) error {
	var ue *url.Error
	if !errors.As(err, &ue) {
		return err
	}
	at := "the page"
	if u, perr := url.Parse(ue.URL); perr == nil {
		at = bare(u)
	}
	return fmt.Errorf("idp: %s %s: %w", strings.ToLower(ue.Op), at, ue.Err)
}
