package mcptools_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
	"github.com/millrace/millrace/internal/idp"
	"github.com/millrace/millrace/internal/netguard/netguardtest"
)

// A protected is an MCP server that requires a token of a provider for every request.
type protected struct {
	*remote
	*desk
	idp      *idp.Provider
	metadata atomic.Pointer[string] // the address that the challenge names
	resource atomic.Pointer[string] // the resource that the metadata describes
	issuers  atomic.Pointer[string] // the authorization server in the metadata
	stubborn atomic.Bool            // refuses every token

	redirect atomic.Pointer[string] // where the metadata redirects to

	mu        sync.Mutex
	bearers   map[string]bool
	scarce    bool   // a call needs a token other than the first one
	weak      string // the first token
	forbidden bool   // no token suffices
}

func newProtected(t *testing.T, repeat mcptools.Repeat) *protected {
	return newProtectedWith(t, idp.Options{Scopes: []string{"read", "write"}}, func(o *mcptools.Options) { o.Servers[0].Repeat = map[string]mcptools.Repeat{"hit": repeat} })
}

func newProtectedWith(t *testing.T, options idp.Options, change func(*mcptools.Options)) *protected {
	return protect(t, newRemote(t), "tools/call", options, change)
}

// protect makes a server a protected one. It is scarce with the requests of one method.
func protect(t *testing.T, r *remote, method string, options idp.Options, change func(*mcptools.Options)) *protected {
	p := &protected{remote: r, bearers: map[string]bool{}}
	provider, err := idp.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	p.idp = provider
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: provider.CertPool()}}}
	open := p.remote.Config.Handler
	p.remote.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource/mcp") {
			if to := p.redirect.Load(); to != nil && *to != "" {
				http.Redirect(w, r, *to, http.StatusFound)
				return
			}
			if hops, err := strconv.Atoi(r.URL.Query().Get("hops")); err == nil && hops > 0 {
				http.Redirect(w, r, r.URL.Path+"?hops="+strconv.Itoa(hops-1), http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": *p.resource.Load(), "authorization_servers": []string{*p.issuers.Load()}, "scopes_supported": []string{"openid", "read"}})
			return
		}
		bearer := r.Header.Get("Authorization")
		asks, err := http.NewRequestWithContext(r.Context(), http.MethodGet, provider.UserInfoURL(), nil)
		if err != nil {
			t.Error(err)
			return
		}
		asks.Header.Set("Authorization", bearer)
		if res, err := client.Do(asks); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK && !p.stubborn.Load() {
				p.mu.Lock()
				p.bearers[bearer] = true
				weak := p.scarce && (p.weak == "" || p.weak == bearer || p.forbidden) && methodOf(t, r) == method
				if weak {
					p.weak = bearer
				}
				p.mu.Unlock()
				if weak {
					w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write", resource_metadata="`+*p.metadata.Load()+`"`)
					w.WriteHeader(http.StatusForbidden)
					return
				}
				open.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+*p.metadata.Load()+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	set := func(at *atomic.Pointer[string], text string) { at.Store(&text) }
	set(&p.metadata, p.URL+"/.well-known/oauth-protected-resource/mcp")
	set(&p.resource, p.URL+"/mcp")
	set(&p.issuers, provider.Issuer())
	var pages atomic.Pointer[http.Handler]
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*pages.Load()).ServeHTTP(w, r) }))
	t.Cleanup(public.Close)
	p.desk = newDesk(t, func(o *mcptools.Options) {
		o.Servers[0] = mcptools.Server{Name: "p", URL: p.URL + "/mcp", OAuth: &mcptools.OAuth{
			ClientID: idp.DefaultClientID, Issuer: provider.Issuer(), UnsafeAnyoneMayAuthorize: "this is a test",
		}}
		o.PublicURL, o.RootCAs, o.AllowNetworks = public.URL, provider.CertPool(), []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		change(o)
	})
	h := p.set.Pages()
	pages.Store(&h)
	if to := p.set.RedirectURI("p"); to != "" {
		provider.RegisterRedirect(idp.DefaultClientID, to)
	}
	return p
}

// detour lets the user of the next message authorize, and returns the last page.
func (p *protected) detour() (page string, err error) {
	p.t.Helper()
	m := p.next()
	o, ok := m.(*agentproto.OAuth)
	if !ok {
		p.t.Fatalf("%+v does not ask the user", m)
	}
	if !strings.Contains(o.AuthURL, "resource=") || !strings.HasPrefix(o.AuthURL, p.idp.AuthURL()) {
		p.t.Errorf("the user is sent to %s", o.AuthURL)
	}
	return p.idp.NewBrowser().Allow(p.t.Context(), o.AuthURL, "ada", "lovelace")
}

