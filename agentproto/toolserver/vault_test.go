package toolserver_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestO20_FileVault keeps a token in a separate vault, and rotates the keys meanwhile.
func TestO20_FileVault(t *testing.T) {
	folder, path := t.TempDir(), filepath.Join(t.TempDir(), "keys.json")
	keys, err := toolserver.LoadKeyset(path)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *toolserver.FileVault {
		t.Helper()
		v, err := toolserver.NewVault(folder, keys)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v, key := open(), toolserver.TokenKey{Runtime: "https://runtime.example", User: "user:ada", Provider: "idp"}
	if got, err := v.Load(t.Context(), key); !errors.Is(err, toolserver.ErrNoToken) {
		t.Errorf("Load = %v, %v", got, err)
	}
	expiry := time.Unix(2e9, 0)
	if err := v.Save(t.Context(), key, &toolserver.UserToken{
		Access: toolserver.NewSecret("access"), Refresh: toolserver.NewSecret("refresh"), Expiry: expiry, Scopes: []string{"read", "write"},
	}); err != nil {
		t.Fatal(err)
	}
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	if n, err := v.Reseal(); n != 1 || err != nil {
		t.Errorf("Reseal = %d, %v", n, err)
	}
	if err := keys.Retire(); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if keys, err = toolserver.LoadKeyset(path); err != nil {
		t.Fatal(err)
	}
	v = open()
	defer v.Close()
	got, err := v.Load(t.Context(), key)
	if err != nil || got.Access.Reveal() != "access" || got.Refresh.Reveal() != "refresh" || !got.Expiry.Equal(expiry) || strings.Join(got.Scopes, " ") != "read write" {
		t.Errorf("Load = %v, %v", got, err)
	}
	if err := v.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	if _, err := v.Load(t.Context(), key); !errors.Is(err, toolserver.ErrNoToken) {
		t.Errorf("Load = %v after Delete", err)
	}
}

func TestNoKeys(t *testing.T) {
	if _, err := toolserver.NewVault(t.TempDir(), nil); err == nil {
		t.Error("a vault is opened without keys")
	}
	if _, err := toolserver.LoadSealedKeyset(filepath.Join(t.TempDir(), "keys.json"), nil); err == nil {
		t.Error("no master key is taken")
	}
}
