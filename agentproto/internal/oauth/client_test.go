package oauth

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A provider answers token requests.
type provider struct {
	status int
	body   string
	asked  []url.Values
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, err
	}
	p.asked = append(p.asked, form)
	return &http.Response{StatusCode: p.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(p.body)), Request: r}, nil
}

// memory is a vault in memory.
type memory map[vault.Key]*vault.Token

func (m memory) Load(_ context.Context, key vault.Key) (*vault.Token, error) {
	if t := m[key]; t != nil {
		return t, nil
	}
	return nil, vault.ErrNoToken
}

func (m memory) Save(_ context.Context, key vault.Key, t *vault.Token) error {
	m[key] = t
	return nil
}

func (m memory) Delete(_ context.Context, key vault.Key) error {
	delete(m, key)
	return nil
}

var ada = vault.Key{Runtime: "r", User: "user:ada", Provider: "idp"}

func newClient(t *testing.T, idp *provider, tokens memory, confirm bool) *Client {
	t.Helper()
	state, err := vault.NewState()
	if err != nil {
		t.Fatal(err)
	}
	c := New(t.Context(), Options{
		Redirect: "https://tools.example/back/", Timeout: time.Minute, UserTimeout: time.Minute, Transport: idp,
		Vault: tokens, Transit: state.Transit, Key: state.Asking, Guard: new(leak.Guard), Log: slog.New(slog.DiscardHandler),
	})
	p := &Provider{
		ID: "idp", AuthURL: "https://idp.example/auth", TokenURL: "https://idp.example/token", RevokeURL: "https://idp.example/revoke",
		ClientID: "client", Scopes: []string{"base"}, Confirm: confirm,
	}
	if !confirm {
		p.UnsafeAnyoneMayAuthorize = "this is a test"
	}
	if err := c.Add(p); err != nil {
		t.Fatal(err)
	}
	return c
}

func job(kind authorize.Kind) authorize.Job {
	return authorize.Job{Kind: kind, Key: authorize.Key{User: ada.User, Provider: ada.Provider}}
}