// TestMB25_OAuth signs users in to a server that requires a token for every request. The test fails if a call fails instead of
// asking, if another user gets the token, if a user is asked although the token can be renewed, or is not asked when it cannot.
func TestMB25_OAuth(t *testing.T) {
	p := newProtected(t, mcptools.IfSafe)
	if m := p.manifest(); len(m.Tools) != 1 || m.Tools[0].Name != "p_sign_in" {
		t.Fatalf("tools before anybody has signed in: %+v", m.Tools)
	}
	authorize := func() {
		t.Helper()
		if page, err := p.detour(); err != nil {
			t.Fatalf("%v: %s", err, page)
		}
	}
	p.call("ada", "one", "sign_in", "{}")
	authorize()
	p.want("signing in", "p can be used now. Its tools are, in conversations that begin from now on: p_hit")
	if m := p.manifest(); len(m.Tools) != 2 {
		t.Errorf("tools afterwards: %+v", m.Tools)
	}
	p.call("ada", "two", "hit", "{}")
	p.want("a call of the same user", "hit")
	p.call("bob", "three", "hit", "{}")
	authorize()
	p.want("a call of another user", "hit")
	if len(p.bearers) != 2 {
		t.Errorf("two users have %d tokens", len(p.bearers))
	}
	p.idp.ExpireTokens("ada")
	p.call("ada", "four", "hit", "{}")
	p.want("a call when the token has expired", "hit")
	if n := p.idp.Refreshes(); n != 1 {
		t.Errorf("it was renewed %d times", n)
	}
	p.idp.ExpireTokens("ada")
	p.idp.RevokeRefresh("ada")
	p.call("ada", "five", "hit", "{}")
	authorize()
	p.want("a call when the access was revoked", "hit")
	if n := p.calls.Load(); n != 4 {
		t.Errorf("four calls were carried out %d times", n)
	}
}

// TestMB25_StepUp has a server require another scope for a call than for listing tools, and then refuse every token. The test
// fails if the user is asked for the new scope alone and loses the others, or is asked twice for a call.
func TestMB25_StepUp(t *testing.T) {
	p := newProtected(t, mcptools.Never)
	scopes := func() []string {
		t.Helper()
		o, ok := p.next().(*agentproto.OAuth)
		if !ok {
			t.Fatal("the user is not asked")
		}
		u, err := url.Parse(o.AuthURL)
		if err != nil {
			t.Fatal(err)
		}
		if page, err := p.idp.NewBrowser().Allow(t.Context(), o.AuthURL, "ada", "lovelace"); err != nil {
			t.Fatalf("%v: %s", err, page)
		}
		return slices.Sorted(slices.Values(strings.Fields(u.Query().Get("scope"))))
	}
	want := func(what string, got []string, want string) {
		t.Helper()
		if strings.Join(got, " ") != want {
			t.Errorf("%s: the user is asked for %q, not for %q", what, got, want)
		}
	}
	p.call("ada", "one", "sign_in", "{}")
	want("signing in", scopes(), "offline_access openid read")
	p.result()
	p.mu.Lock()
	p.scarce = true
	p.mu.Unlock()
	p.call("ada", "two", "hit", "{}")
	want("a call that needs more", scopes(), "offline_access openid read write")
	p.want("with more", "hit")
	p.call("bob", "three", "sign_in", "{}")
	want("another user", scopes(), "offline_access openid read")
	p.result()
	p.mu.Lock()
	p.forbidden = true
	p.mu.Unlock()
	p.call("ada", "four", "hit", "{}")
	p.want("a server that refuses the scope that it asked for", "Error: p does not permit it to the user")
	if n := p.calls.Load(); n != 1 {
		t.Errorf("one call was carried out %d times", n)
	}
}

// TestMB27_Issuer has a redirect name another issuer, or name one although the provider does not announce that it does. The code
// must not be redeemed.
func TestMB27_Issuer(t *testing.T) {
	for _, silent := range []bool{false, true} {
		p := newProtectedWith(t, idp.Options{SilentIssuer: silent}, func(*mcptools.Options) {})
		if !silent {
			p.idp.SetResponseIssuer("https://evil.example")
		}
		p.call("ada", "one", "sign_in", "{}")
		_, _ = p.detour()
		p.want("another issuer", "Error: the authorization failed")
		if n := p.idp.Exchanges(); n != 0 {
			t.Errorf("the code was sent %d times", n)
		}
	}
	p := newProtectedWith(t, idp.Options{SilentIssuer: true}, func(*mcptools.Options) {})
	p.idp.SetResponseIssuer("")
	p.call("ada", "one", "sign_in", "{}")
	if page, err := p.detour(); err != nil {
		t.Errorf("a provider that neither says so nor does it: %v, %s", err, page)
	}
}

