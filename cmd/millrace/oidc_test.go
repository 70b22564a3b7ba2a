package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/idp"
)

// A signer is an authorization server with one key, which signs any claims.
type signer struct {
	*httptest.Server
	key    *ecdsa.PrivateKey
	asked  atomic.Int32 // how often its keys were requested
	broken atomic.Bool
}

func newSigner(t *testing.T) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{key: key}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case s.broken.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/keys":
			s.asked.Add(1)
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/a", "token_endpoint": s.URL + "/t"})
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// token returns a valid token with the given claims in place of its own; a nil claim is omitted.
func (s *signer) token(t *testing.T, kid string, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": s.URL, "sub": "ada", "aud": "millrace", "exp": time.Now().Add(time.Hour).Unix(), "scope": "openid call"}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	by, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := by.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// issuer returns the verifier of the tokens of s.
func (s *signer) issuer() *issuer {
	i := newIssuer(s.URL, "millrace", nil, slog.New(slog.DiscardHandler))
	i.client = edge.NewClient(&seldom{to: s.Client().Transport, asked: map[string]asked{}}).Standard(maxIssuerBody, askIssuerTime)
	return i
}

// TestJWT verifies valid tokens, and rejects tokens that only look valid.
func TestJWT(t *testing.T) {
	s, other := newSigner(t), newSigner(t)
	i := s.issuer()
	good := s.token(t, "k1", nil)
	b, expires, err := i.verify(t.Context(), good)
	if err != nil || b.user != "ada" || b.scopes != scopeNames["call"] || !strings.HasPrefix(b.owner, "_") || time.Until(expires) < 50*time.Minute {
		t.Fatalf("a good token: %+v, until %v, %v", b, expires, err)
	}
	for what, claims := range map[string]map[string]any{
		"read alone": {"scope": "read"}, "a list of scopes": {"scope": nil, "scp": []string{"read", "x"}}, "admin": {"scope": "admin read"}, "several audiences": {"aud": []string{"x", "millrace"}, "scope": "read"},
	} {
		if b, _, err := i.verify(t.Context(), s.token(t, "k1", claims)); err != nil || b.scopes != scopeRead {
			t.Errorf("%s: %+v %v", what, b, err)
		}
	}
	if b, _, err := i.verify(t.Context(), s.token(t, "k1", map[string]any{"scope": nil})); err != nil || b.scopes != 0 {
		t.Errorf("no scope: %+v %v", b, err)
	}
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	byBytes := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"k1"}`))
	bad := map[string]string{
		"another issuer": other.token(t, "k1", nil), "another issuer that says it is this one": other.token(t, "k1", map[string]any{"iss": s.URL}),
		"another audience": s.token(t, "k1", map[string]any{"aud": "other"}), "no audience": s.token(t, "k1", map[string]any{"aud": nil}),
		"no subject": s.token(t, "k1", map[string]any{"sub": nil}), "not yet": s.token(t, "k1", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"expired": s.token(t, "k1", map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), "for ever": s.token(t, "k1", map[string]any{"exp": nil}),
		"no signature": none + "." + payload + ".", "a signature of no secret": byBytes + "." + payload + "." + signature, "no JWT": "a.b.c", "two parts": head + "." + payload,
		"altered":  head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+s.URL+`","sub":"root","aud":"millrace","exp":9999999999}`)) + "." + signature,
		"too long": s.token(t, "k1", map[string]any{"x": strings.Repeat("x", maxJWT)}),
	}
	for what, text := range bad {
		if b, _, err := i.verify(t.Context(), text); err == nil || b != nil {
			t.Errorf("%s is taken: %+v", what, b)
		}
	}
	ada, _, _ := i.verify(t.Context(), good)
	bob, _, _ := i.verify(t.Context(), s.token(t, "k1", map[string]any{"sub": "bob"}))
	if ada.owner == bob.owner || ada.owner != b.owner || ownerName.MatchString(ada.owner) {
		t.Errorf("owners are %s, %s, %s", b.owner, ada.owner, bob.owner)
	}
}

