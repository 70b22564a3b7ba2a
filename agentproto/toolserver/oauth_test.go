package toolserver_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

func TestO08_O09_O21_Authorization(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	if got := st.server.Manifest().Tools[0].Annotations.RequiresAuth; got != "idp" {
		t.Errorf("requiresAuth = %q", got)
	}
	st.call("whoami", "c1", "{}", user("u1"), callID("x"))
	m := st.next()
	o, ok := m.Callback.(*agentproto.OAuth)
	if !ok || *o.CallID != "x" || o.Key() != (agentproto.CallKey{GroupID: "thread-1", ID: "c1"}) {
		t.Fatalf("got %s", m.body)
	}
	u, _ := url.Parse(o.AuthURL)
	q := u.Query()
	if u.Scheme != "https" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 ||
		len(q.Get("state")) < 43 || !strings.HasSuffix(q.Get("redirect_uri"), "/oauth/callback/idp") || q.Get("scope") != "openid profile offline_access" {
		t.Errorf("auth_url = %s", o.AuthURL)
	}
	st.allow(o.AuthURL, "ada", "lovelace")
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	st.call("whoami", "c2", "{}", user("u1"))
	if got := st.nextResult(); got != "ada" {
		t.Errorf("second result %q, want no second authorization", got)
	}
	if n := st.idp.Exchanges(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	st.ends()
}

func TestO10_Denied(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.call("whoami", "c1", "{}", user("u1"))
	page, err := st.idp.NewBrowser().Deny(t.Context(), st.authURL(), "ada", "lovelace")
	if err != nil || !strings.Contains(page, "The access was not authorized.") {
		t.Errorf("page %s, %v", page, err)
	}
	if got := st.nextResult(); got != "Error: the user did not authorize the access" {
		t.Errorf("result %q", got)
	}
	if st.vault.saved() != 0 || st.idp.Exchanges() != 0 {
		t.Error("there is a token")
	}
	st.ends()
}

func TestO11_O12_State(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	if resp, err := http.Head(to.String()); err != nil || resp.StatusCode != 405 {
		t.Errorf("HEAD: %v, %v", resp, err)
	}
	for name, address := range map[string]string{
		"missing state":   set(to, "state", ""),
		"wrong state":     set(to, "state", "x"),
		"two states":      to.String() + "&state=x",
		"other provider":  strings.Replace(to.String(), "/callback/idp", "/callback/other", 1),
		"bad query":       to.String() + "&%zz",
		"nothing":         strings.SplitN(to.String(), "?", 2)[0],
		"script in state": set(to, "state", "<script>"),
	} {
		if code := st.open(address); code != 400 {
			t.Errorf("%s: %d, want 400", name, code)
		}
	}
	if st.idp.Exchanges() != 0 {
		t.Error("a code was exchanged")
	}
	if code := st.open(to.String()); code != 200 { // the call was unaffected
		t.Errorf("right state: %d", code)
	}
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	if code := st.open(to.String()); code != 400 {
		t.Errorf("reused: %d, want 400", code)
	}
	if n := st.idp.Exchanges(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	st.ends()
	for _, p := range st.pages {
		if strings.Contains(p, "script") {
			t.Errorf("page reflects its input: %s", p)
		}
	}
}

func TestO06_O11_Expired(t *testing.T) {
	st := newStage(t, toolserver.Options{OAuthTimeout: 50 * time.Millisecond})
	st.call("whoami", "c1", "{}", user("u1"))
	authURL := st.authURL()
	if got := st.nextResult(); got != "Error: the authorization was not completed in time" {
		t.Errorf("result %q", got)
	}
	if code := st.open(st.grant(authURL).String()); code != 400 {
		t.Errorf("expired state: %d, want 400", code)
	}
	st.ends()
}

func TestO13_AttackersCode(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.call("whoami", "c1", "{}", user("attacker"))
	theirs := st.grant(st.authURL())
	st.call("whoami", "c2", "{}", user("victim"))
	ours := st.grant(st.authURL())
	if code := st.open(set(ours, "code", theirs.Query().Get("code"))); code != 502 {
		t.Errorf("page %d", code)
	}
	if got := st.nextResult(); got != "Error: the authorization failed" || st.vault.saved() != 0 {
		t.Errorf("result %q, %d tokens", got, st.vault.saved())
	}
	st.post("/close_thread", `{"thread_id":"thread-1"}`)
	st.ends()
}

func TestO14_MixUp(t *testing.T) {
	for _, iss := range []string{"https://evil.example", ""} {
		st := newStage(t, toolserver.Options{})
		st.idp.SetResponseIssuer(iss)
		st.call("whoami", "c1", "{}", user("u1"))
		if code := st.open(st.grant(st.authURL()).String()); code != 400 {
			t.Errorf("iss %q: %d, want 400", iss, code)
		}
		if got := st.nextResult(); got != "Error: the authorization failed" || st.idp.Exchanges() != 0 {
			t.Errorf("iss %q: result %q after %d exchanges", iss, got, st.idp.Exchanges())
		}
		st.ends()
	}
}

func TestO15_TokenEndpointFails(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*stage) func(){
		"500":  func(st *stage) func() { st.idp.FailTokenEndpoint(500, 100); return func() {} },
		"400":  func(st *stage) func() { st.idp.FailTokenEndpoint(400, 100); return func() {} },
		"HTML": func(st *stage) func() { st.idp.FailTokenEndpoint(200, 100); return func() {} },
		"slow": func(st *stage) func() { _, release := st.idp.HoldTokenEndpoint(); return release },
		"gone": func(st *stage) func() { return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, toolserver.Options{ProviderTimeout: 200 * time.Millisecond})
			release := fault(st)
			st.call("whoami", "c1", "{}", user("u1"))
			to := st.grant(st.authURL())
			if name == "gone" {
				st.idp.Close()
			}
			if code := st.open(to.String()); code != 502 {
				t.Errorf("page %d", code)
			}
			if got := st.nextResult(); got != "Error: the authorization failed" || st.vault.saved() != 0 {
				t.Errorf("result %q, %d tokens", got, st.vault.saved())
			}
			release()
			st.ends()
		})
	}
}

