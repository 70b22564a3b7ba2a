package toolserver_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// addEcho adds a tool that does not need authorization.
func (st *stage) addEcho() {
	toolserver.Add(st.server, "echo", "Repeats.", func(_ context.Context, in struct{ Text string }) (string, error) {
		return in.Text, nil
	})
}

// TestO19_CodesFromRedirects has a user choose the code of a redirect: words that every message
// contains, and words of other results. Other users' calls must still get their results, before
// and after a restart.
func TestO19_CodesFromRedirects(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"tool_result", `"type":"tool_result"`, "group_id", "thread-1", "Error: the authorization failed", "credential in it and was withheld", "harmless words"} {
		for _, state := range []string{"", t.TempDir()} {
			t.Run(fmt.Sprintf("%s/%t", code, state != ""), func(t *testing.T) {
				st := newStage(t, toolserver.Options{State: state})
				st.addEcho()
				st.call("whoami", "c1", "{}", user("mallory"))
				to := st.grant(st.authURL())
				if status := st.open(set(to, "code", code)); status != 502 {
					t.Errorf("page %d", status)
				}
				if got := st.nextResult(); got != failed {
					t.Errorf("the call that was authorized with %q: %q", code, got)
				}
				echo := func(id string) {
					t.Helper()
					st.call("echo", id, `{"Text":"harmless words"}`, user("ada"))
					if got := st.nextResult(); got != "harmless words" {
						t.Errorf("another user's result %q", got)
					}
				}
				echo("c2")
				if state != "" {
					st.restart()
					st.addEcho()
					echo("c3")
				}
				st.close()
			})
		}
	}
}

// TestO11_ParametersOfRedirects sends redirects that no provider makes. They are refused before
// the state is checked, so the authorization stays open.
func TestO11_ParametersOfRedirects(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.addEcho()
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	for name, address := range map[string]string{
		"long code":    set(to, "code", strings.Repeat("a", 500_000)),
		"4097 bytes":   set(to, "code", strings.Repeat("a", 4097)),
		"long state":   set(to, "state", to.Query().Get("state")+strings.Repeat("a", 4096)),
		"long other":   set(to, "x", strings.Repeat("a", 4097)),
		"long name":    set(to, strings.Repeat("a", 4097), "x"),
		"many":         to.String() + strings.Repeat("&x", 20_000),
		"two codes":    to.String() + "&code=x",
		"equal codes":  to.String() + "&code=" + to.Query().Get("code"),
		"two states":   to.String() + "&state=" + to.Query().Get("state"),
		"two iss":      to.String() + "&iss=x",
		"two errors":   to.String() + "&error=x&error=y",
		"hidden state": to.String() + "&st%61te=x",
	} {
		if code := st.open(address); code != 400 {
			t.Errorf("%s: %d, want 400", name, code)
		}
	}
	st.call("echo", "c2", mustJSON(t, map[string]string{"Text": strings.Repeat("a", 900_000)}))
	if got := st.nextResult(); len(got) != 900_000 {
		t.Errorf("a long result became %.100q", got)
	}
	if code := st.open(to.String()); code != 200 {
		t.Errorf("the right one: %d", code)
	}
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	if n := st.idp.Exchanges(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	st.ends()
}

// TestO19_ManyCodes has users choose 10,000 codes while others' calls are answered. The number of
// secrets that the server searches for does not grow.
func TestO19_ManyCodes(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.addEcho()
	st.call("whoami", "c0", "{}", user("u0"))
	to := st.grant(st.authURL())
	before := toolserver.Guarded(st.server)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2500 {
				w := httptest.NewRecorder()
				st.server.ServeHTTP(w, httptest.NewRequest("GET", set(to, "state", rand.Text()), nil))
				if w.Code != 400 {
					t.Errorf("page %d", w.Code)
				}
			}
		})
	}
	for i := range 200 {
		st.call("echo", fmt.Sprint("e", i), `{"Text":"tool_result"}`)
		if got := st.nextResult(); got != "tool_result" {
			t.Errorf("result %q", got)
		}
	}
	all.Wait()
	if after := toolserver.Guarded(st.server); after != before {
		t.Errorf("%d windows are looked for, %d before", after, before)
	}
	// The server does not search for a refused code either, nor for the authorization's own secrets
	// once the call has ended.
	st.open(set(to, "code", rand.Text()))
	if got := st.nextResult(); got != failed {
		t.Errorf("result %q", got)
	}
	if after := toolserver.Guarded(st.server); after != 0 {
		t.Errorf("%d windows are looked for in the end", after)
	}
	st.ends()
}

// TestO19_TokensOfWords has a provider whose tokens are words of the protocol and common words.
// They do not leave the server, and every call has a result.
func TestO19_TokensOfWords(t *testing.T) {
	for _, token := range []string{"tool_result_tool_result", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the tool's answer had a credential in it and was withheld", "had a credential in it"} {
		st := newStage(t, toolserver.Options{ProviderTransport: issues(token)})
		st.addEcho()
		toolserver.AddWithOptions(st.server, "token", "Gives its token away.", toolserver.ToolOptions{RequireOAuth: "idp"}, func(ctx context.Context, _ none) (string, error) {
			secret, err := toolserver.Token(ctx)
			return "<" + secret.Reveal() + ">", err
		})
		st.call("token", "c1", "{}", user("u1"))
		st.open(st.grant(st.authURL()).String())
		want := "Error: the tool's answer had a credential in it and was withheld"
		if strings.HasPrefix(token, "aaaa") { // too simple: it would also match others' texts
			want = "<" + token + ">"
		}
		if got := st.nextResult(); got != want {
			t.Errorf("%q: result %q", token, got)
		}
		for i, text := range []string{"harmless", "a tool_result", "aaaaaaaaaaaa"} {
			st.call("echo", fmt.Sprint("e", i), mustJSON(t, map[string]string{"Text": text}), user("u2"))
			if got := st.nextResult(); got != text {
				t.Errorf("%q: another user's result %q", token, got)
			}
		}
		st.call("echo", "e9", mustJSON(t, map[string]string{"Text": "x " + token}), user("u2"))
		if m := st.next(); m.Type() != agentproto.TypeToolResult {
			t.Errorf("got %s", m.body)
		}
		st.close()
		if n := strings.Count(st.log.String(), "too simple to be looked for"); (n == 1) != strings.HasPrefix(token, "aaaa") {
			t.Errorf("%q: the log tells %d times that it is not looked for", token, n)
		}
	}
}

// issues returns a provider that answers each code with the same access token.
func issues(token string) *meddler {
	return &meddler{answer: func(r *http.Request, real func() *http.Response) *http.Response {
		if !strings.HasSuffix(r.URL.Path, "/token") {
			return real()
		}
		return respond(200, "application/json", fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer"}`, token))
	}}
}
