package conform

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// A browser is the browser of one user: it keeps cookies, follows redirects and links, and fills in
// forms.
type browser struct {
	run    *toolRun
	client *http.Client
}

func (c *toolCase) browser() *browser {
	jar, _ := cookiejar.New(nil) // never fails
	client := *c.client
	client.Jar = jar
	return &browser{run: c.toolRun, client: &client}
}

// A page is what the browser has loaded.
type page struct {
	url    *url.URL
	status int
	header http.Header
	text   string
	next   *url.URL // where it redirects to
}

func (p *page) String() string {
	return fmt.Sprintf("a page with status %d: %s", p.status, clip(p.text, 300))
}

// load requests a page, without following its redirect.
func (b *browser) load(ctx context.Context, method, address string, form url.Values) (*page, error) {
	body := io.Reader(http.NoBody)
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else if len(form) > 0 {
		address += "?" + form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return nil, err
	}
	p := &page{url: resp.Request.URL, status: resp.StatusCode, header: resp.Header, text: string(data)}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		p.next, _ = resp.Location()
	}
	return p, nil
}

// open loads a page of the tool server and follows its redirects. The page is kept for the search
// for tokens.
func (b *browser) open(ctx context.Context, address string) (*page, error) {
	for range 10 {
		p, err := b.load(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		if p.next == nil {
			b.run.mu.Lock()
			b.run.pages = append(b.run.pages, fmt.Sprint(p.header)+p.text)
			b.run.mu.Unlock()
			return p, nil
		}
		address = p.next.String()
	}
	return nil, errors.New("too many redirects")
}

// decide goes through an authorization: it logs in as a user and presses the button. It returns the
// redirect that leads back to the tool server, without following it.
func (b *browser) decide(ctx context.Context, authURL string, user OAuthUser, button string) (*url.URL, error) {
	p, err := b.load(ctx, http.MethodGet, authURL, nil)
	for range 20 {
		if err != nil {
			return nil, err
		}
		if p.next != nil {
			if q := p.next.Query(); q.Get("state") != "" && (q.Get("code") != "" || q.Get("error") != "") {
				return p.next, nil
			}
			p, err = b.load(ctx, http.MethodGet, p.next.String(), nil)
			continue
		}
		if p.status >= 400 {
			return nil, errors.New(p.String())
		}
		forms, link := elements(p.text)
		var to *url.URL
		switch f, values := chooseForm(forms, user, button); {
		case f != nil:
			if to, err = p.url.Parse(f.action); err == nil {
				p, err = b.load(ctx, f.method, to.String(), values)
			}
		case link != "":
			if to, err = p.url.Parse(link); err == nil {
				p, err = b.load(ctx, http.MethodGet, to.String(), nil)
			}
		default:
			err = fmt.Errorf("the page has neither a form for the user nor a link: %s", clip(p.text, 300))
		}
	}
	return nil, errors.New("the authorization has too many pages")
}

// chooseForm returns the form to fill in and the values to submit.
func chooseForm(forms []form, user OAuthUser, button string) (*form, url.Values) {
	for i, f := range forms {
		v := url.Values{}
		login, pressed := false, false
		for _, x := range f.fields {
			switch {
			case x.kind == "password":
				login = true
				v.Set(x.name, user.Password)
			case x.kind == "text" || x.kind == "email":
				v.Set(x.name, user.Name)
			case x.kind == "submit":
				if x.value == button {
					pressed = true
					v.Set(x.name, x.value)
				}
			case x.name != "":
				v.Add(x.name, x.value)
			}
		}
		if login || pressed {
			return &forms[i], v
		}
	}
	return nil, nil
}

// A form is one form of a page.
type form struct {
	action, method string
	fields         []struct{ kind, name, value string }
}

// elements finds the forms of a page, and its first link.
func elements(text string) (forms []form, link string) {
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	inside := false
	for {
		token, err := d.Token()
		if err != nil {
			return forms, link
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch name := strings.ToLower(t.Name.Local); {
			case name == "a" && link == "":
				link = attr(t, "href")
			case name == "form":
				inside = true
				method := http.MethodGet
				if strings.EqualFold(attr(t, "method"), http.MethodPost) {
					method = http.MethodPost
				}
				forms = append(forms, form{action: attr(t, "action"), method: method})
			case inside && (name == "input" || name == "button"):
				kind := strings.ToLower(attr(t, "type"))
				if kind == "" {
					kind = map[string]string{"input": "text", "button": "submit"}[name]
				}
				f := &forms[len(forms)-1]
				f.fields = append(f.fields, struct{ kind, name, value string }{kind, attr(t, "name"), attr(t, "value")})
			}
		case xml.EndElement:
			if strings.EqualFold(t.Name.Local, "form") {
				inside = false
			}
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if strings.EqualFold(a.Name.Local, name) {
			return a.Value
		}
	}
	return ""
}
