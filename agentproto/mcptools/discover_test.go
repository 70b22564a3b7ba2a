package mcptools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A slow server answers every request after a time. It describes itself as a resource, and no authorization server.
type slow struct{ after time.Duration }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	resp := &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r}
	if r.URL.Path == "/.well-known/oauth-protected-resource/mcp" {
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader(`{"resource":"https://s.example/mcp","authorization_servers":["https://idp.example"]}`))
	}
	return resp, nil
}

// TestSlowDiscovery has twenty calls look for a slow authorization server. The test fails if one of them waits for longer than a
// minute because others are looking, if one that is cancelled goes on waiting, or if the document of the client is served late.
func TestSlowDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: slow{14 * time.Second}}
		m := &member{
			server: &Server{Name: "s", URL: "https://s.example/mcp"}, pages: "https://tools.example/mcp/s", log: slog.New(slog.DiscardHandler),
			outside: &outside{metadata: client, others: client}, discovering: make(chan struct{}, 1),
		}
		begin := time.Now()
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				_, _, err := m.discover(t.Context(), &challenge{}, "")
				if _, ok := errors.AsType[discoveryError](err); !ok || time.Since(begin) > time.Minute {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the call was cancelled")
		cancel(gone)
		if _, _, err := m.discover(ctx, &challenge{}, ""); !errors.Is(err, gone) || time.Since(begin) > 0 {
			t.Errorf("cancelled: %v after %v", err, time.Since(begin))
		}
		w := httptest.NewRecorder()
		m.serveDocument(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusOK || time.Since(begin) > 0 {
			t.Errorf("the document: %d after %v", w.Code, time.Since(begin))
		}
		calls.Wait()
	})
}

// A describer is a resource and its authorization server.
type describer struct{ scopes string }

func (d describer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := `{"resource":"https://s.example/mcp","authorization_servers":["https://idp.example"],"scopes_supported":[` + d.scopes + `]}`
	if r.URL.Host == "idp.example" {
		body = `{"issuer":"https://idp.example","authorization_endpoint":"https://idp.example/auth","token_endpoint":"https://idp.example/token","response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// TestManyScopes has a server name more scopes than can be requested, in its challenge and in its metadata. The test fails if they
// get into an authorization, where they are compared with each other.
func TestManyScopes(t *testing.T) {
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprint("scope", i)
	}
	for _, at := range []struct{ challenge, metadata string }{
		{strings.Join(many, " "), `"read"`},
		{"", `"` + strings.Join(many, `","`) + `"`},
	} {
		client := &http.Client{Transport: describer{at.metadata}}
		m := &member{
			server: &Server{Name: "s", URL: "https://s.example/mcp", OAuth: &OAuth{ClientID: "c", Issuer: "https://idp.example"}}, pages: "https://tools.example/mcp/s",
			log: slog.New(slog.DiscardHandler), outside: &outside{metadata: client, others: client}, discovering: make(chan struct{}, 1),
			tools: toolserver.New(toolserver.Options{Name: "s", PublicURL: "https://tools.example/mcp/s", Logger: slog.New(slog.DiscardHandler)}),
		}
		_, _, err := m.discover(t.Context(), &challenge{params: map[string]string{"scope": at.challenge}}, "")
		if err == nil || !strings.HasSuffix(err.Error(), "it names too many scopes") {
			t.Errorf("got %v", err)
		}
		m.tools.Close(t.Context())
	}
}

// A registrar answers registrations.
type registrar struct {
	status int
	body   string
}

func (r registrar) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(r.body)), Request: req}, nil
}

// TestFailedRegistration registers a client at servers whose answers cannot be used. The test fails if the error, which is logged,
// contains the secret of the client or other text of the server.
func TestFailedRegistration(t *testing.T) {
	tools := toolserver.New(toolserver.Options{Name: "s", PublicURL: "https://tools.example/mcp/s", Logger: slog.New(slog.DiscardHandler)})
	defer tools.Close(t.Context())
	const unusable = "the answer to the registration cannot be used"
	for body, c := range map[string]struct {
		status int
		want   string
	}{
		`{"client_id":"c","client_secret":"canary","client_secret_expires_at":"never"}`:    {201, unusable},
		`{"client_id":"c","client_secret":"canary"}`:                                       {202, unusable},
		`{"client_secret":"canary"}`:                                                       {201, unusable},
		`canary`:                                                                           {400, unusable},
		`{"error":"invalid_client_metadata","error_description":"canary"}`:                 {400, "the registration was refused: invalid_client_metadata"},
		`{"error":"canary"}`:                                                               {400, "the registration was refused"},
		`{"client_id":"c","client_secret":"canary","client_uri":"javascript:alert(1)"}`:    {201, unusable},
		`{"client_id":"c","client_secret":"canary","redirect_uris":["javascript:canary"]}`: {201, unusable},
	} {
		client := &http.Client{Transport: registrar{c.status, body}}
		m := &member{server: &Server{Name: "s", URL: "https://s.example/mcp"}, pages: "https://tools.example/mcp/s", tools: tools, outside: &outside{others: client}}
		r := registration{Issuer: "https://idp.example"}
		err := m.register(t.Context(), &r, registration{}, &oauthex.AuthServerMeta{RegistrationEndpoint: "https://idp.example/register"})
		if err == nil || err.Error() != c.want {
			t.Errorf("%d %s: %v", c.status, body, err)
		}
	}
}

// TestRegistrationOfAnotherAddress uses registrations of earlier processes. The test fails if one is used whose users would be sent
// back to an address that this program no longer has, or if one that can be used is replaced.
func TestRegistrationOfAnotherAddress(t *testing.T) {
	tools := toolserver.New(toolserver.Options{Name: "s", PublicURL: "https://tools.example/mcp/s", Logger: slog.New(slog.DiscardHandler)})
	defer tools.Close(t.Context())
	client := &http.Client{Transport: registrar{201, `{"client_id":"new"}`}}
	m := &member{server: &Server{Name: "s", URL: "https://s.example/mcp"}, pages: "https://tools.example/mcp/s", tools: tools, outside: &outside{others: client}}
	for redirect, want := range map[string]string{
		"": "old", // an earlier version did not store it
		tools.RedirectURI(m.providerID("https://idp.example")): "old",
		"https://earlier.example/oauth/callback/x":             "new",
	} {
		r := registration{Issuer: "https://idp.example"}
		before := registration{ClientID: "old", Made: true, Redirect: redirect}
		err := m.register(t.Context(), &r, before, &oauthex.AuthServerMeta{RegistrationEndpoint: "https://idp.example/register"})
		if err != nil || r.ClientID != want || want == "new" && r.Redirect != tools.RedirectURI(m.providerID(r.Issuer)) {
			t.Errorf("redirect URI %q: client %q, %v", redirect, r.ClientID, err)
		}
	}
}
