package toolserver_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/idp"
)

// A stage is a real provider, a tool server that browsers of users can reach, and a runtime in
// memory. It runs in real time.
type stage struct {
	*runtime
	idp     *idp.Provider
	vault   *spyVault // nil if the server has a State
	pages   []string  // pages shown in browsers
	secrets []string  // in addition to those of the provider
	more    func()    // adds tools of a test at a restart; may be nil
	serving atomic.Pointer[toolserver.Server]
}

// confidential is a client with a secret, unlike the one that most tests use.
const confidential, confidentialSecret = "confidential", "canary/client+secret=4711"

func newStage(t *testing.T, opts toolserver.Options, change ...func(*toolserver.OAuthProvider)) *stage {
	t.Helper()
	p, err := idp.Start(idp.Options{Scopes: []string{"read", "write"}, Clients: []idp.Client{
		{ID: idp.DefaultClientID}, {ID: confidential, Secret: confidentialSecret},
	}, Users: []idp.User{
		{Name: "ada", Password: "lovelace", Subject: "user-1815"},
		{Name: "bob", Password: "builder", Subject: "user-2"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	st := new(stage)
	browser := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		st.serving.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(browser.Close)
	if opts.PublicURL == "" {
		opts.PublicURL = "http://" + browser.Listener.Addr().String()
	}
	st.idp = p
	provider := toolserver.OAuthProvider{
		ID: "idp", AuthURL: p.AuthURL(), TokenURL: p.TokenURL(), ClientID: idp.DefaultClientID,
		Scopes: []string{"openid", "profile", "offline_access"}, Issuer: p.Issuer(), RequireIssuer: true,
	}
	for _, c := range change {
		c(&provider)
	}
	if !provider.SubjectIsUser && !provider.Confirm {
		provider.UnsafeAnyoneMayAuthorize = "the test is every user"
	}
	opts.Providers = append(opts.Providers, provider)
	if opts.State == "" {
		st.vault = &spyVault{Vault: toolserver.NewMemoryVault()}
		opts.Vault = st.vault
	}
	opts.ProviderRootCAs = p.CertPool()
	if m, ok := opts.ProviderTransport.(*meddler); ok {
		m.base = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.CertPool()}}
		t.Cleanup(m.base.CloseIdleConnections)
	}
	st.runtime = newRuntime(t, opts)
	st.patience = 20 * time.Second
	p.RegisterRedirect(provider.ClientID, opts.PublicURL+"/oauth/callback/idp")
	st.addTools()
	st.serving.Store(st.server)
	browser.Start()
	return st
}

// restart closes the server without waiting, and opens another one with its state. That one
// continues with the first request or when it is started.
//
// It first waits for deliveries in progress, which would otherwise be repeated. These tests
// are about other things.
func (st *stage) restart(change ...func(*toolserver.Options)) {
	st.t.Helper()
	for end := time.Now().Add(st.patience); toolserver.Undelivered(st.server) > 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	now, stop := context.WithCancel(st.t.Context())
	stop()
	if err := st.server.Close(now); err != nil && !errors.Is(err, context.Canceled) {
		st.t.Error(err)
	}
	opts := st.runtime.opts
	for _, c := range change {
		c(&opts)
	}
	server, err := toolserver.Open(opts)
	if err != nil {
		st.t.Fatal(err)
	}
	st.server = server
	st.addTools()
	if st.more != nil {
		st.more()
	}
	st.serving.Store(server)
}

// addTools adds tools that need authorization.
func (st *stage) addTools() {
	p := st.idp
	needsAuth := toolserver.ToolOptions{RequireOAuth: "idp"}
	toolserver.AddWithOptions(st.server, "whoami", "Tells who the user is.", needsAuth, func(ctx context.Context, _ none) (string, error) {
		resp, err := toolserver.Client(ctx).Get(p.UserInfoURL())
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		var info struct{ Name string }
		err = json.NewDecoder(resp.Body).Decode(&info)
		return info.Name, err
	})
	toolserver.AddWithOptions(st.server, "leak", "Gives its token away.", needsAuth, func(ctx context.Context, in struct{ How string }) (string, error) {
		token, err := toolserver.Token(ctx)
		switch {
		case err != nil:
			return "", err
		case in.How == "error":
			return "", errors.New("GET /?access_token=" + token.Reveal())
		case in.How == "panic":
			panic(token.Reveal())
		case in.How == "question":
			_, err := toolserver.Choose(ctx, "Is it "+token.Reveal()+"?", []string{"yes"}, 0)
			return "", err
		}
		return fmt.Sprintf(in.How, token.Reveal()), nil
	})
}

// authURL returns the next message, which must ask for authorization.
func (st *stage) authURL() string {
	st.t.Helper()
	m := st.next()
	o, ok := m.Callback.(*agentproto.OAuth)
	if !ok {
		st.t.Fatalf("got %s, want an oauth message", m.body)
	}
	return o.AuthURL
}

// allow completes an authorization as a user.
func (st *stage) allow(authURL, name, password string) {
	st.t.Helper()
	page, err := st.idp.NewBrowser().Allow(st.t.Context(), authURL, name, password)
	if err != nil {
		st.t.Fatal(err)
	}
	st.pages = append(st.pages, page)
	if !strings.Contains(page, "The access is authorized.") {
		st.t.Errorf("page %s", page)
	}
}

// grant returns the address to which the provider sends a user who consents.
func (st *stage) grant(authURL string) *url.URL {
	st.t.Helper()
	to, err := st.idp.NewBrowser().Grant(st.t.Context(), authURL, "ada", "lovelace")
	if err != nil {
		st.t.Fatal(err)
	}
	return to
}

// open opens an address of the tool server and returns the status of the page.
func (st *stage) open(address string) int {
	st.t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		st.t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		st.t.Fatal(err)
	}
	st.pages = append(st.pages, string(page))
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		st.t.Errorf("Content-Security-Policy = %q", csp)
	}
	return resp.StatusCode
}