func TestFetch(t *testing.T) {
	past, future := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		token         *vault.Token
		refused       bool
		status        int
		body          string
		class         authorize.Class
		asked         int
		access        string // in the vault afterwards
		refresh, kept string // the refresh token sent, and the one in the vault afterwards
	}{
		"none":           {class: authorize.None},
		"good":           {token: &vault.Token{Access: "a1", Expiry: future}, class: authorize.Good, access: "a1"},
		"expired":        {token: &vault.Token{Access: "a1", Expiry: past}, class: authorize.None},
		"refused":        {token: &vault.Token{Access: "a1"}, refused: true, class: authorize.None},
		"renewed":        {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 200, body: `{"access_token":"a2","token_type":"Bearer","refresh_token":"r2"}`, class: authorize.Good, asked: 1, access: "a2", refresh: "r1", kept: "r2"},
		"rejected":       {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 400, body: `{"error":"invalid_grant"}`, class: authorize.None, asked: 1, refresh: "r1"},
		"not answered":   {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 503, class: authorize.Unrenewed, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"client refused": {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 401, body: `{"error":"invalid_client"}`, class: authorize.Unknown, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"client changed": {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past, Client: "an earlier one"}, class: authorize.None},
		"same client":    {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past, Client: "client"}, status: 200, body: `{"access_token":"a2","refresh_token":"r2"}`, class: authorize.Good, asked: 1, access: "a2", refresh: "r1", kept: "r2"},
		"strange code":   {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 200, body: `{"error":"bad_refresh_token"}`, class: authorize.None, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"strange denial": {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 403, body: `{"error":"token_expired"}`, class: authorize.None, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"strange outage": {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 500, body: `{"error":"oops"}`, class: authorize.Unrenewed, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"too often":      {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 429, body: `{"error":"rate_limited"}`, class: authorize.Unrenewed, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"not sendable":   {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 200, body: `{"access_token":"a\n2","token_type":"Bearer","refresh_token":"r2"}`, class: authorize.Failed, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
		"no bearer":      {token: &vault.Token{Access: "a1", Refresh: "r1", Expiry: past}, status: 200, body: `{"access_token":"a2","token_type":"mac"}`, class: authorize.Failed, asked: 1, access: "a1", refresh: "r1", kept: "r1"},
	} {
		t.Run(name, func(t *testing.T) {
			idp, tokens := &provider{status: c.status, body: c.body}, memory{}
			if c.token != nil {
				tokens[ada] = c.token
			}
			client, j := newClient(t, idp, tokens, false), job(authorize.Fetch)
			if c.refused {
				j.Refused = client.AccessPrint(c.token.Access)
			}
			o := client.Do(t.Context(), ada.Runtime, j)
			if o.Class != c.class || len(idp.asked) != c.asked {
				t.Errorf("%+v after %d requests", o, len(idp.asked))
			}
			if c.asked > 0 && idp.asked[0].Get("refresh_token") != c.refresh {
				t.Errorf("sent %v", idp.asked[0])
			}
			if o.Class == authorize.Good && o.Access != client.AccessPrint(c.access) {
				t.Error("the outcome is of another token")
			}
			got := tokens[ada]
			if got == nil {
				got = new(vault.Token)
			}
			if got.Access != c.access || got.Refresh != c.kept {
				t.Errorf("kept %q and %q", got.Access, got.Refresh)
			}
		})
	}
}

// TestExchange checks that a code is exchanged once, even if the job is repeated.
func TestExchange(t *testing.T) {
	idp, tokens := &provider{status: 200, body: `{"access_token":"a1","token_type":"bearer","scope":"write base"}`}, memory{}
	c := newClient(t, idp, tokens, false)
	r := c.Request(c.Provider("idp"), []string{"write", "base"})
	if strings.Join(r.Scopes, " ") != "base write" || r.Confirm {
		t.Errorf("request %+v", r)
	}
	address, release := c.Begin(c.Provider("idp"), r.ID, r.Scopes)
	defer release()
	u, err := url.Parse(address)
	if err != nil || u.Query().Get("redirect_uri") != "https://tools.example/back/idp" || digest(u.Query().Get("state")) != r.State || u.Query().Get("code_challenge_method") != "S256" {
		t.Errorf("the user is sent to %s, %v", address, err)
	}
	j := job(authorize.Exchange)
	j.ID, j.Code, j.Print, j.Scopes = r.ID, "entry", r.Print, r.Scopes
	if o := c.Do(t.Context(), ada.Runtime, j); o.Class != authorize.Lost {
		t.Errorf("without a code: %+v", o)
	}
	if err := c.o.Transit.Put("entry", transitText{Code: "code"}.encode()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if o := c.Do(t.Context(), ada.Runtime, j); o.Class != authorize.Good || strings.Join(o.Scopes, " ") != "base write" {
			t.Errorf("outcome %+v", o)
		}
	}
	if len(idp.asked) != 1 || idp.asked[0].Get("code") != "code" || idp.asked[0].Get("code_verifier") == "" {
		t.Errorf("sent %v", idp.asked)
	}
	if got := tokens[ada]; got == nil || got.Access != "a1" {
		t.Errorf("kept %v", got)
	}
}

// TestScopesOfJobs checks that a job leaves its scopes as they are. They are those of the authorization in the state of the flow,
// which may be encoded at the same time.
func TestScopesOfJobs(t *testing.T) {
	idp, tokens := &provider{status: 200, body: `{"access_token":"a1","token_type":"bearer"}`}, memory{}
	c := newClient(t, idp, tokens, false)
	r, j := c.Request(c.Provider("idp"), []string{"alpha"}), job(authorize.Exchange)
	j.ID, j.Code, j.Print, j.Scopes = r.ID, "entry", r.Print, r.Scopes
	if err := c.o.Transit.Put("entry", transitText{Code: "code"}.encode()); err != nil {
		t.Fatal(err)
	}
	if o := c.Do(t.Context(), ada.Runtime, j); o.Class != authorize.Good || strings.Join(o.Scopes, " ") != "alpha base" {
		t.Errorf("outcome %+v", o)
	}
	if got := strings.Join(r.Scopes, " "); got != "base alpha" {
		t.Errorf("the scopes of the request became %q", got)
	}
}

// TestManyScopes has a provider grant very many scopes. The test fails if they get into the state of the flow, whose steps would
// take minutes.
func TestManyScopes(t *testing.T) {
	for granted, want := range map[string]authorize.Class{
		strings.Repeat("s ", 1<<10):           authorize.Good,
		strings.Repeat("s ", 1<<10+1):         authorize.Failed,
		"base " + strings.Repeat("s", 16<<10): authorize.Failed,
	} {
		idp, tokens := &provider{status: 200, body: `{"access_token":"a2","token_type":"bearer","scope":"` + granted + `"}`}, memory{}
		old := &vault.Token{Access: "a1", Refresh: "r1", Expiry: time.Now().Add(-time.Minute)}
		tokens[ada] = old
		o := newClient(t, idp, tokens, false).Do(t.Context(), ada.Runtime, job(authorize.Fetch))
		if o.Class != want || len(o.Scopes) > 1<<10 || (tokens[ada] == old) != (want == authorize.Failed) {
			t.Errorf("%d bytes of scopes: %s with %d scopes", len(granted), o.Class, len(o.Scopes))
		}
	}
}

// TestScopesWithCommas checks that scopes count that a provider separates by commas.
func TestScopesWithCommas(t *testing.T) {
	idp, tokens := &provider{status: 200, body: `{"access_token":"a1","token_type":"bearer","scope":"write,base"}`}, memory{}
	c := newClient(t, idp, tokens, false)
	r, j := c.Request(c.Provider("idp"), []string{"write"}), job(authorize.Exchange)
	j.ID, j.Code, j.Print, j.Scopes = r.ID, "entry", r.Print, r.Scopes
	if err := c.o.Transit.Put("entry", transitText{Code: "code"}.encode()); err != nil {
		t.Fatal(err)
	}
	if o := c.Do(t.Context(), ada.Runtime, j); o.Class != authorize.Good || !authorize.Covers(o.Scopes, []string{"base", "write"}) {
		t.Errorf("outcome %+v", o)
	}
}

// TestConfirm checks that a token is kept if the numbers were right, and revoked
// otherwise.
func TestConfirm(t *testing.T) {
	idp, tokens := &provider{status: 200, body: `{"access_token":"a1","token_type":"bearer"}`}, memory{}
	c := newClient(t, idp, tokens, true)
	begin := func() (id string) {
		t.Helper()
		r := c.Request(c.Provider("idp"), nil)
		j := job(authorize.Exchange)
		j.ID, j.Code, j.Print, j.Scopes = r.ID, "entry "+r.ID, r.Print, r.Scopes
		if err := c.o.Transit.Put(j.Code, transitText{Code: "code"}.encode()); err != nil {
			t.Fatal(err)
		}
		if o := c.Do(t.Context(), ada.Runtime, j); o.Class != authorize.Unconfirmed || len(tokens) != 0 {
			t.Errorf("%+v, kept %v", o, tokens)
		}
		return r.ID
	}
	settle := func(kind authorize.Kind, id string) authorize.Class {
		j := job(kind)
		j.ID = id
		return c.Do(t.Context(), ada.Runtime, j).Class
	}
	id := begin()
	lists, code := c.Numbers(id)
	if len(lists) != codeParts || len(code) != codeParts {
		t.Fatalf("the code %v is picked from %v", code, lists)
	}
	for i, numbers := range lists {
		if len(numbers) != codeChoices || !slices.Contains(numbers, code[i]) || len(slices.Compact(slices.Clone(numbers))) != codeChoices || numbers[0] < 10 || numbers[codeChoices-1] > 99 {
			t.Errorf("%d is picked from %v", code[i], numbers)
		}
	}
	if settle(authorize.Discard, id); len(idp.asked) != 2 || idp.asked[1].Get("token") != "a1" {
		t.Errorf("sent %v", idp.asked)
	}
	if _, code := c.Numbers(id); code != nil {
		t.Error("what was discarded can be confirmed")
	}
	if class := settle(authorize.Keep, id); class != authorize.Lost || len(tokens) != 0 {
		t.Errorf("%s, kept %v", class, tokens)
	}
	if class := settle(authorize.Keep, begin()); class != authorize.Good || tokens[ada] == nil {
		t.Errorf("%s, kept %v", class, tokens)
	}
	if settle(authorize.Revoke, ""); len(tokens) != 0 || len(idp.asked) != 4 {
		t.Errorf("kept %v after %d requests", tokens, len(idp.asked))
	}
}

func TestRedirectQuery(t *testing.T) {
	for raw, want := range map[string]bool{
		"code=c&state=s":                         true,
		"":                                       true,
		"code=c&code=d":                          false,
		"code=%":                                 false,
		"code=" + strings.Repeat("c", 4<<10):     true,
		"code=" + strings.Repeat("c", 4<<10+1):   false,
		strings.Repeat("c", 4<<10+1):             false,
		strings.Repeat("&", 16<<10) + "&code=cc": false,
	} {
		if _, ok := redirectQuery(raw); ok != want {
			t.Errorf("%.20s of %d bytes: %t", raw, len(raw), ok)
		}
	}
}
