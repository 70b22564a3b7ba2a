package idp_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/idp"
)

func TestWrongPassword(t *testing.T) {
	tl := start(t, idp.Options{})
	b := tl.p.NewBrowser()
	for _, c := range []struct{ user, password string }{{"ada", "byron"}, {"ada", ""}, {"eve", "lovelace"}, {"", ""}} {
		address, _ := tl.authURL("state")
		page, err := b.Allow(t.Context(), address, c.user, c.password)
		if !errors.Is(err, idp.ErrLogin) || !strings.Contains(page, "is not right") || !strings.Contains(page, "<form") {
			t.Errorf("Allow as %q = %v, page %q", c.user, err, page)
		}
		if strings.Contains(page, "byron") {
			t.Error("the page repeats the password")
		}
	}
	if len(tl.callbacks) != 0 {
		t.Error("the tool was called")
	}
}

// A visitor is a browser without automation: the test makes each of its requests.
type visitor struct {
	*tool
	jar http.CookieJar
}

func (tl *tool) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		tl.t.Fatal(err)
	}
	c := *tl
	client := *tl.client
	client.Jar = jar
	c.client = &client
	return &visitor{&c, jar}
}

// follow loads a page and follows its redirects within the provider.
func (v *visitor) follow(address string) (*http.Response, string) {
	resp, page := v.get(address)
	for resp.StatusCode == http.StatusFound || resp.StatusCode == http.StatusSeeOther {
		to, err := resp.Location()
		if err != nil || !strings.HasPrefix(to.String(), v.p.Issuer()) {
			break
		}
		resp, page = v.get(to.String())
	}
	return resp, page
}

func (v *visitor) post(path string, form url.Values) (*http.Response, string) {
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.p.Issuer()+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(req)
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// fields returns the hidden fields of a page.
func fields(page string) url.Values {
	v := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		v.Set(m[1], m[2])
	}
	return v
}

func with(v url.Values, pairs ...string) url.Values {
	c := url.Values{}
	for k := range v {
		c.Set(k, v.Get(k))
	}
	for i := 0; i < len(pairs); i += 2 {
		c.Set(pairs[i], pairs[i+1])
	}
	return c
}

func TestFormsBelongToABrowser(t *testing.T) {
	tl := start(t, idp.Options{})
	me, other := tl.visitor(), tl.visitor()
	address, _ := tl.authURL("state")
	resp, page := me.follow(address)
	form := with(fields(page), "username", "ada", "password", "lovelace")
	other.follow(resp.Request.URL.String()) // so that it has a session of its own

	refused := func(what string, resp *http.Response) {
		t.Helper()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", what, resp.StatusCode)
		}
	}
	resp, _ = me.post("/login", with(form, "csrf", ""))
	refused("no CSRF token", resp)
	resp, _ = other.post("/login", form)
	refused("CSRF token of another browser", resp)
	resp, _ = tl.visitor().post("/login", form)
	refused("no cookie", resp)

	resp, _ = me.post("/login", form)
	consent, err := resp.Location()
	if err != nil {
		t.Fatalf("login: status %d: %v", resp.StatusCode, err)
	}
	resp, _ = other.get(consent.String())
	refused("consent page in another browser", resp)
	_, page = me.get(consent.String())
	form = fields(page)
	resp, _ = me.post("/consent", with(form, "csrf", "guess", "decision", "allow"))
	refused("consent without the CSRF token", resp)
	resp, _ = other.post("/consent", with(form, "decision", "allow"))
	refused("consent by another browser", resp)

	resp, _ = me.post("/consent", with(form, "decision", "allow"))
	callback, err := resp.Location()
	if err != nil {
		t.Fatalf("consent: status %d: %v", resp.StatusCode, err)
	}
	resp, _ = other.get(callback.String())
	refused("code for another browser", resp)
	resp, _ = me.get(callback.String())
	if to, err := resp.Location(); err != nil || to.Query().Get("code") == "" {
		t.Errorf("callback: status %d, %v", resp.StatusCode, err)
	}
	resp, _ = me.get(callback.String())
	refused("a second code for one consent", resp)
}

