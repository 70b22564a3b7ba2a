package toolserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// respond makes a response of a provider.
func respond(code int, contentType, body string, header ...string) *http.Response {
	resp := status(code, append(header, "Content-Type", contentType)...)
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return resp
}

// endless is a body without an end.
type endless struct{ read *atomic.Int64 }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// TestO15_StrangeAnswers has token endpoints that answer anything but a token, including
// the code and the verifier. The user gets a fixed error text.
func TestO15_StrangeAnswers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer other.Close()
	var read atomic.Int64
	for name, answer := range map[string]func(form url.Values) *http.Response{
		"redirect that keeps the body": func(f url.Values) *http.Response {
			return respond(307, "text/plain", "", "Location", other.URL+"/?code="+f.Get("code"))
		},
		"redirect": func(f url.Values) *http.Response {
			return respond(302, "text/plain", "", "Location", other.URL+"/?code="+f.Get("code"))
		},
		"description with the code": func(f url.Values) *http.Response {
			b, _ := json.Marshal(map[string]string{"error": "invalid_grant", "error_description": "Invalid code: " + f.Get("code") + " " + f.Get("code_verifier")})
			return respond(400, "application/json", string(b))
		},
		"error with the code": func(f url.Values) *http.Response {
			b, _ := json.Marshal(map[string]string{"error": f.Get("code")})
			return respond(400, "application/json", string(b))
		},
		"page":        func(f url.Values) *http.Response { return respond(200, "text/html", "<h1>"+f.Get("code")+"</h1>") },
		"empty":       func(url.Values) *http.Response { return respond(200, "application/json", "") },
		"no token":    func(url.Values) *http.Response { return respond(200, "application/json", `{"access_token":""}`) },
		"not a token": func(url.Values) *http.Response { return respond(200, "application/json", `{"access_token":{"a":1}}`) },
		"another type": func(f url.Values) *http.Response {
			return respond(200, "application/json", `{"access_token":"canary-mac-token","token_type":"mac"}`)
		},
		"endless": func(url.Values) *http.Response {
			resp := respond(200, "application/json", "")
			resp.Body, resp.ContentLength = io.NopCloser(endless{&read}), -1
			return resp
		},
		"cut": func(f url.Values) *http.Response {
			resp := respond(200, "application/json", `{"access_token":"canary`)
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"access_token":"canary`), cutOff{}))
			return resp
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &meddler{answer: func(r *http.Request, real func() *http.Response) *http.Response {
				body, _ := io.ReadAll(r.Body)
				form, _ := url.ParseQuery(string(body))
				st := form.Get("code")
				if st == "" {
					t.Error("there is no code")
				}
				return answer(form)
			}}
			st := newStage(t, toolserver.Options{ProviderTransport: m})
			st.secrets = append(st.secrets, "canary-mac-token")
			st.call("whoami", "c1", "{}", user("u1"))
			to := st.grant(st.authURL())
			if code := st.open(to.String()); code != 502 {
				t.Errorf("page %d", code)
			}
			if got := st.nextResult(); got != failed || st.vault.saved() != 0 {
				t.Errorf("result %q, %d tokens", got, st.vault.saved())
			}
			st.secrets = append(st.secrets, to.Query().Get("code"))
			st.ends()
		})
	}
	if n := read.Load(); n == 0 || n > 2<<20 {
		t.Errorf("%d bytes of an endless answer were read", n)
	}
}

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestProviderNetworks has a tool function that receives addresses from others (threat 14).
// The guard decides by the address of the connection, and a redirect is not followed to
// another network.
func TestProviderNetworks(t *testing.T) {
	var hits atomic.Int32
	inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer inside.Close()
	st := newStage(t, toolserver.Options{PublicURL: "https://tools.example", NoStartPage: true, ProviderTimeout: time.Second})
	type in struct{ URL string }
	toolserver.AddWithOptions(st.server, "fetch", "Fetches.", toolserver.ToolOptions{RequireOAuth: "idp"}, func(ctx context.Context, in in) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, nil)
		if err != nil {
			return "", err
		}
		resp, err := toolserver.Client(ctx).Do(r)
		if r.Header.Get("Authorization") != "" {
			t.Error("the token is in a request of the tool function, which it may print or send again")
		}
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		return "fetched", nil
	})
	st.call("whoami", "c0", "{}", user("u1"))
	to := st.grant(st.authURL())
	w := httptest.NewRecorder()
	st.server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, to.RequestURI(), nil))
	if w.Code != 200 {
		t.Fatalf("page %d", w.Code)
	}
	if got := st.nextResult(); got != "ada" { // addresses in the operator's configuration are allowed
		t.Fatalf("result %q", got)
	}
	for i, address := range []string{
		inside.URL, strings.Replace(inside.URL, "127.0.0.1", "localhost", 1), strings.Replace(inside.URL, "127.0.0.1", "2130706433", 1),
		strings.Replace(inside.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1), strings.Replace(inside.URL, "127.0.0.1", "0.0.0.0", 1),
		"https://169.254.169.254/latest/meta-data", "https://10.0.0.1", "https://100.64.0.1", "https://[fd00::1]", "https://192.0.0.8",
		"http://tools.example/", "http://169.254.169.254/", "file:///etc/passwd",
	} {
		st.call("fetch", "c"+address, mustJSON(t, in{address}), user("u1"))
		if got := st.nextResult(); !strings.HasPrefix(got, "Error: ") {
			t.Errorf("%d, %s: result %q", i, address, got)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	st.ends()
}

// TestClientRedirects has an API that redirects to another origin. The token is not sent
// there.
func TestClientRedirects(t *testing.T) {
	var hits atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer other.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/?"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), http.StatusTemporaryRedirect)
	}))
	defer api.Close()
	st := newStage(t, toolserver.Options{})
	toolserver.AddWithOptions(st.server, "fetch", "Fetches.", toolserver.ToolOptions{RequireOAuth: "idp"}, func(ctx context.Context, _ none) (string, error) {
		_, err := toolserver.Client(ctx).Get(api.URL)
		return "", err // the error contains the address and the token
	})
	st.call("fetch", "c1", "{}", user("u1"))
	st.allow(st.authURL(), "ada", "lovelace")
	if got := st.nextResult(); !strings.HasPrefix(got, "Error: ") || hits.Load() != 0 {
		t.Errorf("result %q, %d requests", got, hits.Load())
	}
	st.ends()
}

// TestRevokeURLIsTrusted closes the conversation of a token whose provider revokes tokens at an address of its own. The test fails
// if the server does not connect to that address, although the operator has configured it.
func TestRevokeURLIsTrusted(t *testing.T) {
	revoked := make(chan string, 1)
	revoker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { revoked <- r.FormValue("token_type_hint") }))
	defer revoker.Close()
	opts := toolserver.Options{PublicURL: "https://tools.example", NoStartPage: true}
	st := newStage(t, opts, func(p *toolserver.OAuthProvider) { p.RevokeURL = revoker.URL })
	st.call("whoami", "c1", "{}")
	to := st.grant(st.authURL())
	st.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, to.RequestURI(), nil))
	st.nextResult()
	st.post("/close_thread", `{"thread_id":"thread-1"}`)
	select {
	case hint := <-revoked:
		if hint != "refresh_token" {
			t.Errorf("a %s was revoked", hint)
		}
	case <-time.After(st.patience):
		t.Errorf("no token was revoked: %s", st.log)
	}
	st.ends()
}
