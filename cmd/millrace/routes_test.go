package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/edge"
)

// TestRoutesAreClosed checks that a route without a scope requires the operator's token, and that a thread in a path belongs to
// the owner who asks.
func TestRoutesAreClosed(t *testing.T) {
	m := routes{http.NewServeMux(), edge.NewToken(newToken())}
	saw := ""
	m.HandleFunc("GET /threads/{thread}/messages", func(_ http.ResponseWriter, r *http.Request) { saw = r.PathValue("thread") })
	m.HandleFunc("GET /threads/{thread}/news", func(_ http.ResponseWriter, r *http.Request) { saw = r.PathValue("thread") })
	for _, test := range []struct {
		from *bearer
		path string
		code int
		saw  string
	}{
		{nil, "/threads/t/messages", 200, "t"},
		{nil, "/threads/t/news", 200, "t"},
		{&bearer{owner: "a", scopes: scopeNames["read"]}, "/threads/t/messages", 200, "a:t"},
		{&bearer{owner: "a", scopes: scopeNames["admin"]}, "/threads/t/messages", 200, "t"},
		{&bearer{owner: "a"}, "/threads/t/messages", 403, ""},
		{&bearer{owner: "a", scopes: scopeNames["call"]}, "/threads/t/news", 403, ""},
		{&bearer{owner: "a", scopes: scopeNames["admin"]}, "/threads/t/news", 200, "t"},
	} {
		saw = ""
		r, w := httptest.NewRequest("GET", test.path, nil), httptest.NewRecorder()
		if test.from != nil {
			r = r.WithContext(context.WithValue(r.Context(), bearerKey{}, test.from))
		}
		if m.ServeHTTP(w, r); w.Code != test.code || saw != test.saw {
			t.Errorf("%s of %+v is answered %d and sees %q; want %d and %q", test.path, test.from, w.Code, saw, test.code, test.saw)
		}
	}
}

// TestBadTokens checks that an error in a file of tokens names its line and does not repeat a token.
func TestBadTokens(t *testing.T) {
	t.Setenv("TEST_TOKEN", "canary-canary-canary-canary-canary")
	t.Setenv("TEST_SHORT", "canary")
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
	for text, want := range map[string]string{
		"":                                   "",
		"a env:TEST_TOKEN\n#\n  \n":          "",
		"a " + digest + " user=u":            "",
		"a " + digest + "\na env:TEST_TOKEN": "",
		"a":                                  "line 1: it has to have",
		"\na env:TEST_SHORT":                 "line 2: env:TEST_SHORT has no token",
		"a env:MILLRACE_UNSET":               "line 1: the variable MILLRACE_UNSET",
		"a /nowhere":                         "no such file",
		"a:b " + digest:                      "no name of an owner",
		"a~b " + digest:                      "no name of an owner",
		"api " + digest:                      "no name of an owner",
		"a " + digest + "\nb " + digest:      "line 2: the token is that of another line",
		"a " + digest + " user=u\na env:TEST_TOKEN user=v": "line 2: another line gives a another user",
		"a " + digest + " scopes=root":                     `not "root"`,
		"a " + digest + " scopes=":                         `not ""`,
		"a " + digest + " scope=read":                      "line 1: \"scope=read\" is neither",
		"a " + digest + " user=u user=v":                   "is there twice",
		"a " + digest + " tools=x,y*":                      "",
		"a " + digest + " tools=x tools=y":                 "is there twice",
		"a " + digest + " tools=":                          "\"tools=\" is neither",
		"a " + digest + " tools=x,":                        "tools has the pattern \"\"",
		"a " + digest + " tools=[":                         "tools has the pattern \"[\"",
		"a " + digest + " tools=x scopes=admin":            "may have all tools",
		"a " + digest + " tools=x\na env:TEST_TOKEN":       "line 2: another line gives a other tools",
	} {
		_, err := parseTokens([]byte(text))
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	name := filepath.Join(t.TempDir(), "tokens")
	writeConfig(t, name, "")
	if err := os.Chmod(name, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := openTokens(name); err == nil || !strings.Contains(err.Error(), "mode 0620") {
		t.Errorf("a file that others can write: %v", err)
	}
}
