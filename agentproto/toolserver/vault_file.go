package toolserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// The buckets of the file that a vault uses.
const (
	tokenBucket = "tokens"
	vaultBucket = "vault"
)

// A FileVault is a [Vault] in a file, where every token is encrypted (threat 24).
// A token can be read only with the keys, and only as what it was saved as: its
// runtime, user, provider and scopes go into the encryption, so that a record which
// somebody has moved to another user cannot be opened, nor one whose scopes were
// changed.
type FileVault struct {
	file *vault.File
	keys *Keyset
	own  bool // the file is closed with the vault
}

// NewVault opens the vault in a folder, which is made if it is not there, and
// belongs to one process at a time. What is saved is on the disk when Save returns;
// if the process is killed meanwhile, the token is either the new one or the one
// before, whole. Tokens that are encrypted with an older key are encrypted anew.
//
// It returns an error if the tokens in it were encrypted with other keys.
//
// A server with [Options.State] has such a vault already. One of its own is for
// servers without, and for an operator who wants tokens on another disk, or in
// another backup, than calls.
func NewVault(folder string, keys *Keyset) (*FileVault, error) {
	if keys == nil {
		return nil, errors.New("toolserver: NewVault: there are no keys; see LoadKeyset")
	}
	s, err := vault.Open(folder)
	if err != nil {
		return nil, err
	}
	v, err := newFileVault(s, keys)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("toolserver: the vault in %q: %w", folder, err)
	}
	v.own = true
	return v, nil
}

// newFileVault returns a vault in a file that may have other things in it.
func newFileVault(file *vault.File, keys *Keyset) (*FileVault, error) {
	v := &FileVault{file: file, keys: keys}
	if err := v.check(); err != nil {
		return nil, err
	}
	if _, err := v.Reseal(); err != nil && !errors.Is(err, errUnsealed) {
		return nil, err // one damaged record is one user's, who is told
	}
	return v, nil
}

// The check is a record that only the right keys can read. Without it, wrong keys
// would be noticed one user after the other.
var (
	checkKey     = []byte("check")
	checkContext = []byte(`["check"]`)
)

func (v *FileVault) check() error {
	return v.file.Update(func(tx *vault.Tx) error {
		sealed := tx.Get(vaultBucket, checkKey)
		if sealed != nil {
			if _, err := v.keys.open(sealed, checkContext); err != nil {
				return errors.New("the tokens are encrypted with other keys: give it the keys they were encrypted with, or remove its folder and have the users asked again")
			}
			if v.keys.current(sealed) {
				return nil
			}
		}
		sealed, err := v.keys.seal(nil, checkContext)
		if err != nil {
			return err
		}
		return tx.Put(vaultBucket, checkKey, sealed)
	})
}

// A tokenRecord is what is kept of a token. Whose it is can be found out only by
// who knows it already.
type tokenRecord struct {
	Scopes []string
	Sealed []byte // a tokenText
}

// A tokenText is what is secret of a token.
type tokenText struct {
	Access, Refresh string
	Expiry          time.Time
}

// id returns the key of a token in the file.
func (k TokenKey) id() []byte {
	list, _ := json.Marshal([]string{k.Runtime, k.User, k.Provider})
	d := sha256.Sum256(list)
	return d[:]
}

// tokenContext returns what a token is bound to when it is encrypted.
func tokenContext(id []byte, scopes []string) []byte {
	list, _ := json.Marshal(append([]string{"token", hex.EncodeToString(id)}, scopes...))
	return list
}

// errUnsealed tells an operator what Load cannot.
var errUnsealed = errors.New("the record cannot be decrypted: it is damaged, another user's, or of a key that was retired")

// Load returns the token of key, or [ErrNoToken]. A record that is not what was
// saved for this key is an error, and stays where it is.
func (v *FileVault) Load(_ context.Context, key TokenKey) (*UserToken, error) {
	var data []byte
	if err := v.file.View(func(tx *vault.Tx) error {
		data = slices.Clone(tx.Get(tokenBucket, key.id()))
		return nil
	}); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, ErrNoToken
	}
	return v.read(key.id(), data)
}

