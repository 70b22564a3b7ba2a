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