// ends closes the server and checks that it has exposed no secret: no code, verifier or token,
// in any encoding, in a message, page, log line or file.
func (st *stage) ends() {
	st.t.Helper()
	st.close()
	st.look(append(st.idp.Secrets(), st.secrets...))
}

// look searches for secrets in all output of the server.
func (st *stage) look(secrets []string) {
	st.t.Helper()
	look := func(where string, text []byte) {
		st.t.Helper()
		if !toolserver.Finds(text, secrets...) {
			return
		}
		for _, s := range secrets {
			if toolserver.Finds(text, s) {
				st.t.Errorf("%q is in %s: %.2000q", s, where, text)
			}
		}
	}
	for _, m := range st.sent() {
		look("a message", []byte(m.body+m.url+fmt.Sprint(m.header)))
	}
	look("the log", []byte(st.log.String()))
	for _, p := range st.pages {
		look("a page", []byte(p))
	}
	if st.opts.State == "" {
		return
	}
	err := filepath.WalkDir(st.opts.State, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		look(path, text)
		return err
	})
	if err != nil {
		st.t.Error(err)
	}
}

// set returns u with a changed parameter; an empty value removes the parameter.
func set(u *url.URL, name, value string) string {
	q, changed := u.Query(), *u
	if value == "" {
		q.Del(name)
	} else {
		q.Set(name, value)
	}
	changed.RawQuery = q.Encode()
	return changed.String()
}

// A spyVault records saves, and can expire the latest token.
type spyVault struct {
	toolserver.Vault
	mu    sync.Mutex
	saves []toolserver.TokenKey
	last  toolserver.UserToken
	fails bool
}

func (v *spyVault) Save(ctx context.Context, key toolserver.TokenKey, t *toolserver.UserToken) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fails {
		return errors.New("disk full")
	}
	v.saves = append(v.saves, key)
	v.last = *t
	return v.Vault.Save(ctx, key, t)
}

func (v *spyVault) saved() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.saves)
}

// expire makes the latest token look expired.
func (v *spyVault) expire(t *testing.T) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.Expiry = time.Now().Add(-time.Minute)
	if err := v.Vault.Save(t.Context(), v.saves[len(v.saves)-1], &v.last); err != nil {
		t.Fatal(err)
	}
}

// A meddler sits between the server and the provider, and may answer in place of the provider.
type meddler struct {
	base   *http.Transport
	answer func(r *http.Request, real func() *http.Response) *http.Response
}

func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	var failed error
	resp := m.answer(r, func() *http.Response {
		resp, err := m.base.RoundTrip(r)
		failed = err
		return resp
	})
	if resp != nil {
		resp.Request = r
	}
	return resp, failed
}
