package vault

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// The buckets with tokens and with the check record.
const (
	tokenBucket = "tokens"
	vaultBucket = "vault"
)

// A Key names the owner of a token and its provider.
type Key struct{ Runtime, User, Provider string }

// A Token is a token that a provider issued for a user. Scopes are its granted scopes, sorted.
type Token struct {
	Access, Refresh string
	Expiry          time.Time
	Client          string   `json:",omitempty"` // that it was issued to; empty if an earlier version stored it
	Scopes          []string `json:"-"`
}

// expiryMargin is how long before its expiry an access token is renewed.
const expiryMargin = 10 * time.Second

// Usable reports whether the access token is valid now and is not the refused one. A token that can
// be renewed counts as invalid shortly before its expiry.
func (t *Token) Usable(refused string) bool {
	margin := expiryMargin
	if t.Refresh == "" {
		margin = 0
	}
	return t.Access != "" && t.Access != refused && (t.Expiry.IsZero() || time.Until(t.Expiry) > margin)
}

// Format writes nothing of the token, whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, "Token") }

// ErrNoToken says that there is no token for a key.
var ErrNoToken = errors.New("toolserver: no token")

// Tokens are the tokens in a file, each encrypted (threat 24). A token can be read only with the
// keys, and only under the runtime, user, provider and scopes that it was saved with: they are part
// of the encryption. So a record that somebody has moved to another user, or whose scopes were
// changed, cannot be decrypted.
type Tokens struct {
	file *File
	keys *Keyset
}

// NewTokens returns the tokens in a file, which may contain other buckets. It returns an error if
// they were encrypted with other keys, and encrypts anew what is encrypted with an older key.
func NewTokens(file *File, keys *Keyset) (*Tokens, error) {
	v := &Tokens{file: file, keys: keys}
	if err := v.check(); err != nil {
		return nil, err
	}
	if _, err := v.Reseal(); err != nil && !errors.Is(err, errUnsealed) {
		return nil, err // a damaged record affects only its user, who gets an error
	}
	return v, nil
}

// The check is a record that only the right keys can decrypt. Without it, wrong keys would be
// noticed only user by user.
var (
	checkKey     = []byte("check")
	checkContext = []byte(`["check"]`)
)

func (v *Tokens) check() error {
	return v.file.Update(func(tx *Tx) error {
		sealed := tx.Get(vaultBucket, checkKey)
		if sealed != nil {
			if _, err := v.keys.Unseal(sealed, checkContext); err != nil {
				return errors.New("the tokens are encrypted with other keys: give it the keys they were encrypted with, or remove its folder and have the users asked again")
			}
			if v.keys.current(sealed) {
				return nil
			}
		}
		sealed, err := v.keys.Seal(nil, checkContext)
		if err != nil {
			return err
		}
		return tx.Put(vaultBucket, checkKey, sealed)
	})
}

// A tokenRecord is the stored form of a token. Its key in the file is a digest, so it names the
// owner only to somebody who knows the owner already.
type tokenRecord struct {
	Scopes []string
	Sealed []byte // the rest of a [Token]
}

// id returns the key of a token in the file.
func (k Key) id() []byte {
	list, _ := json.Marshal([]string{k.Runtime, k.User, k.Provider})
	d := sha256.Sum256(list)
	return d[:]
}

// tokenContext returns the context in which a token is encrypted.
func tokenContext(id []byte, scopes []string) []byte {
	list, _ := json.Marshal(append([]string{"token", hex.EncodeToString(id)}, scopes...))
	return list
}

// errUnsealed says that a record cannot be decrypted; the reason is not known.
var errUnsealed = errors.New("the record cannot be decrypted: it is damaged, another user's, or of a key that was retired")

// Load returns the token of key, or [ErrNoToken]. If the record is not what was saved for this key,
// Load returns an error and leaves the record in place.
func (v *Tokens) Load(key Key) (*Token, error) {
	var data []byte
	if err := v.file.View(func(tx *Tx) error {
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

func (v *Tokens) read(id, data []byte) (*Token, error) {
	var r tokenRecord
	var t Token
	if json.Unmarshal(data, &r) != nil {
		return nil, errUnsealed
	}
	text, err := v.keys.Unseal(r.Sealed, tokenContext(id, r.Scopes))
	if err != nil || json.Unmarshal(text, &t) != nil {
		return nil, errUnsealed
	}
	t.Scopes = r.Scopes
	return &t, nil
}

// Save replaces the token of key. It is durable when Save returns.
func (v *Tokens) Save(key Key, token *Token) error {
	data, err := v.record(key.id(), token)
	if err != nil {
		return err
	}
	return v.file.Update(func(tx *Tx) error { return tx.Put(tokenBucket, key.id(), data) })
}

func (v *Tokens) record(id []byte, token *Token) ([]byte, error) {
	r := tokenRecord{Scopes: token.Scopes}
	text, err := json.Marshal(token)
	if err != nil {
		return nil, errors.New("the token cannot be encoded: its expiry is out of range")
	}
	if r.Sealed, err = v.keys.Seal(text, tokenContext(id, r.Scopes)); err != nil {
		return nil, fmt.Errorf("the token cannot be encrypted: %w", err)
	}
	return json.Marshal(r)
}

// Delete removes the token of key, if there is one.
func (v *Tokens) Delete(key Key) error {
	return v.file.Update(func(tx *Tx) error { return tx.Delete(tokenBucket, key.id()) })
}

// Reseal encrypts everything that is encrypted with an older key with the primary key, after
// [Keyset.Rotate] and before [Keyset.Retire], and returns the number of those tokens. They can be
// used meanwhile. Reseal leaves records that it cannot decrypt as they are, and returns an error.
func (v *Tokens) Reseal() (n int, err error) {
	old := make(map[string][]byte)
	if err := v.file.View(func(tx *Tx) error {
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

// reseal encrypts one record anew, unless the record has changed meanwhile.
func (v *Tokens) reseal(id, data []byte) (done bool, err error) {
	t, err := v.read(id, data)
	if err != nil {
		return false, err
	}
	fresh, err := v.record(id, t)
	if err != nil {
		return false, err
	}
	err = v.file.Update(func(tx *Tx) error {
		if done = string(tx.Get(tokenBucket, id)) == string(data); !done {
			return nil
		}
		return tx.Put(tokenBucket, id, fresh)
	})
	return done, err
}
