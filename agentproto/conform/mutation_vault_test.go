package conform_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
	"github.com/millrace/millrace/agentproto/internal/undertest"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// forgetful is a vault that stores nothing.
type forgetful struct{}

func (forgetful) Load(context.Context, toolserver.TokenKey) (*toolserver.UserToken, error) {
	return nil, toolserver.ErrNoToken
}
func (forgetful) Save(context.Context, toolserver.TokenKey, *toolserver.UserToken) error { return nil }
func (forgetful) Delete(context.Context, toolserver.TokenKey) error                      { return nil }

// An openVault writes tokens unencrypted into a file.
type openVault struct {
	folder string
	tokens sync.Map
}

func (v *openVault) Load(_ context.Context, key toolserver.TokenKey) (*toolserver.UserToken, error) {
	if t, ok := v.tokens.Load(key); ok {
		return t.(*toolserver.UserToken), nil
	}
	return nil, toolserver.ErrNoToken
}

func (v *openVault) Save(_ context.Context, key toolserver.TokenKey, t *toolserver.UserToken) error {
	v.tokens.Store(key, t)
	return os.WriteFile(filepath.Join(v.folder, "tokens"), fmt.Appendf(nil, "%s %s", t.Access.Reveal(), t.Refresh.Reveal()), 0o600)
}

func (v *openVault) Delete(_ context.Context, key toolserver.TokenKey) error {
	v.tokens.Delete(key)
	return nil
}

// forgetfulTools runs the cases about restarts against a server that stores nothing. Each
// case must fail.
func forgetfulTools(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	target, end, err := undertest.Prepare(t.TempDir(), self, serveArg)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	command := target.Profile.Command
	if err := undertest.Forgetful(command[len(command)-1]); err != nil {
		t.Fatal(err)
	}
	target.Profile.Limits.Result, target.Profile.Limits.Retry = 3000, 1500
	report, err := conform.RunTool(t.Context(), target, conform.Options{Run: "A09|C03|O23|S13"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status != conform.Failed {
			t.Errorf("%s: %s %s, want fail", r.ID, r.Status, r.Reason)
		}
	}
}