func TestO19_TokensStayInside(t *testing.T) {
	st := signedIn(t)
	const withheld = "Error: the tool's answer had a credential in it and was withheld"
	for i, c := range []struct{ how, want string }{
		{"%s", withheld},
		{`in "quotes" %s.`, withheld},
		{"error", withheld},
		{"panic", "Error: the tool failed unexpectedly"},
		{"question", ""},
		{"%.8s", ""}, // only a part of the token
	} {
		st.call("leak", fmt.Sprint("c", i+1), mustJSON(t, map[string]string{"How": c.how}), user("u1"))
		if c.how == "question" {
			q, path := st.question()
			if q.Prompt != "[withheld: it had a credential in it]" || q.Choices[0] != "yes" {
				t.Errorf("the question is %+v", q)
			}
			st.post(path, `{"id":"`+q.ID+`","selected":0}`)
			if got := st.nextResult(); got != "" {
				t.Errorf("result %q", got)
			}
			continue
		}
		if got := st.nextResult(); got != c.want && c.want != "" || c.want == "" && len(got) != 8 {
			t.Errorf("%s: result %q", c.how, got)
		}
	}
	st.ends()
}

// TestO19_WithheldSubscription opens a subscription whose result is withheld. The test fails if the subscription is open on the
// server alone: the runtime has an error result, and would receive events of an unknown subscription.
func TestO19_WithheldSubscription(t *testing.T) {
	st := signedIn(t)
	var produced atomic.Int32
	toolserver.AddSubscription(st.server, "leaks", "Gives its token away, and events.", toolserver.ToolOptions{RequireOAuth: "idp"},
		func(ctx context.Context, _ none) (string, *place, error) {
			token, err := toolserver.Token(ctx)
			if err != nil {
				return "", nil, err
			}
			return token.Reveal(), &place{}, nil
		},
		func(ctx context.Context, sub *toolserver.Subscription[place]) error {
			produced.Add(1)
			return sub.Send(ctx, toolserver.Event{Text: "an event", Final: true}, place{})
		})
	st.call("leaks", "c1", "{}", user("u1"))
	m := st.next()
	if r, ok := m.Callback.(*agentproto.ToolResult); !ok || r.Subscription || r.String() != "Error: the tool's answer had a credential in it and was withheld" {
		t.Errorf("got %s", m.body)
	}
	st.close()
	if n := produced.Load(); n != 0 {
		t.Errorf("the producer has run %d times", n)
	}
	st.ends()
}

