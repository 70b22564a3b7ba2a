package mcptools_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/mcptools"
	"github.com/millrace/millrace/internal/idp"
)

// TestRegistration registers a client at a provider, once for all users. The test fails if each user gets a client, if the client
// cannot renew tokens, or if a file contains a secret.
func TestRegistration(t *testing.T) {
	folder := t.TempDir()
	p := newProtectedWith(t, idp.Options{Registration: true}, func(o *mcptools.Options) {
		o.Servers[0].OAuth.ClientID, o.Servers[0].OAuth.Issuer, o.State = "", "", folder
	})
	for _, user := range []string{"ada", "bob"} {
		p.call(user, "of-"+user, "sign_in", "{}")
		if page, err := p.detour(); err != nil {
			t.Fatalf("%s: %v: %s", user, err, page)
		}
		if got := p.result().String(); !strings.HasPrefix(got, "p can be used now") {
			t.Errorf("%s: %q", user, got)
		}
	}
	p.idp.ExpireTokens("ada")
	p.call("ada", "again", "hit", "{}")
	p.want("with a token that was renewed", "hit")
	if clients, renewed := p.idp.Registered(), p.idp.Refreshes(); clients != 1 || renewed != 1 {
		t.Errorf("it registered itself %d times, and renewed %d tokens", clients, renewed)
	}
	for _, secret := range p.idp.Secrets() {
		_ = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			if data, err := os.ReadFile(path); err == nil && strings.Contains(string(data), secret) {
				t.Errorf("%s has a secret in it", path)
			}
			return nil
		})
	}
}

// TestForgottenRegistration has a provider forget the client that was registered there, while users have tokens that have expired.
// The test fails if their calls fail, if each user has a client registered, or if the client of a user who has authorized anew is
// replaced.
func TestForgottenRegistration(t *testing.T) {
	p := newProtectedWith(t, idp.Options{Registration: true}, func(o *mcptools.Options) {
		o.Servers[0].OAuth.ClientID, o.Servers[0].OAuth.Issuer = "", ""
	})
	users := []string{"ada", "bob"}
	signIn := func(user, id, tool, want string) {
		t.Helper()
		p.call(user, id+user, tool, "{}")
		if page, err := p.detour(); err != nil {
			t.Fatalf("%s: %v: %s", user, err, page)
		}
		if got := p.result().String(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", user, got)
		}
	}
	for _, user := range users {
		signIn(user, "first", "sign_in", "p can be used now")
	}
	p.idp.ForgetRegistered()
	p.idp.ExpireTokens("ada") // which authorizes for both
	for _, user := range users {
		signIn(user, "second", "hit", "hit")
	}
	p.idp.ExpireTokens("ada")
	for _, user := range users {
		p.call(user, "third"+user, "hit", "{}")
		p.want("with a token that was renewed", "hit")
	}
	if n := p.idp.Registered(); n != 2 {
		t.Errorf("it registered itself %d times", n)
	}
}