func TestConsentComesFirst(t *testing.T) {
	tl := start(t, idp.Options{})
	me := tl.visitor()
	address, _ := tl.authURL("state")
	_, page := me.follow(address)
	form := fields(page)
	id := form.Get("request")
	for _, path := range []string{"/consent?request=", "/authorize/callback?id="} {
		if resp, _ := me.get(tl.p.Issuer() + path + id); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s before login: status %d, want 400", path, resp.StatusCode)
		}
	}
	me.post("/login", with(form, "username", "ada", "password", "lovelace"))
	resp, _ := me.get(tl.p.Issuer() + "/authorize/callback?id=" + id)
	if to, err := resp.Location(); err == nil && to.Query().Has("code") {
		t.Error("a code was issued without consent")
	}
}

func TestGuessingEnds(t *testing.T) {
	tl := start(t, idp.Options{})
	me := tl.visitor()
	address, _ := tl.authURL("state")
	_, page := me.follow(address)
	form := with(fields(page), "username", "ada")
	for i := range 10 {
		resp, _ := me.post("/login", with(form, "password", fmt.Sprint(i)))
		if want := map[bool]int{true: 400, false: 422}[i == 9]; resp.StatusCode != want {
			t.Errorf("guess %d: status %d, want %d", i, resp.StatusCode, want)
		}
	}
	if resp, _ := me.post("/login", with(form, "password", "lovelace")); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("after the guesses: status %d, want 400", resp.StatusCode)
	}
}

func TestPagesAreGuarded(t *testing.T) {
	tl := start(t, idp.Options{})
	me := tl.visitor()
	address, _ := tl.authURL("state")
	login, page := me.follow(address)
	me.post("/login", with(fields(page), "username", "ada", "password", "lovelace"))
	consent, _ := me.get(tl.p.Issuer() + "/consent?request=" + fields(page).Get("request"))
	for name, resp := range map[string]*http.Response{"login": login, "consent": consent} {
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
		csp := resp.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %q", name, csp, want)
			}
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be cached", name)
		}
	}
	u, _ := url.Parse(tl.config.RedirectURL)
	if csp := consent.Header.Get("Content-Security-Policy"); !strings.HasSuffix(csp, "form-action 'self' http://"+u.Host) {
		t.Errorf("policy %q does not let the consent form lead to %s", csp, u.Host)
	}
	cookie := me.jar.Cookies(login.Request.URL)
	if len(cookie) != 1 || !strings.HasPrefix(cookie[0].Name, "__Host-idp-") {
		t.Errorf("cookies = %v", cookie)
	}
	if resp, css := tl.get(tl.p.Issuer() + "/style.css"); resp.StatusCode != http.StatusOK || !strings.Contains(css, "font") {
		t.Errorf("style: status %d", resp.StatusCode)
	}
}

func TestBrowserReportsWhatIsWrong(t *testing.T) {
	tl := start(t, idp.Options{})
	b := tl.p.NewBrowser()
	var pe *idp.PageError
	if _, err := b.Allow(t.Context(), tl.p.Issuer()+"/nowhere?code=hush", "ada", "lovelace"); !errors.Is(err, idp.ErrNoForm) || !errors.As(err, &pe) || pe.Status != http.StatusNotFound {
		t.Errorf("a page that is not there: %v", err)
	} else if strings.Contains(err.Error(), "hush") {
		t.Errorf("the error repeats the query: %v", err)
	}
	if _, err := b.Allow(t.Context(), tl.config.RedirectURL, "ada", "lovelace"); !errors.Is(err, idp.ErrNoForm) {
		t.Errorf("a page without a form: %v", err)
	}
	if _, err := b.Open(t.Context(), "http://example.com/?code=hush"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("plain http beyond loopback: %v", err)
	}
	if _, err := b.Open(t.Context(), "http://127.0.0.1:1/?code=hush"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("nobody listens: %v", err)
	}
	if page, err := b.Open(t.Context(), tl.config.RedirectURL+"?x=y"); err != nil || page == "" {
		t.Errorf("Open = %q, %v", page, err)
	}
}
