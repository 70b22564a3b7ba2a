package idp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/idp"
	"golang.org/x/oauth2"
)

// logged is what the library wrote to slog.
var logged buffer

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})))
	os.Exit(m.Run())
}

// A tool is an application with a callback endpoint, reduced to what the provider sees of it.
type tool struct {
	t         *testing.T
	p         *idp.Provider
	config    oauth2.Config
	client    *http.Client
	callbacks chan url.Values // queries of the redirects that arrived
}

// start runs a provider and a tool that is its default client.
func start(t *testing.T, opts idp.Options) *tool {
	t.Helper()
	p, err := idp.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	tl := &tool{t: t, p: p, callbacks: make(chan url.Values, 8)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tl.callbacks <- r.URL.Query()
		if e := r.URL.Query().Get("error"); e != "" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "refused: %s", e)
			return
		}
		fmt.Fprint(w, "you can close this page")
	}))
	t.Cleanup(srv.Close)
	id, secret := idp.DefaultClientID, ""
	if len(opts.Clients) > 0 {
		id, secret = opts.Clients[0].ID, opts.Clients[0].Secret
	}
	tl.config = oauth2.Config{
		ClientID: id, ClientSecret: secret,
		RedirectURL: srv.URL + "/callback",
		Scopes:      []string{"openid", "profile", "offline_access"},
		Endpoint:    oauth2.Endpoint{AuthURL: p.AuthURL(), TokenURL: p.TokenURL(), AuthStyle: oauth2.AuthStyleInHeader},
	}
	p.RegisterRedirect(id, tl.config.RedirectURL)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.CertPool()}}
	t.Cleanup(transport.CloseIdleConnections)
	tl.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return tl
}

// ctx makes package oauth2 trust the provider.
func (tl *tool) ctx() context.Context {
	return context.WithValue(tl.t.Context(), oauth2.HTTPClient, tl.client)
}

// authURL returns an authorization URL and the verifier that goes with it.
func (tl *tool) authURL(state string) (address, verifier string) {
	verifier = oauth2.GenerateVerifier()
	return tl.config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), verifier
}

// code has ada allow an authorization and returns the code of the redirect and the verifier.
func (tl *tool) code() (code, verifier string) {
	tl.t.Helper()
	address, verifier := tl.authURL("state")
	to, err := tl.p.NewBrowser().Grant(tl.t.Context(), address, "ada", "lovelace")
	if err != nil {
		tl.t.Fatal(err)
	}
	return to.Query().Get("code"), verifier
}

func (tl *tool) exchange(code, verifier string) (*oauth2.Token, error) {
	return tl.config.Exchange(tl.ctx(), code, oauth2.VerifierOption(verifier))
}

// token runs a complete authorization.
func (tl *tool) token() *oauth2.Token {
	tl.t.Helper()
	tok, err := tl.exchange(tl.code())
	if err != nil {
		tl.t.Fatal(err)
	}
	return tok
}

// refresh uses a refresh token, whatever the state of the access token.
func (tl *tool) refresh(token string) (*oauth2.Token, error) {
	return tl.config.TokenSource(tl.ctx(), &oauth2.Token{RefreshToken: token}).Token()
}

type claims struct {
	Sub, Name string
}

// userInfo returns the status, and the claims if the status is 200.
func (tl *tool) userInfo(access string) (int, claims) {
	tl.t.Helper()
	req, err := http.NewRequestWithContext(tl.t.Context(), http.MethodGet, tl.p.UserInfoURL(), nil)
	if err != nil {
		tl.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+access)
	resp, body := tl.do(req)
	var c claims
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			tl.t.Fatal(err)
		}
	}
	return resp.StatusCode, c
}

// do sends a request without cookies and without following redirects.
func (tl *tool) do(req *http.Request) (*http.Response, string) {
	tl.t.Helper()
	resp, err := tl.client.Do(req)
	if err != nil {
		tl.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tl.t.Fatal(err)
	}
	return resp, string(body)
}

func (tl *tool) get(address string) (*http.Response, string) {
	tl.t.Helper()
	req, err := http.NewRequestWithContext(tl.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		tl.t.Fatal(err)
	}
	return tl.do(req)
}

// oauthError returns the error code of a refused token request.
func oauthError(err error) string {
	if re, ok := err.(*oauth2.RetrieveError); ok {
		return re.ErrorCode
	}
	return fmt.Sprint(err)
}
