package idp_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/idp"
	"golang.org/x/oauth2"
)

func Example() {
	p, err := idp.Start(idp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	tool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "thank you, the state is %q", r.URL.Query().Get("state"))
	}))
	defer tool.Close()
	p.RegisterRedirect(idp.DefaultClientID, tool.URL+"/callback")

	config := oauth2.Config{
		ClientID:    idp.DefaultClientID,
		Endpoint:    oauth2.Endpoint{AuthURL: p.AuthURL(), TokenURL: p.TokenURL(), AuthStyle: oauth2.AuthStyleInParams},
		RedirectURL: tool.URL + "/callback",
		Scopes:      []string{"openid", "profile"},
	}
	authURL := config.AuthCodeURL("once", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	fmt.Println(p.NewBrowser().Allow(context.Background(), authURL, "ada", "lovelace"))
	// Output:
	// thank you, the state is "once" <nil>
}

func TestStartRefuses(t *testing.T) {
	for want, opts := range map[string]idp.Options{
		"not a loopback address":    {Addr: "0.0.0.0:0"},
		"idp: listen":               {Addr: "127.0.0.1:none"},
		"needs a name":              {Users: []idp.User{{Password: "x"}}},
		"and a password":            {Users: []idp.User{{Name: "x"}}},
		"two users are called":      {Users: []idp.User{{"a", "x", "1"}, {"a", "x", "2"}}},
		"have the subject":          {Users: []idp.User{{"a", "x", "1"}, {"1", "x", ""}}},
		"contains a colon":          {Users: []idp.User{{Name: "a:b", Password: "x"}}},
		"a client needs an ID":      {Clients: []idp.Client{{}}},
		"two clients are called":    {Clients: []idp.Client{{ID: "a"}, {ID: "a"}}},
		"neither https nor http on": {Clients: []idp.Client{{ID: "a", RedirectURIs: []string{"http://example.com/"}}}},
		"is not absolute":           {Clients: []idp.Client{{ID: "a", RedirectURIs: []string{"/callback"}}}},
		"has a fragment":            {Clients: []idp.Client{{ID: "a", RedirectURIs: []string{"https://example.com/#x"}}}},
		"a second is the least":     {AccessTokenLifetime: time.Millisecond},
		"a lifetime is negative":    {CodeLifetime: -1},
	} {
		p, err := idp.Start(opts)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start(%+v) = %v, want %q", opts, err, want)
		}
	}
}

func TestRegisterRedirectPanics(t *testing.T) {
	tl := start(t, idp.Options{})
	for _, c := range []struct{ id, uri string }{{"nobody", "https://example.com/"}, {idp.DefaultClientID, "http://example.com/"}} {
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.HasPrefix(r, "idp: RegisterRedirect: ") {
					t.Errorf("RegisterRedirect(%q, %q): panic %q", c.id, c.uri, r)
				}
			}()
			tl.p.RegisterRedirect(c.id, c.uri)
		}()
	}
}

func TestAddressAndCertificate(t *testing.T) {
	tl := start(t, idp.Options{})
	if !strings.HasPrefix(tl.p.Issuer(), "https://127.0.0.1:") {
		t.Errorf("Issuer = %q", tl.p.Issuer())
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(tl.p.CACertPEM()) || !pool.Equal(tl.p.CertPool()) {
		t.Error("CACertPEM and CertPool differ")
	}
	// The same port under the other host name.
	if resp, _ := tl.get(strings.Replace(tl.p.Issuer(), "127.0.0.1", "localhost", 1) + "/keys"); resp.StatusCode != http.StatusOK {
		t.Errorf("keys: status %d", resp.StatusCode)
	}
	if _, err := http.Get(tl.p.Issuer()); err == nil {
		t.Error("the provider is trusted by everybody")
	}
}

func TestMetadata(t *testing.T) {
	tl := start(t, idp.Options{})
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		_, body := tl.get(tl.p.Issuer() + path)
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		for member, want := range map[string]any{
			"issuer":                                         tl.p.Issuer(),
			"authorization_endpoint":                         tl.p.AuthURL(),
			"token_endpoint":                                 tl.p.TokenURL(),
			"userinfo_endpoint":                              tl.p.UserInfoURL(),
			"revocation_endpoint":                            tl.p.RevokeURL(),
			"code_challenge_methods_supported":               []any{"S256"},
			"grant_types_supported":                          []any{"authorization_code", "refresh_token"},
			"response_types_supported":                       []any{"code"},
			"authorization_response_iss_parameter_supported": true,
			"introspection_endpoint":                         nil,
			"end_session_endpoint":                           nil,
		} {
			if fmt.Sprint(got[member]) != fmt.Sprint(want) {
				t.Errorf("%s: %s = %v, want %v", path, member, got[member], want)
			}
		}
	}
}

func TestUnservedRequests(t *testing.T) {
	tl := start(t, idp.Options{})
	tok := tl.token()
	for path, want := range map[string]int{
		"/oauth/token?grant_type=refresh_token&refresh_token=" + tok.RefreshToken: http.StatusMethodNotAllowed,
		"/userinfo?access_token=" + tok.AccessToken:                               http.StatusUnauthorized,
		"/oauth/introspect":     http.StatusNotFound,
		"/device_authorization": http.StatusNotFound,
		"/end_session":          http.StatusNotFound,
	} {
		if resp, _ := tl.get(tl.p.Issuer() + path); resp.StatusCode != want {
			t.Errorf("%.20s…: status %d, want %d", path, resp.StatusCode, want)
		}
	}
	// Only the body counts, and a script of another origin gets no permission.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		tl.p.TokenURL()+"?grant_type=refresh_token&client_id=millrace-demo&refresh_token="+tok.RefreshToken, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "https://evil.example")
	resp, _ := tl.do(req)
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("refresh with a query: status %d, want 400", resp.StatusCode)
	}
	if h := resp.Header.Get("Access-Control-Allow-Origin"); h != "" {
		t.Errorf("the token endpoint lets %s read its answers", h)
	}
	for _, responseType := range []string{"token", "id_token", "id_token token", ""} {
		address, _ := tl.authURL("state")
		resp, _ := tl.get(strings.Replace(address, "response_type=code", "response_type="+strings.ReplaceAll(responseType, " ", "+"), 1))
		if to, err := resp.Location(); err == nil && strings.HasPrefix(to.String(), tl.p.Issuer()) {
			t.Errorf("response type %q led to %v", responseType, to)
		}
	}
}

func TestClose(t *testing.T) {
	p, err := idp.Start(idp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(p.Issuer(), "https://")); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}
