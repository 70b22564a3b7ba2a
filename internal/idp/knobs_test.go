package idp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/idp"
	"golang.org/x/oauth2"
)

func TestExpireTokens(t *testing.T) {
	tl := start(t, idp.Options{})
	tok := tl.token()
	if n := tl.p.ExpireTokens("grace"); n != 0 {
		t.Errorf("ExpireTokens of nobody = %d", n)
	}
	if n := tl.p.ExpireTokens("ada"); n != 1 {
		t.Errorf("ExpireTokens = %d, want 1", n)
	}
	if status, _ := tl.userInfo(tok.AccessToken); status != http.StatusUnauthorized {
		t.Errorf("expired token: status %d, want 401", status)
	}
	if _, err := tl.refresh(tok.RefreshToken); err != nil {
		t.Errorf("refresh: %v", err)
	}
}

func TestRevokeRefresh(t *testing.T) {
	tl := start(t, idp.Options{})
	tok := tl.token()
	if n := tl.p.RevokeRefresh("ada"); n != 1 {
		t.Errorf("RevokeRefresh = %d, want 1", n)
	}
	if _, err := tl.refresh(tok.RefreshToken); oauthError(err) != "invalid_grant" {
		t.Errorf("refresh: %v", err)
	}
	if status, _ := tl.userInfo(tok.AccessToken); status != http.StatusOK {
		t.Errorf("access token: status %d, want 200", status)
	}
	if n := tl.p.UserInfos(); n != 1 {
		t.Errorf("UserInfos = %d, want 1", n)
	}
}

func TestFailTokenEndpoint(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	for status, want := range map[int]string{500: "server_error", 503: "temporarily_unavailable", 400: "invalid_grant", 401: "invalid_client"} {
		tl.p.FailTokenEndpoint(status, 1)
		_, err := tl.exchange(code, verifier)
		var re *oauth2.RetrieveError
		if !errors.As(err, &re) || re.Response.StatusCode != status || re.ErrorCode != want || !strings.Contains(re.ErrorDescription, code) {
			t.Errorf("status %d: %v", status, err)
		}
	}
	tl.p.FailTokenEndpoint(http.StatusOK, 1)
	if _, err := tl.exchange(code, verifier); err == nil {
		t.Error("a page of HTML was taken for a token")
	}
	if _, err := tl.exchange(code, verifier); err != nil {
		t.Errorf("after the failures: %v", err)
	}
	if n := tl.p.Exchanges(); n != 6 {
		t.Errorf("Exchanges = %d, want 6", n)
	}
}

func TestHoldTokenEndpoint(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	arrived, release := tl.p.HoldTokenEndpoint()
	done := make(chan error, 1)
	go func() {
		_, err := tl.exchange(code, verifier)
		done <- err
	}()
	select {
	case <-arrived:
	case err := <-done:
		t.Fatalf("the exchange did not wait: %v", err)
	}
	release()
	release()
	if err := <-done; err != nil {
		t.Errorf("after release: %v", err)
	}
}

func TestCloseEndsHeldRequests(t *testing.T) {
	tl := start(t, idp.Options{})
	code, verifier := tl.code()
	arrived, _ := tl.p.HoldTokenEndpoint()
	done := make(chan error, 1)
	go func() {
		_, err := tl.exchange(code, verifier)
		done <- err
	}()
	<-arrived
	if err := tl.p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the exchange succeeded")
	}
}

func TestSetResponseIssuer(t *testing.T) {
	tl := start(t, idp.Options{})
	for _, iss := range []string{"https://evil.example", ""} {
		tl.p.SetResponseIssuer(iss)
		address, _ := tl.authURL("state")
		to, err := tl.p.NewBrowser().Grant(t.Context(), address, "ada", "lovelace")
		if err != nil {
			t.Fatal(err)
		}
		if q := to.Query(); q.Get("iss") != iss || q.Has("iss") != (iss != "") {
			t.Errorf("redirect to %v, want iss %q", to, iss)
		}
	}
}
