package toolserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

func TestD01_D03_Manifest(t *testing.T) {
	rt := newRuntime(t, toolserver.Options{Name: "sums", Description: "Sums up.", PublicURL: "https://tools.example/base/"})
	addTools(rt.server)
	r := httptest.NewRequest(http.MethodGet, "/.well-known/rap-toolset", nil)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	rt.server.ServeHTTP(w, r)
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", w.Code, w.Header())
	}
	m, err := agentproto.DecodeManifest(w.Body.Bytes(), agentproto.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Endpoint != "https://tools.example/base/invoke" || m.Name != "sums" || m.Tools[0].Name != "add" {
		t.Errorf("manifest = %s", w.Body)
	}
	want := `{"type":"object","properties":{"a":{"type":"integer","description":"the first number"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}`
	if got := string(m.Tools[0].InputSchema); got != want {
		t.Errorf("schema = %s\nwant     %s", got, want)
	}
}

func TestD02_Misuse(t *testing.T) {
	ok := func(context.Context, none) (string, error) { return "", nil }
	server := func() *toolserver.Server {
		return toolserver.New(toolserver.Options{Name: "x", PublicURL: "https://tools.example"})
	}
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"toolserver: New: Name must have 1 to 128 bytes", func() { toolserver.New(toolserver.Options{}) }},
		{"toolserver: New: PublicURL must be an absolute http or https URL", func() { toolserver.New(toolserver.Options{Name: "x", PublicURL: "tools.example"}) }},
		{`toolserver: Add: "two words" is not a name`, func() { toolserver.Add(server(), "two words", "d", ok) }},
		{`toolserver: Add: tool "t" has no description`, func() { toolserver.Add(server(), "t", "", ok) }},
		{`toolserver: Add: tool "t" has no function`, func() { toolserver.Add[none, string](server(), "t", "d", nil) }},
		{`toolserver: Add: tool "t": its arguments must be a struct or a map, not int`, func() {
			toolserver.Add(server(), "t", "d", func(context.Context, int) (string, error) { return "", nil })
		}},
		{`toolserver: Add: tool "t": For[`, func() {
			toolserver.Add(server(), "t", "d", func(context.Context, struct{ C chan int }) (string, error) { return "", nil })
		}},
		{`toolserver: Add: there is a tool "t" already`, func() {
			s := server()
			toolserver.Add(s, "t", "d", ok)
			toolserver.Add(s, "t", "d", ok)
		}},
		{`toolserver: AddWithOptions: tool "t" requires the provider "p", which the server does not have`, func() {
			toolserver.AddWithOptions(server(), "t", "d", toolserver.ToolOptions{RequireOAuth: "p"}, ok)
		}},
		{`toolserver: New: OAuthProvider "p": AuthURL must be an absolute https URL`, func() {
			toolserver.New(toolserver.Options{Name: "x", PublicURL: "https://tools.example", Providers: []toolserver.OAuthProvider{
				{ID: "p", AuthURL: "http://id.example/auth", TokenURL: "https://id.example/token", ClientID: "c"}}})
		}},
		{`toolserver: New: OAuthProvider "p": somebody who is sent an auth_url would authorize for the user of the call: set SubjectIsUser`, func() { provide(toolserver.OAuthProvider{}) }},
		{`toolserver: New: OAuthProvider "p": SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize exclude each other`, func() {
			provide(toolserver.OAuthProvider{SubjectIsUser: true, UnsafeAnyoneMayAuthorize: "why"})
		}},
		{`toolserver: New: OAuthProvider "p": SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize exclude each other`, func() {
			provide(toolserver.OAuthProvider{Confirm: true, UnsafeAnyoneMayAuthorize: "why"})
		}},
		{`toolserver: New: OAuthProvider "p": SubjectIsUser, Confirm and UnsafeAnyoneMayAuthorize exclude each other`, func() {
			provide(toolserver.OAuthProvider{Confirm: true, SubjectIsUser: true})
		}},
		{`<nil>`, func() { provide(toolserver.OAuthProvider{SubjectIsUser: true}) }},
		{`<nil>`, func() { provide(toolserver.OAuthProvider{Confirm: true}) }},
		{`<nil>`, func() { provide(toolserver.OAuthProvider{UnsafeAnyoneMayAuthorize: "why"}) }},
		{`toolserver: New: OAuthProvider "p": state must not be in Params`, func() {
			toolserver.New(toolserver.Options{Name: "x", PublicURL: "https://tools.example", Providers: []toolserver.OAuthProvider{
				{ID: "p", AuthURL: "https://id.example/auth", TokenURL: "https://id.example/token", ClientID: "c", Confirm: true, Params: map[string]string{"state": "1"}}}})
		}},
		{"toolserver: Choose: the context is not one of a tool function", func() { toolserver.Choose(context.Background(), "?", []string{"a"}, 0) }},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, c.want) {
					t.Errorf("panic %q\nwant  %q", got, c.want)
				}
			}()
			c.f()
		}()
	}
}

func TestResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type city struct {
			Name string `json:"name"`
		}
		type word string
		text := "given"
		rt := newRuntime(t, toolserver.Options{})
		for i, c := range []struct {
			out  any
			want string
		}{
			{"plain", `"text":"plain"`},
			{"", `"text":""`},
			{word("named"), `"text":"named"`},
			{"bad \xff byte", "\"text\":\"bad \uFFFD byte\""},
			{city{"a<b"}, `"text":"{\"name\":\"a<b\"}"`},
			{[]int{1, 2}, `"text":"[1,2]"`},
			{agentproto.Content{Type: agentproto.KindText, Text: "x"}, `"content":[{"type":"text","text":"x"}]`},
			{[]agentproto.Content{}, `"content":[]`},
			{&agentproto.ToolResult{ID: "other", Text: &text}, `"text":"given"`},
		} {
			name := fmt.Sprint("t", i)
			toolserver.Add(rt.server, name, "Returns.", func(context.Context, none) (any, error) { return c.out, nil })
			rt.call(name, name, "{}")
			m := rt.next()
			if !strings.Contains(m.body, c.want) || m.Key().ID != name {
				t.Errorf("%#v: %s, want %s", c.out, m.body, c.want)
			}
		}
		rt.close()
	})
}

// provide makes a server with a provider that has all required fields in addition to those of p.
func provide(p toolserver.OAuthProvider) {
	p.ID, p.AuthURL, p.TokenURL, p.KeysURL = "p", "https://id.example/auth", "https://id.example/token", "https://id.example/keys"
	p.ClientID, p.Issuer, p.Scopes = "c", "https://id.example", []string{"openid"}
	toolserver.New(toolserver.Options{Name: "x", PublicURL: "https://tools.example", Providers: []toolserver.OAuthProvider{p}})
}
