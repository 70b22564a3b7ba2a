package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/millrace/millrace/agentproto/internal/leak"
)

// A lab is a folder for a vault, and the file of its keys.
type lab struct {
	t            *testing.T
	folder, keys string
}

func newLab(t *testing.T) lab {
	dir := t.TempDir()
	return lab{t, filepath.Join(dir, "vault"), filepath.Join(dir, "elsewhere", "keys.json")}
}

func (l lab) load() *Keyset {
	l.t.Helper()
	k, err := LoadKeyset(l.keys, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return k
}

func (l lab) open(k *Keyset) *Tokens {
	l.t.Helper()
	file, err := Open(l.folder)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { file.Close() })
	v, err := NewTokens(file, k)
	if err != nil {
		l.t.Fatal(err)
	}
	return v
}

// has checks that the vault contains a token, or that it contains none if want is empty.
func (l lab) has(v *Tokens, key Key, want string) {
	l.t.Helper()
	switch got, err := v.Load(key); {
	case want == "" && !errors.Is(err, ErrNoToken):
		l.t.Errorf("Load(%v) = %v, %v, want no token", key, got, err)
	case want != "" && (err != nil || got.Access != want):
		l.t.Errorf("Load(%v) = %v, want %s", key, err, want)
	}
}

func testToken(access string, scopes ...string) *Token {
	return &Token{Access: access, Refresh: "refresh-" + access, Expiry: time.Unix(2e9, 0), Scopes: scopes}
}

// all returns the names and contents of all files below a folder.
func (l lab) all(folder string) []byte {
	l.t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(&all, "%s %s\n", path, text)
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all.Bytes()
}

var ada, bob = Key{"https://runtime.example", "user:ada", "idp"}, Key{"https://runtime.example", "user:bob", "idp"}

