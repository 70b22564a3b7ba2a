package idp

import (
	"slices"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// A clock is a store's clock, advanced by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newTestStore(t *testing.T) (*store, *clock) {
	t.Helper()
	o := Options{Clients: []Client{{ID: "app", RedirectURIs: []string{"https://app.example/cb"}}}}.withDefaults()
	s, err := newStore(o, "https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	s.now = c.now
	return s, c
}

// consented returns the ID of an authorization request that ada has allowed.
func consented(t *testing.T, s *store) string {
	t.Helper()
	r, err := s.CreateAuthRequest(t.Context(), &oidc.AuthRequest{
		ClientID: "app", RedirectURI: "https://app.example/cb",
		Scopes:        oidc.SpaceDelimitedArray{"openid", "offline_access"},
		CodeChallenge: "challenge", CodeChallengeMethod: oidc.CodeChallengeMethodS256,
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.logIn(r.GetID(), "session", "ada", "lovelace"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.decide(r.GetID(), "session", true); err != nil {
		t.Fatal(err)
	}
	return r.GetID()
}

func TestCodeExpires(t *testing.T) {
	s, c := newTestStore(t)
	if err := s.SaveAuthCode(t.Context(), consented(t, s), "code"); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(time.Minute)
	if _, err := s.AuthRequestByCode(t.Context(), "code"); err != nil {
		t.Errorf("after a minute: %v", err)
	}
	c.at = c.at.Add(1)
	if _, err := s.AuthRequestByCode(t.Context(), "code"); err == nil {
		t.Error("the code outlived its minute")
	}
}

func TestRequestExpires(t *testing.T) {
	s, c := newTestStore(t)
	id := consented(t, s)
	c.at = c.at.Add(requestLifetime + 1)
	if err := s.SaveAuthCode(t.Context(), id, "code"); err == nil {
		t.Error("an authorization outlived its time")
	}
}

func TestTokensExpire(t *testing.T) {
	s, c := newTestStore(t)
	id := consented(t, s)
	r, err := s.AuthRequestByID(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	access, refresh, expires, err := s.CreateAccessAndRefreshTokens(t.Context(), r, "")
	if err != nil || expires.Sub(c.at) != 5*time.Minute {
		t.Fatalf("expires in %v, %v", expires.Sub(c.at), err)
	}
	c.at = expires.Add(-1)
	if err := s.SetUserinfoFromToken(t.Context(), new(oidc.UserInfo), access, "", ""); err != nil {
		t.Errorf("before it expires: %v", err)
	}
	c.at = expires
	if err := s.SetUserinfoFromToken(t.Context(), new(oidc.UserInfo), access, "", ""); err == nil {
		t.Error("the access token did not expire")
	}
	c.at = c.at.Add(24 * time.Hour)
	if _, err := s.TokenRequestByRefreshToken(t.Context(), refresh); err == nil {
		t.Error("the refresh token did not expire")
	}
	consented(t, s) // sweeps
	if len(s.access) != 0 || len(s.refresh) != 0 || len(s.requests) != 1 {
		t.Errorf("left over: %d access tokens, %d refresh tokens, %d requests", len(s.access), len(s.refresh), len(s.requests))
	}
}

// TestExchangeLosesToExchange lets another exchange come between the two steps of an exchange:
// the library first finds the code, and later asks for tokens.
func TestExchangeLosesToExchange(t *testing.T) {
	s, _ := newTestStore(t)
	if err := s.SaveAuthCode(t.Context(), consented(t, s), "code"); err != nil {
		t.Fatal(err)
	}
	found, err := s.AuthRequestByCode(t.Context(), "code")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.CreateAccessAndRefreshTokens(t.Context(), found, ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.CreateAccessToken(t.Context(), found); err == nil {
		t.Error("one code was exchanged twice")
	}
	if s.replays != 1 || len(s.access) != 0 || len(s.refresh) != 0 {
		t.Errorf("replays %d, access tokens %d, refresh tokens %d, want 1, 0, 0", s.replays, len(s.access), len(s.refresh))
	}
}

// TestRefreshLosesItsToken is the same for a refresh: another refresh or a revocation comes between.
func TestRefreshLosesItsToken(t *testing.T) {
	for name, c := range map[string]struct {
		first   func(*store, op.RefreshTokenRequest, string) error
		replays int
	}{
		"to a refresh": {func(s *store, r op.RefreshTokenRequest, token string) error {
			_, _, _, err := s.CreateAccessAndRefreshTokens(t.Context(), r, token)
			return err
		}, 1},
		"to a revocation": {func(s *store, _ op.RefreshTokenRequest, token string) error {
			if err := s.RevokeToken(t.Context(), token, "", "app"); err != nil {
				return err
			}
			return nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestStore(t)
			r, err := s.AuthRequestByID(t.Context(), consented(t, s))
			if err != nil {
				t.Fatal(err)
			}
			_, token, _, err := s.CreateAccessAndRefreshTokens(t.Context(), r, "")
			if err != nil {
				t.Fatal(err)
			}
			found, err := s.TokenRequestByRefreshToken(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.first(s, found, token); err != nil {
				t.Fatal(err)
			}
			if _, _, _, err := s.CreateAccessAndRefreshTokens(t.Context(), found, token); err == nil {
				t.Error("the token was good for another refresh")
			}
			if s.replays != c.replays || len(s.refresh) != 0 {
				t.Errorf("replays %d, refresh tokens %d, want %d, 0", s.replays, len(s.refresh), c.replays)
			}
		})
	}
}

func TestRevokingIsForTheOwner(t *testing.T) {
	s, _ := newTestStore(t)
	r, err := s.AuthRequestByID(t.Context(), consented(t, s))
	if err != nil {
		t.Fatal(err)
	}
	access, refresh, _, err := s.CreateAccessAndRefreshTokens(t.Context(), r, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{access, refresh} {
		if err := s.RevokeToken(t.Context(), token, "", "other"); err == nil {
			t.Error("another client revoked a token")
		}
	}
	if len(s.access) != 1 || len(s.refresh) != 1 {
		t.Error("a token is gone")
	}
}

func TestDecidingNeedsTheLogin(t *testing.T) {
	s, _ := newTestStore(t)
	id := consented(t, s)
	for _, session := range []string{"other", ""} {
		if _, err := s.decide(id, session, false); err == nil {
			t.Errorf("session %q decided", session)
		}
	}
}

func TestLoginCannotBeTakenOver(t *testing.T) {
	s, _ := newTestStore(t)
	id := consented(t, s)
	for _, session := range []string{"session", "other"} {
		if err := s.logIn(id, session, "ada", "lovelace"); err == nil {
			t.Errorf("session %q logged in to an authorization that was decided", session)
		}
	}
}

func TestParseForms(t *testing.T) {
	const page = `<!doctype html><html><head><meta charset=utf-8><link rel=stylesheet href=x></head><body>
<input name=outside>
<form METHOD=POST action="/a?b=c&amp;d=e"><p>one<br>two&nbsp;
<input type=hidden name=h value="&lt;1&gt;"><input name=t><input type=password name=p required>
<button name=d value=yes>Yes</button><button name=d value=no type=submit>No</button></form>
<form><input type=checkbox></form></body></html>`
	forms := parseForms(page)
	if len(forms) != 2 || forms[0].action != "/a?b=c&d=e" || forms[0].method != "post" {
		t.Fatalf("parseForms = %+v", forms)
	}
	want := []field{{"hidden", "h", "<1>"}, {"text", "t", ""}, {"password", "p", ""}, {"submit", "d", "yes"}, {"submit", "d", "no"}}
	if !slices.Equal(forms[0].fields, want) {
		t.Errorf("fields = %+v, want %+v", forms[0].fields, want)
	}
	if got := forms[0].values(map[string]string{"text": "x"}).Encode(); got != "h=%3C1%3E&p=&t=x" {
		t.Errorf("values = %s", got)
	}
}

func FuzzParseForms(f *testing.F) {
	f.Add(`<form action="/x"><input name=a></form>`)
	f.Add(`<form><form><button>`)
	f.Fuzz(func(t *testing.T, page string) {
		for _, x := range parseForms(page) {
			x.values(nil)
		}
	})
}