// TestMB26_Metadata has a server name addresses that must not be contacted, or describe another resource. The error that a model
// reads must not contain an address.
func TestMB26_Metadata(t *testing.T) {
	p := newProtected(t, mcptools.IfSafe)
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // its metadata would be right
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"resource": p.URL + "/mcp", "authorization_servers": []string{p.idp.Issuer()}})
	}))
	t.Cleanup(elsewhere.Close)
	other := "https://other.example/mcp"
	for hops, want := range map[int]string{3: "", 4: "Error: p asks for an authorization that cannot be begun: it does not say properly who authorizes"} {
		before, at := p.metadata.Load(), fmt.Sprintf("%s?hops=%d", *p.metadata.Load(), hops)
		p.metadata.Store(&at)
		p.call("hops", fmt.Sprint("hops", hops), "sign_in", "{}")
		if m := p.next(); want == "" && m.Type() != agentproto.TypeOAuth || want != "" && fmt.Sprint(m) != want {
			t.Errorf("%d redirects: %v", hops, m)
		}
		p.metadata.Store(before)
	}
	for name, c := range map[string]struct {
		at   *atomic.Pointer[string]
		text string
		want string
	}{
		"metadata elsewhere": {&p.metadata, "http://169.254.169.254/latest", "it does not say properly who authorizes"},
		"another origin":     {&p.metadata, elsewhere.URL + "/mcp", "it does not say properly who authorizes"},
		"a redirect away":    {&p.redirect, elsewhere.URL + "/mcp", "it does not say properly who authorizes"},
		"another resource":   {&p.resource, other, "it does not say properly who authorizes"},
		"inner network":      {&p.issuers, "https://169.254.169.254", "its authorization server cannot be asked"},
	} {
		before := c.at.Load()
		c.at.Store(&c.text)
		p.call("ada", strings.ReplaceAll(name, " ", "-"), "sign_in", "{}")
		p.want(name, "Error: p asks for an authorization that cannot be begun: "+c.want)
		c.at.Store(before)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("another origin was asked %d times", n)
	}
}

// TestMB25_Stubborn has a server refuse every token. A call still ends, even if the tool may be repeated without limit.
func TestMB25_Stubborn(t *testing.T) {
	for _, repeat := range []mcptools.Repeat{mcptools.Never, mcptools.Always} {
		t.Run(string(repeat), func(t *testing.T) {
			p := newProtected(t, repeat)
			p.call("ada", "one", "sign_in", "{}")
			if page, err := p.detour(); err != nil {
				t.Fatalf("%v: %s", err, page)
			}
			if text := p.result().String(); !strings.HasPrefix(text, "p can be used now") {
				t.Fatalf("signing in: %q", text)
			}
			p.stubborn.Store(true)
			for _, user := range []string{"ada", "bob"} {
				p.call(user, "of-"+user, "hit", "{}")
				asked := 0
				m := p.next()
				for ; m.Type() == agentproto.TypeOAuth; m = p.next() {
					if asked++; asked > 2 {
						t.Fatalf("%s is asked again and again", user)
					}
					if page, err := p.idp.NewBrowser().Allow(t.Context(), m.(*agentproto.OAuth).AuthURL, "ada", "lovelace"); err != nil {
						t.Fatalf("%v: %s", err, page)
					}
				}
				if r, ok := m.(*agentproto.ToolResult); !ok || asked == 0 || !strings.HasPrefix(r.String(), "Error: ") {
					t.Errorf("%s was asked %d times, and then there is %v", user, asked, m)
				} else {
					t.Logf("%s was asked %d times: %s", user, asked, r)
				}
			}
			if n := p.calls.Load(); n != 0 {
				t.Errorf("%d calls were carried out", n)
			}
		})
	}
}

// TestMB26_Inside has metadata name an authorization server on this machine, by address and by a name that resolves to it. It
// must not be contacted, even though the operator configured the MCP server itself on this machine.
func TestMB26_Inside(t *testing.T) {
	system := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = system })
	net.DefaultResolver = netguardtest.Resolver(func(int) []string { return []string{"127.0.0.1"} })
	p := newProtectedWith(t, idp.Options{}, func(o *mcptools.Options) { o.AllowNetworks = nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for i, issuer := range []string{"https://127.0.0.1:" + port, "https://rebound.example.:" + port, "https://localhost:" + port} {
		p.issuers.Store(&issuer)
		p.call("ada", fmt.Sprint("c", i), "sign_in", "{}")
		p.want(issuer, "Error: p asks for an authorization that cannot be begun: its authorization server cannot be asked")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("this machine was asked %d times", n)
	}
}
