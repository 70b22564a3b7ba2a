package idp_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/idp"
	"golang.org/x/oauth2"
)

func TestCodeFlow(t *testing.T) {
	tl := start(t, idp.Options{})
	address, verifier := tl.authURL("some state")
	page, err := tl.p.NewBrowser().Allow(t.Context(), address, "ada", "lovelace")
	if err != nil || page != "you can close this page" {
		t.Fatalf("Allow = %q, %v", page, err)
	}
	q := <-tl.callbacks
	if q.Get("state") != "some state" || q.Get("iss") != tl.p.Issuer() {
		t.Errorf("redirect brought state %q and iss %q", q.Get("state"), q.Get("iss"))
	}
	tok, err := tl.exchange(q.Get("code"), verifier)
	if err != nil {
		t.Fatal(err)
	}
	if tok.RefreshToken == "" || tok.TokenType != "Bearer" || tok.ExpiresIn < 290 || tok.ExpiresIn > 300 {
		t.Errorf("token: refresh %t, type %q, expires in %d s", tok.RefreshToken != "", tok.TokenType, tok.ExpiresIn)
	}
	if id, _ := tok.Extra("id_token").(string); strings.Count(id, ".") != 2 {
		t.Errorf("id_token = %q, want a JWT", id)
	}
	if status, c := tl.userInfo(tok.AccessToken); status != http.StatusOK || c != (claims{"user-1815", "ada"}) {
		t.Errorf("userinfo = %d %+v", status, c)
	}
	if n := tl.p.Exchanges(); n != 1 {
		t.Errorf("Exchanges = %d, want 1", n)
	}
	secrets := strings.Join(tl.p.Secrets(), "\n")
	for _, s := range []string{q.Get("code"), verifier, tok.AccessToken, tok.RefreshToken} {
		if !strings.Contains(secrets, s) {
			t.Errorf("Secrets lacks %q", s)
		}
	}
}

func TestScopesDecide(t *testing.T) {
	tl := start(t, idp.Options{})
	tl.config.Scopes = []string{"openid"}
	tok := tl.token()
	if tok.RefreshToken != "" {
		t.Error("refresh token without offline_access")
	}
	if _, c := tl.userInfo(tok.AccessToken); c != (claims{Sub: "user-1815"}) {
		t.Errorf("userinfo without profile = %+v", c)
	}
}

func TestDeny(t *testing.T) {
	tl := start(t, idp.Options{})
	address, _ := tl.authURL("some state")
	page, err := tl.p.NewBrowser().Deny(t.Context(), address, "ada", "lovelace")
	var pe *idp.PageError
	if !errors.As(err, &pe) || pe.Status != http.StatusForbidden || page != "refused: access_denied" {
		t.Fatalf("Deny = %q, %v", page, err)
	}
	q := <-tl.callbacks
	if q.Get("error") != "access_denied" || q.Get("state") != "some state" || q.Get("iss") != tl.p.Issuer() || q.Has("code") {
		t.Errorf("redirect brought %v", q)
	}
}

func TestWrongVerifier(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	for _, wrong := range []string{oauth2.GenerateVerifier(), "", verifier + "x"} {
		if tok, err := tl.exchange(code, wrong); err == nil {
			t.Fatalf("verifier %q was accepted: %v", wrong, tok.Valid())
		}
	}
	// A wrong guess must not invalidate the owner's code.
	if _, err := tl.exchange(code, verifier); err != nil {
		t.Errorf("the right verifier: %v", err)
	}
}

func TestPKCEIsRequired(t *testing.T) {
	tl := start(t, idp.Options{})
	for name, opts := range map[string][]oauth2.AuthCodeOption{
		"none":           nil,
		"plain":          {oauth2.SetAuthURLParam("code_challenge", "abc"), oauth2.SetAuthURLParam("code_challenge_method", "plain")},
		"unnamed method": {oauth2.SetAuthURLParam("code_challenge", "abc")},
	} {
		resp, _ := tl.get(tl.config.AuthCodeURL("state", opts...))
		to, err := resp.Location()
		if err != nil {
			t.Fatalf("%s: status %d: %v", name, resp.StatusCode, err)
		}
		q := to.Query()
		if q.Get("error") != "invalid_request" || q.Get("state") != "state" || q.Get("iss") != tl.p.Issuer() {
			t.Errorf("%s: redirect to %v", name, to)
		}
	}
}

func TestRedirectMatchesExactly(t *testing.T) {
	tl := start(t, idp.Options{})
	good := tl.config.RedirectURL
	for _, uri := range []string{
		good + "/", good + "?a=b", strings.Replace(good, "callback", "c%61llback", 1),
		strings.Replace(good, "127.0.0.1", "localhost", 1), "http://127.0.0.1:1/callback", "https://example.com/callback", "",
	} {
		tl.config.RedirectURL = uri
		address, _ := tl.authURL("state")
		resp, _ := tl.get(address)
		if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Location") != "" {
			t.Errorf("redirect URI %q: status %d, location %q", uri, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	// The exchange must name the same redirect URL.
	tl.config.RedirectURL = good
	code, verifier := tl.code()
	tl.p.RegisterRedirect(tl.config.ClientID, good+"/other")
	tl.config.RedirectURL = good + "/other"
	if _, err := tl.exchange(code, verifier); oauthError(err) != "invalid_grant" {
		t.Errorf("exchange with another redirect URI: %v", err)
	}
}

func TestCodeIsGoodForOneExchange(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	tok, err := tl.exchange(code, verifier)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.exchange(code, verifier); oauthError(err) != "invalid_grant" {
		t.Errorf("second exchange: %v", err)
	}
	if n := tl.p.Replays(); n != 1 {
		t.Errorf("Replays = %d, want 1", n)
	}
	if status, _ := tl.userInfo(tok.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("access token of a stolen code: status %d, want 401", status)
	}
	if _, err := tl.refresh(tok.RefreshToken); oauthError(err) != "invalid_grant" {
		t.Errorf("refresh token of a stolen code: %v", err)
	}
}

// parallel counts how many of n simultaneous calls succeed.
func parallel(n int, f func() error) (succeeded int) {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() { errs <- f() })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err == nil {
			succeeded++
		}
	}
	return succeeded
}

