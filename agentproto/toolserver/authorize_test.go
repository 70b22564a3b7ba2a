package toolserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

const (
	paused  = "Error: the access cannot be authorized now, since a number was wrong; it can be tried again later"
	tooMany = "Error: too many authorizations are pending"
)

// wrongNumber answers questions for a code with a number that the code does not contain.
func wrongNumber(code []string) func([]string) int {
	return func(choices []string) int {
		return slices.IndexFunc(choices, func(c string) bool { return !slices.Contains(code, c) })
	}
}

// code completes an authorization and returns the numbers on its last page.
func (st *stage) code(authURL, name, password string) []string {
	st.t.Helper()
	page, err := st.idp.NewBrowser().Allow(st.t.Context(), authURL, name, password)
	if err != nil {
		st.t.Fatal(err)
	}
	st.pages = append(st.pages, page)
	_, rest, _ := strings.Cut(page, "<strong>")
	rest, _, _ = strings.Cut(rest, "</strong>")
	return strings.Fields(rest)
}

// TestN12_PauseAfterWrongNumber has someone else authorize while the sender of the link guesses the number. The test fails if a
// second guess is possible: in another tab, with a new call, with another call, or after a restart.
func TestN12_PauseAfterWrongNumber(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()}, confirmed)
	st.call("whoami", "c1", "{}", user("mallory"))
	first := st.authURL()
	st.call("whoami", "tab", "{}", user("mallory"))
	second := st.grant(st.authURL())
	code := st.code(first, "ada", "lovelace")
	st.confirm(wrongNumber(code))
	got := map[string]string{}
	for range 2 {
		m := st.next()
		got[m.Key().ID] = m.Callback.(*agentproto.ToolResult).String()
	}
	if got["c1"] != "Error: the authorization was not confirmed" || got["tab"] != paused {
		t.Errorf("results %q", got)
	}
	if code := st.open(second.String()); code != http.StatusBadRequest {
		t.Errorf("the other tab: page %d", code)
	}
	st.call("whoami", "c2", "{}", user("mallory"))
	if got := st.nextResult(); got != paused {
		t.Errorf("with a new call: %q", got)
	}
	st.restart()
	st.call("whoami", "c3", "{}", user("mallory"))
	if got := st.nextResult(); got != paused {
		t.Errorf("after a restart: %q", got)
	}
	st.call("whoami", "c4", "{}", user("bob"))
	numbers := st.code(st.authURL(), "bob", "builder")
	st.confirm(func(choices []string) int {
		i := slices.Index(choices, numbers[0])
		numbers = numbers[1:]
		return i
	})
	if got := st.nextResult(); got != "bob" {
		t.Errorf("another user: %q", got)
	}
	st.ends()
}

// TestN15_RedirectTwiceAfterCrash ends the process while a code is exchanged, and opens the redirect again in the next
// process. The code is not sent again, and the user is asked again.
func TestN15_RedirectTwiceAfterCrash(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()})
	st.call("whoami", "c1", "{}", user("u1"))
	first := st.authURL()
	to := st.grant(first)
	arrived, release := st.idp.HoldTokenEndpoint()
	done := make(chan int)
	go func() { done <- st.open(to.String()) }()
	<-arrived
	if code := st.open(to.String()); code != http.StatusBadRequest {
		t.Errorf("in the same process: page %d", code)
	}
	st.restart()
	release()
	<-done
	if code := st.open(to.String()); code != http.StatusBadRequest {
		t.Errorf("in the next process: page %d", code)
	}
	again := st.authURL()
	if again == first {
		t.Error("the user is asked with the same address")
	}
	if n := st.idp.Exchanges(); n > 1 {
		t.Errorf("%d exchanges", n)
	}
	st.allow(again, "ada", "lovelace")
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

// TestN16_StartPage checks the headers that keep a start page out of frames, and that a redirect is refused in a browser
// that did not open the start page.
func TestN16_StartPage(t *testing.T) {
	const public = "https://tools.example"
	st := newStage(t, toolserver.Options{PublicURL: public})
	get := func(address string, method string, cookies ...*http.Cookie) *http.Response {
		r := httptest.NewRequest(method, strings.TrimPrefix(address, public), nil)
		r.Header.Set("Origin", "https://evil.example")
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		st.server.ServeHTTP(w, r)
		return w.Result()
	}
	st.call("whoami", "c1", "{}", user("u1"))
	start := st.authURL()
	page := get(start, http.MethodGet)
	if csp := page.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "form-action 'none'") || page.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers %v", page.Header)
	}
	if resp := get(start, http.MethodPost); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	// The secret of the start page, which the runtime knows, is not a valid state.
	for name, state := range map[string]string{"no state": "", "its own address": strings.TrimPrefix(start, public+"/oauth/start/")} {
		if resp := get(public+"/oauth/callback/idp?code=x&iss="+st.idp.Issuer()+"&state="+state, http.MethodGet, page.Cookies()...); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
	st.ends()
}

// TestN17_ManyAuthorizations has one user of a runtime ask for one more authorization than may be pending.
func TestN17_ManyAuthorizations(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	for i := range 64 {
		st.call("whoami", fmt.Sprint("c", i), "{}", user("mallory"))
		st.authURL()
	}
	st.call("whoami", "more", "{}", user("mallory"))
	if got := st.nextResult(); got != tooMany {
		t.Errorf("the 65th: %q", got)
	}
	st.call("whoami", "other", "{}", user("ada"))
	st.allow(st.authURL(), "ada", "lovelace")
	if got := st.nextResult(); got != "ada" {
		t.Errorf("another user: %q", got)
	}
	st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c7"}`)
	st.call("whoami", "again", "{}", user("mallory"))
	st.authURL()
	st.post("/close_thread", `{"thread_id":"thread-1"}`)
	st.ends()
}

