package toolserver_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"flag"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

var oidcProvider = flag.String("oidc-provider", "", "folder where the npm package oidc-provider is installed; doc/testing-edge.md says how")

// A strictProvider runs the npm package oidc-provider in a Node process.
type strictProvider struct {
	t      *testing.T
	issuer string
	roots  *x509.CertPool

	mu     sync.Mutex
	events []strictEvent
	more   chan struct{} // closed when another event has been added
}

// A strictEvent is an exchange at the token endpoint.
type strictEvent struct {
	Issuer, Event, Grant, Error string
	Sent                        map[string]any
	Answer                      map[string]any
}

// packageFolder returns the folder of the package, or "" if it is not installed.
func packageFolder() string {
	if *oidcProvider != "" {
		return filepath.Join(*oidcProvider, "node_modules", "oidc-provider")
	}
	for _, folder := range filepath.SplitList(os.Getenv("NODE_PATH")) {
		p := filepath.Join(folder, "oidc-provider")
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}

func startStrictProvider(t *testing.T, redirect string) *strictProvider {
	t.Helper()
	folder := packageFolder()
	if folder == "" {
		t.Skip("needs node and the npm package oidc-provider: go test -oidc-provider=DIR, see doc/testing-edge.md")
	}
	certificates := httptest.NewTLSServer(nil) // used for its certificate, which is valid for 127.0.0.1
	defer certificates.Close()
	leaf := certificates.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	p := &strictProvider{t: t, roots: x509.NewCertPool(), more: make(chan struct{})}
	p.roots.AddCert(certificates.Certificate())
	settings := mustJSON(t, map[string]any{
		"package": folder,
		"key":     string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"cert":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]})),
		"client": map[string]any{
			"client_id": confidential, "client_secret": confidentialSecret, "redirect_uris": []string{redirect},
			"grant_types": []string{"authorization_code", "refresh_token"}, "token_endpoint_auth_method": "client_secret_basic",
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	node := exec.CommandContext(ctx, "node", "testdata/oidc-provider.mjs")
	node.Stdin = strings.NewReader(settings + "\n")
	var complaints bytes.Buffer
	node.Stderr = &complaints
	out, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(out)
	}()
	t.Cleanup(func() {
		stop()
		<-read
		node.Wait()
		if t.Failed() {
			t.Logf("node: %s", complaints.String())
		}
	})
	p.issuer = p.event(0).Issuer
	return p
}

func (p *strictProvider) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e strictEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // a warning of the package
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// event waits for event n, counted from 0.
func (p *strictProvider) event(n int) strictEvent {
	p.t.Helper()
	late := time.After(30 * time.Second)
	for {
		p.mu.Lock()
		events, more := p.events, p.more
		p.mu.Unlock()
		if len(events) > n {
			return events[n]
		}
		select {
		case <-more:
		case <-late:
			p.t.Fatalf("the provider has said %d things only", len(events))
		}
	}
}

// count returns the number of events of a kind.
func (p *strictProvider) count(event, grant string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.Event == event && e.Grant == grant {
			n++
		}
	}
	return n
}

// secrets returns all secrets that passed the token endpoint.
func (p *strictProvider) secrets() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		for _, m := range []map[string]any{e.Sent, e.Answer} {
			for _, name := range []string{"code", "code_verifier", "refresh_token", "access_token", "id_token"} {
				if s, ok := m[name].(string); ok {
					all = append(all, s)
				}
			}
		}
	}
	return append(all, confidentialSecret)
}

var (
	formAction  = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
	abortLink   = regexp.MustCompile(`<a href="([^"]+/abort)"`)
)

// browse goes through the pages of the provider as a person would, and returns the last page
// and its address.
func (p *strictProvider) browse(authURL, who string, allow bool) (page string, at *url.URL) {
	p.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second}
	resp, err := client.Get(authURL)
	for range 5 {
		if err != nil {
			p.t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		page, at = string(body), resp.Request.URL
		action := formAction.FindStringSubmatch(page)
		if action == nil || !strings.HasPrefix(at.String(), p.issuer) {
			return page, at
		}
		if abort := abortLink.FindStringSubmatch(page); !allow && abort != nil {
			resp, err = client.Get(p.resolve(at, abort[1]))
			continue
		}
		form := url.Values{"login": {who}, "password": {"any"}}
		for _, f := range hiddenField.FindAllStringSubmatch(page, -1) {
			form.Set(f[1], html.UnescapeString(f[2]))
		}
		resp, err = client.PostForm(p.resolve(at, action[1]), form)
	}
	p.t.Fatalf("no end of pages; the last is %s", page)
	return "", nil
}

func (p *strictProvider) resolve(at *url.URL, ref string) string {
	to, err := at.Parse(html.UnescapeString(ref))
	if err != nil {
		p.t.Fatal(err)
	}
	return to.String()
}