func TestExchangesRace(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	won := parallel(8, func() error { _, err := tl.exchange(code, verifier); return err })
	if won != 1 {
		t.Errorf("%d exchanges of one code succeeded, want 1", won)
	}
	if n := tl.p.Exchanges(); n != 8 {
		t.Errorf("Exchanges = %d, want 8", n)
	}
}

func TestRefreshRotates(t *testing.T) {
	tl := start(t, idp.Options{})
	first := tl.token()
	second, err := tl.refresh(first.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if second.RefreshToken == first.RefreshToken || second.AccessToken == first.AccessToken {
		t.Error("a refresh returned the old tokens")
	}
	if status, c := tl.userInfo(second.AccessToken); status != http.StatusOK || c.Name != "ada" {
		t.Errorf("userinfo after a refresh = %d %+v", status, c)
	}
	if _, err := tl.refresh(first.RefreshToken); oauthError(err) != "invalid_grant" {
		t.Errorf("old refresh token: %v", err)
	}
	// The old token was used twice, so there is a copy of it: all access ends.
	if _, err := tl.refresh(second.RefreshToken); oauthError(err) != "invalid_grant" {
		t.Errorf("new refresh token after the old one came back: %v", err)
	}
	if status, _ := tl.userInfo(second.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("access token after a replay: status %d, want 401", status)
	}
	if n, r := tl.p.Refreshes(), tl.p.Replays(); n != 3 || r != 1 {
		t.Errorf("Refreshes, Replays = %d, %d, want 3, 1", n, r)
	}
}

func TestRefreshesRace(t *testing.T) {
	tl := start(t, idp.Options{})
	tok := tl.token()
	won := parallel(8, func() error { _, err := tl.refresh(tok.RefreshToken); return err })
	if won != 1 {
		t.Errorf("%d refreshes with one token succeeded, want 1", won)
	}
}

func TestRevoke(t *testing.T) {
	tl := start(t, idp.Options{})
	revoke := func(token string) {
		t.Helper()
		resp, err := tl.client.PostForm(tl.p.RevokeURL(), url.Values{"token": {token}, "client_id": {tl.config.ClientID}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("revoke: status %d", resp.StatusCode)
		}
	}
	revoke("unknown")
	tok := tl.token()
	revoke(tok.AccessToken)
	if status, _ := tl.userInfo(tok.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("revoked access token: status %d, want 401", status)
	}
	next, err := tl.refresh(tok.RefreshToken)
	if err != nil {
		t.Fatalf("refresh after the access token was revoked: %v", err)
	}
	revoke(next.RefreshToken)
	if _, err := tl.refresh(next.RefreshToken); oauthError(err) != "invalid_grant" {
		t.Errorf("revoked refresh token: %v", err)
	}
	if status, _ := tl.userInfo(next.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("access token of a revoked grant: status %d, want 401", status)
	}
}

func TestConfidentialClient(t *testing.T) {
	tl := start(t, idp.Options{Clients: []idp.Client{{ID: "notes", Secret: "s3cret/+ "}, {ID: "other", Secret: "x"}}})
	for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleInHeader, oauth2.AuthStyleInParams, oauth2.AuthStyleAutoDetect} {
		tl.config.Endpoint.AuthStyle = style
		tl.token()
	}
	tl.config.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	code, verifier := tl.code()
	right := tl.config
	for _, c := range []idp.Client{{ID: "notes", Secret: "wrong"}, {ID: "notes"}, {ID: "other", Secret: "x"}, {ID: "nobody"}} {
		tl.config.ClientID, tl.config.ClientSecret = c.ID, c.Secret
		if _, err := tl.exchange(code, verifier); err == nil {
			t.Errorf("client %+v exchanged a code of notes", c)
		}
	}
	tl.config = right
	if _, err := tl.exchange(code, verifier); err != nil {
		t.Errorf("the right client: %v", err)
	}
}

func TestUsersAreKeptApart(t *testing.T) {
	tl := start(t, idp.Options{Users: []idp.User{{Name: "ada", Password: "lovelace"}, {Name: "grace", Password: "hopper"}}})
	for name, password := range map[string]string{"ada": "lovelace", "grace": "hopper"} {
		address, verifier := tl.authURL(name)
		to, err := tl.p.NewBrowser().Grant(t.Context(), address, name, password)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tl.exchange(to.Query().Get("code"), verifier)
		if err != nil {
			t.Fatal(err)
		}
		if _, c := tl.userInfo(tok.AccessToken); c != (claims{name, name}) {
			t.Errorf("%s is told to be %+v", name, c)
		}
	}
}

func TestLogHoldsNoSecrets(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	tl.exchange(code, verifier+"x")
	tok, err := tl.exchange(code, verifier)
	if err != nil {
		t.Fatal(err)
	}
	tl.exchange(code, verifier)
	tl.refresh(tok.RefreshToken)
	tl.refresh("made up")
	text := logged.String()
	if !strings.Contains(text, "invalid_grant") {
		t.Fatal("the library logged nothing, so there is nothing to look at")
	}
	for _, s := range tl.p.Secrets() {
		if strings.Contains(text, s) {
			t.Errorf("the log contains %q", s)
		}
	}
}