// TestJWTKeys has a server that does not answer, and tokens that name unknown keys. The server is not asked for each of them, and
// valid tokens are accepted meanwhile.
func TestJWTKeys(t *testing.T) {
	s := newSigner(t)
	i := s.issuer()
	good := s.token(t, "k1", nil)
	s.broken.Store(true)
	for range 3 {
		if _, _, err := i.verify(t.Context(), good); !errors.Is(err, edge.ErrUnchecked) {
			t.Fatalf("a server that does not answer: %v", err)
		}
	}
	s.broken.Store(false)
	i = s.issuer()
	if _, err := i.discover(); err != nil {
		t.Fatal(err)
	}
	s.broken.Store(true)
	for range 2 {
		if _, _, err := i.verify(t.Context(), good); !errors.Is(err, edge.ErrUnchecked) {
			t.Fatalf("keys that cannot be had: %v", err)
		}
	}
	s.broken.Store(false)
	i = s.issuer()
	for range 200 {
		if _, _, err := i.verify(t.Context(), s.token(t, "k2", nil)); err == nil {
			t.Fatal("a token of a key that there is not is taken")
		}
		if _, _, err := i.verify(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.asked.Load(); n > 3 { // at most one request in five seconds
		t.Errorf("the server was asked for its keys %d times", n)
	}
}

// A visitor is an MCP client whose user signs in where the server says.
type visitor struct {
	*mcp.ClientSession
	token func(ctx context.Context) string
}

// visit connects a client of a provider to the MCP server of a runtime.
func visit(ctx context.Context, t *testing.T, provider *idp.Provider, api, client, user, password string, scopes ...string) visitor {
	t.Helper()
	codes := make(chan *auth.AuthorizationResult, 1)
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		codes <- &auth.AuthorizationResult{Code: r.FormValue("code"), State: r.FormValue("state"), Iss: r.FormValue("iss")}
	}))
	t.Cleanup(back.Close)
	provider.RegisterRedirect(client, back.URL)
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: provider.CertPool()}}}
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{ClientID: client}, RedirectURL: back.URL, Client: trusting,
		ScopeFilter: func(found []string) []string {
			if scopes == nil {
				return found
			}
			return scopes
		},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if _, err := provider.NewBrowser().Allow(ctx, args.URL, user, password); err != nil {
				return nil, err
			}
			return <-codes, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := visitor{token: func(ctx context.Context) string {
		source, err := handler.TokenSource(ctx)
		if err != nil || source == nil {
			t.Fatalf("no token: %v", err)
		}
		token, err := source.Token()
		if err != nil {
			t.Fatal(err)
		}
		return token.AccessToken
	}}
	v.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: api + mcpPath, OAuthHandler: handler}, nil)
	if err != nil && scopes == nil {
		t.Fatal(err)
	}
	if err == nil {
		t.Cleanup(func() { v.Close() })
	}
	return v
}

// TestAuthorizedClients has MCP clients discover the provider, sign their users in, and use tools, each for itself.
func TestAuthorizedClients(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	api := freeAddress(t)
	provider, err := idp.Start(idp.Options{
		Users:   []idp.User{{Name: "ada", Password: "lovelace"}, {Name: "bob", Password: "builder"}},
		Clients: []idp.Client{{ID: "client", Audience: "http://" + api + mcpPath}, {ID: "other", Audience: "https://other.example"}}, Scopes: []string{"read", "call"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authorities, provider.CACertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authorities)
	c := newCrowdAt(t, api, "--oidc-issuer", provider.Issuer())
	status, header, _ := c.ask(ctx, "", "POST", mcpPath, "{}")
	metadata := c.api + resourceMetadata + mcpPath
	if got := header.Get("WWW-Authenticate"); status != http.StatusUnauthorized || got != `Bearer scope="call", resource_metadata="`+metadata+`"` {
		t.Errorf("without a token: %d, %s", status, got)
	}
	for _, path := range []string{resourceMetadata, resourceMetadata + mcpPath} {
		if status, _, text := c.ask(ctx, "", "GET", path, ""); status != http.StatusOK || !strings.Contains(text, `"resource":"`+c.api+mcpPath+`"`) {
			t.Errorf("GET %s: %d %s", path, status, text)
		}
	}
	ada, bob := visit(ctx, t, provider, c.api, "client", "ada", "lovelace"), visit(ctx, t, provider, c.api, "client", "bob", "builder")
	for _, v := range []visitor{ada, bob} {
		if got, err := v.CallTool(ctx, &mcp.CallToolParams{Name: "now", Arguments: map[string]any{}}); err != nil || got.IsError {
			t.Fatalf("a call: %+v %v", got, err)
		}
	}
	calls := func(token string) int {
		t.Helper()
		status, _, text := c.ask(ctx, token, "GET", "/calls", "")
		var page struct{ Calls []any }
		if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
			t.Fatalf("GET /calls: %d %s", status, text)
		}
		return len(page.Calls)
	}
	if a, b, root := calls(ada.token(ctx)), calls(bob.token(ctx)), calls(c.tokens["root"]); a != 1 || b != 1 || root != 2 {
		t.Errorf("there are %d calls of ada, %d of bob and %d in all", a, b, root)
	}
	reader := visit(ctx, t, provider, c.api, "client", "ada", "lovelace", "read")
	if status, header, _ := c.ask(ctx, reader.token(ctx), "POST", mcpPath, "{}"); status != http.StatusForbidden || !strings.Contains(header.Get("WWW-Authenticate"), `error="insufficient_scope", scope="call", resource_metadata=`) {
		t.Errorf("a token for reading: %d %s", status, header.Get("WWW-Authenticate"))
	}
	if n := calls(reader.token(ctx)); n != 1 {
		t.Errorf("a token for reading shows %d calls", n)
	}
	token := ada.token(ctx)
	for what, text := range map[string]string{"an altered token": token[:len(token)-8] + "AAAAAAAA", "a token of another kind": "a.b.c"} {
		if status, header, _ := c.ask(ctx, text, "GET", "/calls", ""); status != http.StatusUnauthorized || !strings.Contains(header.Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: %d %s", what, status, header.Get("WWW-Authenticate"))
		}
	}
	foreign := visit(ctx, t, provider, c.api, "other", "ada", "lovelace", "call")
	if status, _, text := c.ask(ctx, foreign.token(ctx), "GET", "/calls", ""); status != http.StatusUnauthorized || !strings.Contains(text, "another issuer or audience") {
		t.Errorf("a token for another resource: %d %s", status, text)
	}
	if status, _, _ := c.ask(ctx, ada.token(ctx), "GET", "/quarantine", ""); status != http.StatusForbidden {
		t.Errorf("a route of operators: %d", status)
	}
}
