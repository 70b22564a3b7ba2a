package toolserver_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// scope returns the scopes in an authorization URL.
func scope(t *testing.T, authURL string) string {
	t.Helper()
	u, err := url.Parse(authURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("scope")
}

// addScoped adds tools named after the scopes they need.
func (st *stage) addScoped(names ...string) {
	for _, name := range names {
		toolserver.AddWithOptions(st.server, strings.ReplaceAll(name, " ", "-"), "Needs scopes.",
			toolserver.ToolOptions{RequireOAuth: "idp", Scopes: strings.Fields(name)},
			func(ctx context.Context, _ none) (string, error) {
				_, err := toolserver.Token(ctx)
				return "done", err
			})
	}
}

func TestMinimumScopes(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.addScoped("read", "write read", "admin")
	const base = "openid profile offline_access"
	want := func(authURL, scopes string) string {
		t.Helper()
		if got := scope(t, authURL); got != scopes {
			t.Errorf("asks for %q, want %q", got, scopes)
		}
		return authURL
	}
	st.call("whoami", "c1", "{}", user("u1"))
	st.allow(want(st.authURL(), base), "ada", "lovelace")
	st.nextResult()
	st.call("read", "c2", "{}", user("u1"))
	st.allow(want(st.authURL(), base+" read"), "ada", "lovelace")
	if got := st.nextResult(); got != "done" {
		t.Errorf("result %q", got)
	}
	// The user is asked for the existing and the missing scopes, and for none of another user.
	st.call("write-read", "c3", "{}", user("u1"))
	st.allow(want(st.authURL(), base+" read write"), "ada", "lovelace")
	st.nextResult()
	for _, tool := range []string{"read", "write-read", "whoami"} {
		st.call(tool, "c4-"+tool, "{}", user("u1"))
		if got := st.nextResult(); strings.HasPrefix(got, "Error") {
			t.Errorf("%s: result %q", tool, got)
		}
	}
	st.call("read", "c5", "{}", user("u2"))
	want(st.authURL(), base+" read")
	// The provider grants less than needed: the user is not asked again, and the token stays.
	st.call("admin", "c6", "{}", user("u1"))
	st.allow(want(st.authURL(), base+" admin read write"), "ada", "lovelace")
	if got := st.nextResult(); got != "Error: the access that was authorized does not include what the tool needs" {
		t.Errorf("result %q", got)
	}
	st.call("write-read", "c7", "{}", user("u1"))
	if got := st.nextResult(); got != "done" {
		t.Errorf("result %q", got)
	}
	st.post("/close_thread", `{"thread_id":"thread-1"}`)
	st.ends()
}

// TestScopesOfRefresh checks that a renewed token keeps its scopes.
func TestScopesOfRefresh(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.addScoped("read")
	st.call("read", "c1", "{}", user("u1"))
	st.allow(st.authURL(), "ada", "lovelace")
	st.nextResult()
	st.vault.expire(t)
	st.call("read", "c2", "{}", user("u1"))
	if got := st.nextResult(); got != "done" || st.idp.Refreshes() != 1 {
		t.Errorf("result %q after %d refreshes", got, st.idp.Refreshes())
	}
	st.ends()
}

// TestScopesOfTwoCalls has two calls of a user wait for different scopes. An authorization for the
// smaller set ends only the wait of the call that it suffices for. The test fails if a token is used
// for scopes that it lacks, or if an authorization can no longer be completed.
func TestScopesOfTwoCalls(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.addScoped("read", "write read")
	st.call("write-read", "c1", "{}", user("u1"))
	both := st.authURL()
	st.call("read", "c2", "{}", user("u1"))
	st.allow(st.authURL(), "ada", "lovelace")
	if got := st.nextResult(); got != "done" {
		t.Errorf("the call that needs less: result %q", got)
	}
	st.allow(both, "ada", "lovelace")
	if got := st.nextResult(); got != "done" {
		t.Errorf("the call that needs more: result %q", got)
	}
	if n := st.idp.Exchanges(); n != 2 {
		t.Errorf("%d exchanges, want one for each of the two sets", n)
	}
	st.ends()
}

// TestScopesChangedAtRestart has a tool need more scopes after a restart. The earlier authorization is
// not enough: the test fails if it completes a call without the new scopes.
func TestScopesChangedAtRestart(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()})
	scopes := []string{"read"}
	st.more = func() {
		toolserver.AddWithOptions(st.server, "growing", "Needs more and more.", toolserver.ToolOptions{RequireOAuth: "idp", Scopes: scopes},
			func(ctx context.Context, _ none) (string, error) {
				_, err := toolserver.Token(ctx)
				return "done", err
			})
	}
	st.more()
	st.call("growing", "c1", "{}", user("u1"))
	first := st.grant(st.authURL())
	scopes = []string{"read", "write"}
	st.restart()
	if err := st.server.Start(); err != nil {
		t.Fatal(err)
	}
	again := st.authURL()
	if got := scope(t, again); got != "openid profile offline_access read write" {
		t.Errorf("asks for %q after the tool has changed", got)
	}
	if code := st.open(first.String()); code != http.StatusBadRequest {
		t.Errorf("page %d for what was asked before", code)
	}
	st.allow(again, "ada", "lovelace")
	if got := st.nextResult(); got != "done" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

func TestScopesNeedProvider(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, `tool "x" has scopes but requires no provider`) {
			t.Errorf("panic %q", got)
		}
	}()
	toolserver.AddWithOptions(st.server, "x", "X.", toolserver.ToolOptions{Scopes: []string{"read"}}, func(context.Context, none) (string, error) { return "", nil })
}