func (v *FileVault) read(id, data []byte) (*UserToken, error) {
	var r tokenRecord
	var t tokenText
	if json.Unmarshal(data, &r) != nil {
		return nil, errUnsealed
	}
	text, err := v.keys.open(r.Sealed, tokenContext(id, r.Scopes))
	if err != nil || json.Unmarshal(text, &t) != nil {
		return nil, errUnsealed
	}
	return t.token(r.Scopes), nil
}

// Save replaces the token of key. It is durable when Save returns.
func (v *FileVault) Save(_ context.Context, key TokenKey, token *UserToken) error {
	data, err := v.record(key.id(), token)
	if err != nil {
		return err
	}
	return v.file.Update(func(tx *vault.Tx) error { return tx.Put(tokenBucket, key.id(), data) })
}

func tokenTextOf(t *UserToken) *tokenText {
	return &tokenText{t.Access.Reveal(), t.Refresh.Reveal(), t.Expiry}
}

func (t *tokenText) token(scopes []string) *UserToken {
	return &UserToken{Access: NewSecret(t.Access), Refresh: NewSecret(t.Refresh), Expiry: t.Expiry, Scopes: scopes}
}

func (v *FileVault) record(id []byte, token *UserToken) ([]byte, error) {
	r := tokenRecord{Scopes: token.Scopes}
	text, err := json.Marshal(tokenTextOf(token))
	if err != nil {
		return nil, errors.New("the token cannot be encoded: its expiry is out of range")
	}
	if r.Sealed, err = v.keys.seal(text, tokenContext(id, r.Scopes)); err != nil {
		return nil, fmt.Errorf("the token cannot be encrypted: %w", err)
	}
	return json.Marshal(r)
}

// Delete removes the token of key, if there is one.
func (v *FileVault) Delete(_ context.Context, key TokenKey) error {
	return v.file.Update(func(tx *vault.Tx) error { return tx.Delete(tokenBucket, key.id()) })
}

// Reseal encrypts with the primary key what is encrypted with an older one, after
// [Keyset.Rotate] and before [Keyset.Retire], and returns how many tokens that
// were. The vault can be used meanwhile. What cannot be decrypted stays as it is,
// and is an error.
func (v *FileVault) Reseal() (n int, err error) {
	old := make(map[string][]byte)
	if err := v.file.View(func(tx *vault.Tx) error {
		clear(old)
		tx.Each(tokenBucket, nil, func(k, data []byte) bool {
			var r tokenRecord
			if json.Unmarshal(data, &r) != nil || !v.keys.current(r.Sealed) {
				old[string(k)] = slices.Clone(data)
			}
			return true
		})
		return nil
	}); err != nil {
		return 0, err
	}
	unread := 0
	for k, data := range old {
		switch done, err := v.reseal([]byte(k), data); {
		case errors.Is(err, errUnsealed):
			unread++
		case err != nil:
			return n, err
		case done:
			n++
		}
	}
	if unread > 0 {
		return n, fmt.Errorf("toolserver: %d tokens were left as they are: %w", unread, errUnsealed)
	}
	return n, v.check()
}

// reseal encrypts one record anew, unless it has changed meanwhile.
func (v *FileVault) reseal(id, data []byte) (done bool, err error) {
	t, err := v.read(id, data)
	if err != nil {
		return false, err
	}
	fresh, err := v.record(id, t)
	if err != nil {
		return false, err
	}
	err = v.file.Update(func(tx *vault.Tx) error {
		if done = string(tx.Get(tokenBucket, id)) == string(data); !done {
			return nil
		}
		return tx.Put(tokenBucket, id, fresh)
	})
	return done, err
}

// Close gives the folder free. It does nothing to the vault of a server.
func (v *FileVault) Close() error {
	if !v.own {
		return nil
	}
	return v.file.Close()
}
