package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/internal/idp"
)

// protectedMCP starts an MCP server with the tool hit, whose calls need a token of the provider. It returns its URL and the
// number of calls carried out.
func protectedMCP(t *testing.T, provider *idp.Provider) (string, *atomic.Int32) {
	hits := new(atomic.Int32)
	s := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "hit", Description: "Hits.", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		hits.Add(1)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hit"}}}, nil
	})
	front := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: provider.CertPool()}}}
	good := func(r *http.Request) bool {
		asks, err := http.NewRequestWithContext(r.Context(), http.MethodGet, provider.UserInfoURL(), nil)
		if err != nil {
			return false
		}
		asks.Header.Set("Authorization", r.Header.Get("Authorization"))
		res, err := client.Do(asks)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	web := httptest.NewUnstartedServer(nil)
	url := "http://" + web.Listener.Addr().String()
	const metadata = "/.well-known/oauth-protected-resource/mcp"
	web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == metadata:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"resource": url + "/mcp", "authorization_servers": []string{provider.Issuer()}, "scopes_supported": []string{"openid"}})
		case r.Header.Get("Mcp-Method") == "tools/call" && !good(r):
			w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+url+metadata+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			front.ServeHTTP(w, r)
		}
	})
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return url + "/mcp", hits
}

// TestMB28_AuthorizedAfterKill has a user authorize access to a protected MCP server while the runtime is killed and restarted.
// The test fails if the call ends instead of asking, if the pages are not served, if the restart loses the authorization, or if
// the call is carried out twice or without the user's answer.
func TestMB28_AuthorizedAfterKill(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	provider, err := idp.Start(idp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { provider.Close() })
	dir := t.TempDir()
	authorities := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authorities, provider.CACertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", authorities)
	url, hits := protectedMCP(t, provider)
	listen, api := freeAddress(t), freeAddress(t)
	s := &served{t: t, state: filepath.Join(dir, "state"), api: "http://" + api}
	s.args = []string{"serve", "--state", s.state, "--listen", listen, "--api", api, "--mcp", "p=" + url, "--allow-network", "127.0.0.0/8",
		"--mcp-client", "p=" + idp.DefaultClientID + "=" + provider.Issuer()}
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	s.cmd = millrace(t, s.args...)
	s.cmd.Stderr = said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"p_hit","arguments":{}}`, http.StatusAccepted, http.StatusConflict)
	version := uint64(0)
	next := func() (b stateBody) {
		t.Helper()
		_, text := s.request(ctx, "GET", fmt.Sprintf("/calls/t/c/state?after=%d&wait=20s", version), "", http.StatusOK)
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		version = b.Version
		return b
	}
	asked := next()
	for asked.Prompt == nil || asked.Prompt.AuthURL == "" {
		if asked.Result != nil || ctx.Err() != nil {
			t.Fatalf("the user is not asked: %s", textOf(asked.Result))
		}
		asked = next()
	}
	output, err := os.ReadFile(said.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, to, ok := strings.Cut(string(output), "send users of the client back to ")
	if to, _, _ = strings.Cut(to, "\n"); !ok || !strings.HasPrefix(to, "http://"+listen+"/mcp/p/") {
		t.Fatalf("users are to be sent back to %q", to)
	}
	provider.RegisterRedirect(idp.DefaultClientID, to)
	s.kill()
	s.start()
	version = 0
	next() // the prompt exists again
	page, err := provider.NewBrowser().Allow(ctx, asked.Prompt.AuthURL, "ada", "lovelace")
	if err != nil {
		t.Fatalf("%v: %s", err, page)
	}
	_, shown, _ := strings.Cut(page, "<strong>")
	shown, _, _ = strings.Cut(shown, "</strong>")
	code := strings.Fields(shown)
	if n := hits.Load(); len(code) != 2 || n != 0 {
		t.Fatalf("before the user has confirmed there were %d calls: %s", n, page)
	}
	version = 0
	for answered := 0; ; {
		b := next()
		switch {
		case b.Result != nil:
			if textOf(b.Result) != "hit" || len(code) != 0 {
				t.Errorf("the result is %s", textOf(b.Result))
			}
			if n := hits.Load(); n != 1 {
				t.Errorf("the call was carried out %d times", n)
			}
			return
		case ctx.Err() != nil:
			t.Fatal("no result")
		case b.Prompt != nil && len(b.Prompt.Choices) > 0 && b.Prompt.Number != answered && len(code) > 0:
			answered = b.Prompt.Number
			s.request(ctx, "POST", "/calls/t/c/answers", fmt.Sprintf(`{"prompt":%d,"selected":%d}`, answered, slices.Index(b.Prompt.Choices, code[0])), http.StatusNoContent)
			code = code[1:]
		}
	}
}

func textOf(r *resolvedState) string {
	if r == nil || r.Text == nil {
		return ""
	}
	return *r.Text
}