func TestO22_UsersAreNotCrossed(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	people := map[string][2]string{"c-ada": {"ada", "lovelace"}, "c-bob": {"bob", "builder"}}
	for id := range people {
		st.call("whoami", id, "{}", user(id))
	}
	var wg sync.WaitGroup
	var asked []received // both ask before either is answered
	for range people {
		asked = append(asked, st.next())
	}
	for _, m := range asked {
		person := people[m.Key().ID]
		wg.Go(func() {
			if _, err := st.idp.NewBrowser().Allow(t.Context(), m.Callback.(*agentproto.OAuth).AuthURL, person[0], person[1]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range people {
		m := st.next()
		if got := m.Callback.(*agentproto.ToolResult).String(); got != people[m.Key().ID][0] {
			t.Errorf("%s got %q", m.Key(), got)
		}
	}
	// The same user ID from another runtime is another user.
	st.call("whoami", "c1", "{}", user("c-ada"), callback("https://other.example/cb"))
	st.authURL()
	// Conversations without a user share nothing, but each conversation counts as one user.
	st.call("whoami", "c2", "{}", thread("root"))
	st.allow(st.authURL(), "bob", "builder")
	if got := st.nextResult(); got != "bob" {
		t.Errorf("result %q", got)
	}
	st.call("whoami", "c3", "{}", thread("child"), ancestors("root", "parent"))
	if got := st.nextResult(); got != "bob" {
		t.Errorf("result %q", got)
	}
	st.call("whoami", "c4", "{}", thread("other"))
	st.authURL()
	st.post("/close_thread", `{"thread_id":"other"}`)
	st.post("/close_thread", `{"thread_id":"thread-1"}`)
	st.ends()
}

func TestK07_CancelDuringOAuth(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.call("whoami", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
	st.close() // releases the waiting call
	if code := st.open(to.String()); code != 400 {
		t.Errorf("state after cancellation: %d, want 400", code)
	}
	if st.idp.Exchanges() != 0 || st.vault.saved() != 0 {
		t.Error("there is a token")
	}
	st.ends()
}

func TestOAuthNotDelivered(t *testing.T) {
	st := newStage(t, toolserver.Options{})
	st.answer = func(n int, m received) (*http.Response, error) {
		if m.Type() == agentproto.TypeOAuth {
			return status(403), nil
		}
		return status(200), nil
	}
	st.call("whoami", "c1", "{}", user("u1"))
	if got := st.nextResult(); got != "Error: the request for authorization could not be delivered" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

func TestO24_OtherBrowser(t *testing.T) {
	const public = "https://tools.example"
	st := newStage(t, toolserver.Options{PublicURL: public, Name: "<b>calendar</b>"})
	get := func(address string, cookies ...*http.Cookie) *http.Response {
		r := httptest.NewRequest(http.MethodGet, strings.TrimPrefix(address, public), nil)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		st.server.ServeHTTP(w, r)
		return w.Result()
	}
	st.call("whoami", "c1", "{}", user("u1"))
	start := st.authURL()
	if !strings.HasPrefix(start, public+"/oauth/start/") {
		t.Fatalf("auth_url = %s", start)
	}
	if resp := get(start + "x"); resp.StatusCode != 404 || len(resp.Cookies()) != 0 {
		t.Errorf("unknown start page: %d", resp.StatusCode)
	}
	resp := get(start)
	page, _ := io.ReadAll(resp.Body)
	cookies := resp.Cookies()
	if resp.StatusCode != 200 || len(cookies) != 1 || !cookies[0].HttpOnly || !cookies[0].Secure || strings.Contains(string(page), "<b>") {
		t.Fatalf("%d %v %s", resp.StatusCode, cookies, page)
	}
	_, link, _ := strings.Cut(string(page), `href="`)
	link, _, _ = strings.Cut(link, `"`)
	to := st.grant(html.UnescapeString(link)).String()
	if resp := get(to); resp.StatusCode != 400 {
		t.Errorf("other browser: %d, want 400", resp.StatusCode)
	}
	if resp := get(to, &http.Cookie{Name: cookies[0].Name, Value: "x"}); resp.StatusCode != 400 {
		t.Errorf("wrong cookie: %d, want 400", resp.StatusCode)
	}
	if resp := get(to, cookies...); resp.StatusCode != 200 {
		t.Errorf("same browser: %d, want 200", resp.StatusCode)
	}
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	st.ends()
}