// TestN18_SessionTokenIsRevoked authorizes for a conversation without a user, and closes it. The token is revoked.
func TestN18_SessionTokenIsRevoked(t *testing.T) {
	st := newStage(t, toolserver.Options{}, func(p *toolserver.OAuthProvider) {
		p.RevokeURL = strings.TrimSuffix(p.Issuer, "/") + "/revoke"
	})
	st.call("whoami", "c1", "{}", thread("root"))
	st.allow(st.authURL(), "ada", "lovelace")
	st.nextResult()
	token := st.vault.last
	key := st.vault.saves[0]
	st.post("/close_thread", `{"thread_id":"child"}`)
	if _, err := st.vault.Load(t.Context(), key); err != nil {
		t.Errorf("when another thread is closed: %v", err)
	}
	st.post("/close_thread", `{"thread_id":"root"}`)
	gone := func() bool { _, err := st.vault.Load(t.Context(), key); return err != nil }
	for end := time.Now().Add(st.patience); !gone() && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	if !gone() {
		t.Error("the token is still there")
	}
	st.call("whoami", "c2", "{}", thread("root")) // the next conversation with that name
	st.authURL()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, st.idp.UserInfoURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Access.Reveal())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: st.idp.CertPool()}}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the provider still takes the token: %v, %v", resp, err)
	}
	st.post("/close_thread", `{"thread_id":"root"}`)
	st.ends()
}

// TestRevokedTokenCostsOneAuthorization has a user revoke an authorization at the provider. One new authorization serves two
// calls.
func TestRevokedTokenCostsOneAuthorization(t *testing.T) {
	st := signedIn(t)
	st.idp.ExpireTokens("ada")
	st.idp.RevokeRefresh("ada")
	st.call("whoami", "c1", "{}", user("u1"))
	st.call("whoami", "c2", "{}", user("u1"))
	one, two := st.authURL(), st.authURL()
	if one == two {
		t.Error("two calls have one address")
	}
	st.allow(one, "ada", "lovelace")
	for range 2 {
		if got := st.nextResult(); got != "ada" {
			t.Errorf("result %q", got)
		}
	}
	if n := st.idp.Exchanges(); n != 2 {
		t.Errorf("%d exchanges, want one more than before", n)
	}
	st.ends()
}

// TestCancelledDuringExchange cancels a call while its code is exchanged. The issued token is kept for the user.
func TestCancelledDuringExchange(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	arrived, release := st.idp.HoldTokenEndpoint()
	done := make(chan int)
	go func() { done <- st.open(to.String()) }()
	<-arrived
	st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
	release()
	if code := <-done; code != http.StatusOK {
		t.Errorf("page %d", code)
	}
	st.call("whoami", "c2", "{}", user("u1"))
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	if n := toolserver.OpenAuthorizations(st.server); n != 0 {
		t.Errorf("%d authorizations are left", n)
	}
	st.ends()
}

// TestAuthorizedBeforeItRunsAgain has a user come back after a restart, before the call's function has asked again. The test fails
// if the user has to authorize a second time, although the new process has the token.
func TestAuthorizedBeforeItRunsAgain(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()}, confirmed)
	may := make(chan struct{}, 1) // a run of the function asks
	st.more = func() {
		toolserver.Add(st.server, "later", "Asks when it may.", func(ctx context.Context, _ none) (string, error) {
			select {
			case <-may:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			_, err := toolserver.Authorize(ctx, "idp", nil, toolserver.Secret{})
			return "done", err
		})
	}
	st.more()
	may <- struct{}{}
	st.call("later", "c1", "{}", user("u1"))
	first := st.authURL()
	st.restart()
	numbers := st.code(first, "ada", "lovelace")
	may <- struct{}{}
	if m := st.next(); m.Callback.Type() != agentproto.TypeOAuth {
		st.messages <- m
	} else if again := m.Callback.(*agentproto.OAuth).AuthURL; again != first { // the first may be repeated, since the function ran again
		t.Fatal("the user is asked with another address")
	}
	if n := st.confirm(func(choices []string) int {
		i := slices.Index(choices, numbers[0])
		numbers = numbers[1:]
		return i
	}); n != 2 {
		t.Errorf("%d questions for the code", n)
	}
	if got := st.nextResult(); got != "done" || st.idp.Exchanges() != 1 {
		t.Errorf("result %q, %d exchanges", got, st.idp.Exchanges())
	}
	st.ends()
}

// TestNoSecretInHistory completes an authorization on a server with a state folder, and searches the files of its history for
// secrets. It does not find a code, a state or the address of a start page in a record.
func TestNoSecretInHistory(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()})
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	st.secrets = append(st.secrets, to.Query().Get("code"))
	if code := st.open(to.String()); code != 200 {
		t.Errorf("page %d", code)
	}
	st.nextResult()
	st.restart()
	if err := st.server.Start(); err != nil {
		t.Fatal(err)
	}
	st.ends()
	if n := toolserver.Transit(t, st.opts.State); n != 0 {
		t.Errorf("%d codes are left in the vault", n)
	}
}