func TestO20_VaultIsEncrypted(t *testing.T) {
	l := newLab(t)
	v := l.open(l.load())
	l.has(v, ada, "")
	for key, access := range map[Key]string{ada: "canary-access-ada", bob: "canary-access-bob"} {
		if err := v.Save(key, testToken(access, "read", "write")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := v.Load(ada)
	if err != nil || got.Access != "canary-access-ada" || got.Refresh != "refresh-canary-access-ada" ||
		!got.Expiry.Equal(time.Unix(2e9, 0)) || strings.Join(got.Scopes, " ") != "read write" {
		t.Errorf("Load = %v, %v", got, err)
	}
	for _, other := range []Key{{"https://other.example", ada.User, ada.Provider}, {ada.Runtime, ada.User, "other"}, {"", ada.Runtime + ada.User, ada.Provider}} {
		l.has(v, other, "")
	}
	v.file.Close()

	// A copy of the file reveals neither tokens nor users.
	var guard leak.Guard
	for _, s := range []string{"canary-access-ada", "canary-access-bob", "refresh-canary-access", "user:ada", "https://runtime.example"} {
		guard.Add(s)
	}
	if guard.Finds(l.all(l.folder)) {
		t.Error("the file shows what is in it")
	}
	for path, want := range map[string]fs.FileMode{l.keys: 0o600, filepath.Join(l.folder, FileName): 0o600, l.folder: 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	// With other keys the vault cannot even be opened.
	thief := lab{t, l.folder, filepath.Join(t.TempDir(), "keys.json")}
	file, err := Open(l.folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTokens(file, thief.load()); err == nil || !strings.Contains(err.Error(), "encrypted with other keys") {
		t.Errorf("opened with other keys: %v", err)
	}
	file.Close()

	v = l.open(l.load()) // the right keys still work after that
	l.has(v, ada, "canary-access-ada")
	if err := v.Delete(ada); err != nil {
		t.Error(err)
	}
	l.has(v, ada, "")
	l.has(v, bob, "canary-access-bob")
}

func TestO20_RecordsCannotBeMoved(t *testing.T) {
	l := newLab(t)
	v := l.open(l.load())
	v.Save(ada, testToken("ada", "read"))
	v.Save(bob, testToken("bob", "read"))
	change := func(key Key, f func(tx *Tx) []byte) {
		t.Helper()
		if err := v.file.Update(func(tx *Tx) error { return tx.Put(tokenBucket, key.id(), f(tx)) }); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]func(tx *Tx) []byte{
		"another user's": func(tx *Tx) []byte { return tx.Get(tokenBucket, bob.id()) },
		"with another scope": func(tx *Tx) []byte {
			return bytes.Replace(tx.Get(tokenBucket, ada.id()), []byte("read"), []byte("root"), 1)
		},
		"with one scope more": func(tx *Tx) []byte {
			return bytes.Replace(tx.Get(tokenBucket, ada.id()), []byte(`"read"`), []byte(`"read","w"`), 1)
		},
		"the check": func(tx *Tx) []byte { return []byte(`{"Sealed":"` + string(tx.Get(vaultBucket, checkKey)) + `"}`) },
		"cut":       func(tx *Tx) []byte { b := tx.Get(tokenBucket, ada.id()); return b[:len(b)/2] },
		"nothing":   func(*Tx) []byte { return []byte("{}") },
	} {
		v.Save(ada, testToken("ada", "read"))
		change(ada, f)
		if got, err := v.Load(ada); !errors.Is(err, errUnsealed) {
			t.Errorf("%s: Load = %v, %v", name, got, err)
		}
		if _, err := v.Reseal(); err == nil && (name == "cut" || name == "nothing") {
			t.Errorf("%s: Reseal does not say so", name)
		}
		l.has(v, bob, "bob")
	}
	v.file.Close()
	v = l.open(l.load()) // one damaged record does not make the others unreadable
	l.has(v, bob, "bob")
}

func TestO20_Rotation(t *testing.T) {
	l := newLab(t)
	keys := l.load()
	v := l.open(keys)
	v.Save(ada, testToken("ada"))
	v.Save(bob, testToken("bob"))
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	l.has(v, ada, "ada") // the old key still decrypts
	v.Save(bob, testToken("bob-2"))
	v.file.Close()

	copied := l.load() // the new key is in the file
	if n := copied.handle.Len(); n != 2 {
		t.Fatalf("%d keys", n)
	}
	v = l.open(copied) // opening re-encrypts ada's token
	if n, err := v.Reseal(); n != 0 || err != nil {
		t.Errorf("Reseal = %d, %v after opening", n, err)
	}
	if err := copied.Rotate(); err != nil {
		t.Fatal(err)
	}
	if n, err := v.Reseal(); n != 2 || err != nil {
		t.Errorf("Reseal = %d, %v", n, err)
	}
	if err := copied.Retire(); err != nil {
		t.Fatal(err)
	}
	v.file.Close()
	last := l.load()
	if n := last.handle.Len(); n != 1 {
		t.Fatalf("%d keys", n)
	}
	v = l.open(last)
	l.has(v, ada, "ada")
	l.has(v, bob, "bob-2")
	last.Rotate()
	last.Retire() // too early: nothing was re-encrypted
	if _, err := v.Load(ada); !errors.Is(err, errUnsealed) {
		t.Errorf("Load = %v with a key that is gone", err)
	}
	if n, err := v.Reseal(); n != 0 || !errors.Is(err, errUnsealed) {
		t.Errorf("Reseal = %d, %v with a key that is gone", n, err)
	}
}

// TestVaultTogether changes keys and tokens concurrently.
func TestVaultTogether(t *testing.T) {
	l := newLab(t)
	keys := l.load()
	v := l.open(keys)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			key := Key{User: fmt.Sprint("user:", i)}
			for j := range 10 {
				want := fmt.Sprint(i, "-", j)
				if err := v.Save(key, testToken(want)); err != nil {
					t.Error(err)
				}
				l.has(v, key, want)
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if err := keys.Rotate(); err != nil {
				t.Error(err)
			}
			if _, err := v.Reseal(); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	for i := range 8 {
		l.has(v, Key{User: fmt.Sprint("user:", i)}, fmt.Sprint(i, "-9"))
	}
}

func TestKeysetFile(t *testing.T) {
	l := newLab(t)
	loaded := make([]*Keyset, 8) // all load the same file, whoever creates it
	var all sync.WaitGroup
	for i := range loaded {
		all.Go(func() { loaded[i] = l.load() })
	}
	all.Wait()
	sealed, err := loaded[0].Seal([]byte("text"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range loaded {
		if got, err := k.Unseal(sealed, nil); err != nil || string(got) != "text" {
			t.Errorf("open = %q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(l.keys))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	key := strings.Split(string(l.all(filepath.Dir(l.keys))), `"value":"`)[1][:32]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if s := fmt.Sprintf(verb, loaded[0]) + fmt.Sprintf(verb, struct{ Keys *Keyset }{loaded[0]}); strings.Contains(s, key) {
			t.Errorf("%s shows the key", verb)
		}
	}

	if err := os.Chmod(l.keys, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeyset(l.keys, nil); err == nil || !strings.Contains(err.Error(), "can be read by others") {
		t.Errorf("readable by the group: %v", err)
	}
	os.Chmod(l.keys, 0o600)
	for _, text := range []string{"", "{}", "canary-in-the-file", string(l.all(filepath.Dir(l.keys)))[:200]} {
		if err := os.WriteFile(l.keys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKeyset(l.keys, nil); err == nil || !strings.Contains(err.Error(), "holds no keys") || strings.Contains(err.Error(), "canary") {
			t.Errorf("file with %q: %v", text, err)
		}
	}
	if _, err := LoadKeyset(filepath.Join(l.keys, "below", "a", "file"), nil); err == nil {
		t.Error("keys are where no file can be")
	}
}

// A countedKMS is a key service that counts its requests.
type countedKMS struct {
	tink.AEAD
	asked int
}

func (k *countedKMS) Encrypt(text, context []byte) ([]byte, error) {
	k.asked++
	return k.AEAD.Encrypt(text, context)
}

func (k *countedKMS) Decrypt(sealed, context []byte) ([]byte, error) {
	k.asked++
	return k.AEAD.Decrypt(sealed, context)
}

func newKMS(t *testing.T) *countedKMS {
	h, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	master, err := aead.New(h)
	if err != nil {
		t.Fatal(err)
	}
	return &countedKMS{AEAD: master}
}

func TestKeysetSealed(t *testing.T) {
	l, kms := newLab(t), newKMS(t)
	keys, err := LoadKeyset(l.keys, kms)
	if err != nil {
		t.Fatal(err)
	}
	v := l.open(keys)
	asked := kms.asked
	v.Save(ada, testToken("ada"))
	l.has(v, ada, "ada")
	if kms.asked != asked {
		t.Error("the key service is asked for each token")
	}
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	v.file.Close()
	if _, err := LoadKeyset(l.keys, nil); err == nil {
		t.Error("the file can be read without the master key")
	}
	if _, err := LoadKeyset(l.keys, newKMS(t)); err == nil {
		t.Error("the file can be read with another master key")
	}
	if keys, err = LoadKeyset(l.keys, kms); err != nil {
		t.Fatal(err)
	}
	v = l.open(keys)
	l.has(v, ada, "ada")
}

func TestUsable(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		token   Token
		refused string
		want    bool
	}{
		"good":                  {Token{Access: "a", Expiry: now.Add(time.Hour)}, "", true},
		"without an expiry":     {Token{Access: "a"}, "b", true},
		"nothing":               {Token{}, "", false},
		"refused":               {Token{Access: "a"}, "a", false},
		"expired":               {Token{Access: "a", Expiry: now.Add(-time.Second)}, "", false},
		"nearly expired":        {Token{Access: "a", Expiry: now.Add(5 * time.Second)}, "", true},
		"nearly, and renewable": {Token{Access: "a", Refresh: "r", Expiry: now.Add(5 * time.Second)}, "", false},
	} {
		if c.token.Usable(c.refused) != c.want {
			t.Errorf("%s: usable is %t", name, !c.want)
		}
	}
}

func TestO19_TokenDoesNotPrint(t *testing.T) {
	token := *testToken("canary")
	for _, v := range []any{token, &token, struct{ T Token }{token}, []*Token{&token}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "canary") || strings.Contains(s, fmt.Sprintf("%x", "canary")) {
				t.Errorf("%s prints %s", verb, s)
			}
		}
	}
}
