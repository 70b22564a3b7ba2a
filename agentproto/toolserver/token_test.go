package toolserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// signedIn returns a stage where u1 has a token already.
func signedIn(t *testing.T) *stage {
	st := newStage(t, toolserver.Options{})
	st.call("whoami", "c0", "{}", user("u1"))
	st.allow(st.authURL(), "ada", "lovelace")
	st.nextResult()
	return st
}

func TestO16_O18_Refresh(t *testing.T) {
	st := signedIn(t)
	st.vault.expire(t)
	st.idp.ExpireTokens("ada")
	for i := range 20 {
		st.call("whoami", fmt.Sprint("c", i+1), "{}", user("u1"))
	}
	for range 20 {
		if got := st.nextResult(); got != "ada" {
			t.Errorf("result %q", got)
		}
	}
	if n := st.idp.Refreshes(); n != 1 || st.vault.saved() != 2 || st.idp.Replays() != 0 {
		t.Errorf("%d refreshes, %d saves, %d replays", n, st.vault.saved(), st.idp.Replays())
	}
	st.vault.expire(t) // the rotated refresh token was the one that was saved
	st.call("whoami", "c30", "{}", user("u1"))
	if got := st.nextResult(); got != "ada" || st.idp.Replays() != 0 {
		t.Errorf("result %q, %d replays", got, st.idp.Replays())
	}
	st.ends()
}

func TestO16_SavedBeforeUse(t *testing.T) {
	st := signedIn(t)
	st.vault.expire(t)
	st.vault.fails = true
	before := st.idp.UserInfos()
	st.call("whoami", "c1", "{}", user("u1"))
	if got := st.nextResult(); got != "Error: the authorization failed" || st.idp.Refreshes() != 1 || st.idp.UserInfos() != before {
		t.Errorf("result %q after %d refreshes and %d uses", got, st.idp.Refreshes(), st.idp.UserInfos()-before)
	}
	st.ends()
}

func TestO17_RefreshRejected(t *testing.T) {
	st := signedIn(t)
	st.vault.expire(t)
	st.idp.RevokeRefresh("ada")
	st.call("whoami", "c1", "{}", user("u1"))
	st.allow(st.authURL(), "bob", "builder") // the user may take another account
	if got := st.nextResult(); got != "bob" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

func TestO17_RefreshFails(t *testing.T) {
	st := signedIn(t)
	st.vault.expire(t)
	st.idp.FailTokenEndpoint(500, 1)
	st.call("whoami", "c1", "{}", user("u1"))
	if got := st.nextResult(); got != "Error: the access could not be renewed" {
		t.Errorf("result %q", got)
	}
	st.call("whoami", "c2", "{}", user("u1")) // the refresh token was kept
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

func TestO17_AccessTokenRefused(t *testing.T) {
	st := signedIn(t)
	st.idp.ExpireTokens("ada") // the server believes in the expiry it knows
	st.call("whoami", "c1", "{}", user("u1"))
	if got := st.nextResult(); got != "ada" || st.idp.Refreshes() != 1 {
		t.Errorf("result %q after %d refreshes", got, st.idp.Refreshes())
	}
	st.idp.ExpireTokens("ada")
	st.idp.RevokeRefresh("ada")
	st.call("whoami", "c2", "{}", user("u1"))
	st.allow(st.authURL(), "ada", "lovelace")
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

func TestO17_NoEndlessLoop(t *testing.T) {
	st := signedIn(t)
	runs := 0
	toolserver.AddWithOptions(st.server, "never", "Is never satisfied.", toolserver.ToolOptions{RequireOAuth: "idp"}, func(context.Context, none) (string, error) {
		runs++
		return "", toolserver.ErrUnauthorized
	})
	st.call("never", "c1", "{}", user("u1"))
	st.allow(st.authURL(), "ada", "lovelace")
	if got := st.nextResult(); got != "Error: the access was refused in spite of a new authorization" || runs != 3 {
		t.Errorf("result %q after %d runs", got, runs)
	}
	st.ends()
}