// TestOIDCProvider connects the tool server to oidc-provider. The package compares redirect
// addresses exactly (O21), names itself in its answers (O14), rotates refresh tokens, and treats
// the use of an old one as theft (O16, O17).
func TestOIDCProvider(t *testing.T) {
	var server *toolserver.Server
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) }))
	defer web.Close()
	p := startStrictProvider(t, web.URL+"/oauth/callback/strict")
	provider := toolserver.OAuthProvider{
		ID: "strict", AuthURL: p.issuer + "/auth", TokenURL: p.issuer + "/token", KeysURL: p.issuer + "/jwks",
		ClientID: confidential, ClientSecret: toolserver.NewSecret(confidentialSecret), Scopes: []string{"openid", "offline_access"},
		Params: map[string]string{"prompt": "consent"}, Issuer: p.issuer, RequireIssuer: true, SubjectIsUser: true,
	}
	rt := newRuntime(t, toolserver.Options{PublicURL: web.URL, State: t.TempDir(), Providers: []toolserver.OAuthProvider{provider}, ProviderRootCAs: p.roots})
	rt.patience = 30 * time.Second
	server = rt.server
	st := &stage{runtime: rt}
	toolserver.AddWithOptions(server, "whoami", "Tells who the user is.", toolserver.ToolOptions{RequireOAuth: "strict", Scopes: []string{"read"}},
		func(ctx context.Context, _ none) (string, error) {
			resp, err := toolserver.Client(ctx).Get(p.issuer + "/me")
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			var info struct{ Sub string }
			err = json.NewDecoder(resp.Body).Decode(&info)
			return info.Sub, err
		})
	allow := func(authURL string) {
		t.Helper()
		page, _ := p.browse(authURL, "ada", true)
		st.pages = append(st.pages, page)
		if !strings.Contains(page, "The access is authorized.") {
			t.Fatalf("page %s", page)
		}
	}
	want := func(result string) {
		t.Helper()
		if got := rt.nextResult(); got != result {
			t.Errorf("result %q, want %q", got, result)
		}
	}

	rt.call("whoami", "c1", "{}", user("ada"))
	authURL := st.authURL()
	u, _ := url.Parse(authURL)
	if page, at := p.browse(set(u, "redirect_uri", web.URL+"/oauth/callback/strict/"), "ada", true); !strings.HasPrefix(at.String(), p.issuer) || !strings.Contains(page, "redirect_uri") {
		t.Errorf("O21: the provider is not strict: %s", at.Host)
	}
	allow(authURL)
	want("ada")
	for i := range 5 { // each call renews its access token, and each renewal rotates the refresh token
		rt.call("whoami", "r"+string(rune('1'+i)), "{}", user("ada"))
		want("ada")
	}
	if n := p.count("success", "refresh_token"); n < 5 || p.count("error", "refresh_token") != 0 {
		t.Errorf("O16: %d refreshes, %d of them refused", n, p.count("error", "refresh_token"))
	}
	for i := range 20 {
		rt.call("whoami", "p"+string(rune('a'+i)), "{}", user("ada"))
	}
	for range 20 {
		want("ada")
	}
	if n := p.count("error", "refresh_token"); n != 0 {
		t.Errorf("O18: %d refreshes were refused", n)
	}

	// A thief uses an old refresh token: the provider revokes everything.
	var old string
	p.mu.Lock()
	for _, e := range p.events {
		if s, ok := e.Answer["refresh_token"].(string); ok && old == "" {
			old = s
		}
	}
	p.mu.Unlock()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}}
	defer transport.CloseIdleConnections()
	req, _ := http.NewRequest(http.MethodPost, p.issuer+"/token", strings.NewReader(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(confidential), url.QueryEscape(confidentialSecret))
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode != 400 {
		t.Fatalf("the thief: %v, %v", resp, err)
	}
	discard, _ := io.ReadAll(resp.Body)
	if resp.Body.Close(); !strings.Contains(string(discard), "invalid_grant") {
		t.Errorf("the thief: %s", discard)
	}
	rt.call("whoami", "c2", "{}", user("ada"))
	allow(st.authURL()) // O17: the user is asked once more
	want("ada")

	rt.call("whoami", "c3", "{}", user("bob")) // O24: ada authorizes for bob
	page, _ := p.browse(st.authURL(), "ada", true)
	if !strings.Contains(page, "by somebody else than the user") {
		t.Errorf("page %s", page)
	}
	want("Error: the access was authorized by somebody else than the user")
	rt.call("whoami", "c4", "{}", user("bob")) // O10
	page, _ = p.browse(st.authURL(), "bob", false)
	if !strings.Contains(page, "The access was not authorized.") {
		t.Errorf("page %s", page)
	}
	want("Error: the user did not authorize the access")

	rt.call("whoami", "c5", "{}", user("bob")) // O14: the same answer, but from another issuer
	m := rt.next().Callback.(*agentproto.OAuth)
	state, _ := url.Parse(m.AuthURL)
	if code := st.open(web.URL + "/oauth/callback/strict?code=x&iss=https%3A%2F%2Fevil.example&state=" + state.Query().Get("state")); code != 400 {
		t.Errorf("O14: page %d", code)
	}
	want(failed)
	rt.close()
	secrets := p.secrets()
	if len(secrets) < 30 {
		t.Errorf("only %d secrets were seen", len(secrets))
	}
	st.look(secrets)
	t.Logf("%d exchanges, %d refreshes, %d refused, %d secrets", p.count("success", "authorization_code"), p.count("success", "refresh_token"),
		p.count("error", "refresh_token"), len(secrets))
}
