package toolserver_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// signedIn returns a stage on which u1 already has a token.
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
	st.vault.expire(t) // the rotated refresh token was saved
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
	st.allow(st.authURL(), "bob", "builder") // the user may choose another account
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
	st.idp.ExpireTokens("ada") // the server still trusts the expiry it knows
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

// TestO18_RefusedInParallel has twenty calls find at once that their token is refused. One of
// them renews it.
func TestO18_RefusedInParallel(t *testing.T) {
	st := signedIn(t)
	st.idp.ExpireTokens("ada") // the server still trusts the expiry it knows
	release := make(chan struct{})
	var arrived sync.WaitGroup
	arrived.Add(20)
	var runs atomic.Int32
	toolserver.AddWithOptions(st.server, "together", "Waits for the others.", toolserver.ToolOptions{RequireOAuth: "idp"},
		func(ctx context.Context, _ none) (string, error) {
			if runs.Add(1) <= 20 {
				if _, err := toolserver.Token(ctx); err != nil {
					return "", err
				}
				arrived.Done()
				<-release
			}
			resp, err := toolserver.Client(ctx).Get(st.idp.UserInfoURL())
			if err != nil {
				return "", err
			}
			resp.Body.Close()
			return "done", nil
		})
	for i := range 20 {
		st.call("together", fmt.Sprint("c", i+1), "{}", user("u1"))
	}
	arrived.Wait()
	close(release)
	for range 20 {
		if got := st.nextResult(); got != "done" {
			t.Errorf("result %q", got)
		}
	}
	if n := st.idp.Refreshes(); n != 1 || st.idp.Replays() != 0 || st.vault.saved() != 2 {
		t.Errorf("%d refreshes, %d replays, %d saves", n, st.idp.Replays(), st.vault.saved())
	}
	st.ends()
}

// TestO18_RefusedLate has a call find that its token is refused long after another call renewed
// it. It uses the renewed token, and no rotated token is lost.
func TestO18_RefusedLate(t *testing.T) {
	st := signedIn(t)
	began, release := make(chan struct{}), make(chan struct{})
	var runs atomic.Int32
	toolserver.AddWithOptions(st.server, "slow", "Finds out late.", toolserver.ToolOptions{RequireOAuth: "idp"},
		func(ctx context.Context, _ none) (string, error) {
			token, err := toolserver.Token(ctx)
			if runs.Add(1) > 1 || err != nil {
				return fmt.Sprint(token.Empty()), err
			}
			close(began)
			<-release
			return "", toolserver.ErrUnauthorized
		})
	st.call("slow", "c1", "{}", user("u1"))
	<-began
	st.idp.ExpireTokens("ada")
	st.call("whoami", "c2", "{}", user("u1"))
	if got := st.nextResult(); got != "ada" {
		t.Errorf("result %q", got)
	}
	close(release)
	if got := st.nextResult(); got != "false" || runs.Load() != 2 || st.idp.Refreshes() != 1 {
		t.Errorf("result %q after %d runs and %d refreshes", got, runs.Load(), st.idp.Refreshes())
	}
	st.vault.expire(t) // the saved refresh token is the latest
	st.call("whoami", "c3", "{}", user("u1"))
	if got := st.nextResult(); got != "ada" || st.idp.Replays() != 0 {
		t.Errorf("result %q, %d replays", got, st.idp.Replays())
	}
	st.ends()
}

// TestO16_NewAuthorizationDuringRefresh has a user authorize again while the refresh of the old
// token fails. The new token stays.
func TestO16_NewAuthorizationDuringRefresh(t *testing.T) {
	st := signedIn(t)
	st.addScoped("read")
	st.call("read", "c1", "{}", user("u1"))
	to := st.grant(st.authURL())
	st.vault.expire(t)
	arrived, release := st.idp.HoldTokenEndpoint()
	st.call("whoami", "c2", "{}", user("u1"))
	<-arrived // a refresh
	done := make(chan int)
	go func() { done <- st.open(to.String()) }()
	st.idp.RevokeRefresh("ada")
	release()
	if code := <-done; code != 200 {
		t.Errorf("page %d", code)
	}
	for range 2 { // in either order; the failed refresh may have asked, too
		m := st.next()
		if _, ok := m.Callback.(*agentproto.OAuth); ok {
			m = st.next()
		}
		if got := m.Callback.(*agentproto.ToolResult).String(); got != "ada" && got != "done" {
			t.Errorf("%s: result %q", m.Key().ID, got)
		}
	}
	st.call("read", "c3", "{}", user("u1"))
	if got := st.nextResult(); got != "done" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

// A crashingVault is a vault whose process ends while it saves, before or after the token is on
// disk.
type crashingVault struct {
	*toolserver.FileVault
	armed, after bool
	crashed      chan struct{}
}

func (v *crashingVault) Save(ctx context.Context, key toolserver.TokenKey, t *toolserver.UserToken) error {
	if !v.armed {
		return v.FileVault.Save(ctx, key, t)
	}
	if v.after {
		if err := v.FileVault.Save(ctx, key, t); err != nil {
			return err
		}
	}
	v.FileVault.Close() // nothing more reaches the disk
	close(v.crashed)
	select {} // Save does not return either
}

// TestO16_CrashWhileRotating ends the process between the provider's answer to a refresh and
// the use of the new token. Whatever the vault then contains, the next process continues without
// the user or asks again. It does not return an error.
func TestO16_CrashWhileRotating(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before it is saved": false, "after it is saved": true} {
		t.Run(name, func(t *testing.T) {
			keys, err := toolserver.LoadKeyset(t.TempDir() + "/keys.json")
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			open := func() *toolserver.FileVault {
				v, err := toolserver.NewVault(folder, keys)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { v.Close() })
				return v
			}
			v := &crashingVault{FileVault: open(), after: after, crashed: make(chan struct{})}
			st := newStage(t, toolserver.Options{State: t.TempDir(), Vault: v, Keys: keys})
			st.call("whoami", "c0", "{}", user("u1"))
			st.allow(st.authURL(), "ada", "lovelace")
			st.nextResult()
			used := st.idp.UserInfos()
			st.idp.ExpireTokens("ada")
			v.armed = true
			st.call("whoami", "c1", "{}", user("u1"))
			<-v.crashed
			if n := st.idp.UserInfos() - used; n != 1 || st.idp.Refreshes() != 1 {
				t.Errorf("%d uses, %d refreshes: the token was used before it was saved", n, st.idp.Refreshes())
			}
			st.restart(func(o *toolserver.Options) { o.Vault = open() })
			if err := st.server.Start(); err != nil {
				t.Fatal(err)
			}
			if !after { // the provider has rotated, and treats the old one as stolen
				st.allow(st.authURL(), "ada", "lovelace")
			}
			if got := st.nextResult(); got != "ada" {
				t.Errorf("result %q", got)
			}
			if n := st.idp.Replays(); after && n != 0 {
				t.Errorf("%d replays", n)
			}
			st.ends()
		})
	}
}
