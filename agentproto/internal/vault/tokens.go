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

// The buckets of the file that tokens use.
const (
	tokenBucket = "tokens"
	vaultBucket = "vault"
)

// A Key says whose token it is, and for which provider.
type Key struct{ Runtime, User, Provider string }

// A Token is what a provider gave for a user. Scopes are what it is good for, sorted.
type Token struct {
	Access, Refresh string
	Expiry          time.Time
	Scopes          []string `json:"-"`
}

// expiryMargin is how long before its expiry an access token is renewed.
const expiryMargin = 10 * time.Second

// Usable reports whether the access token can be used now, and is not one that was refused. One
// that can be renewed is not used to the very end.
func (t *Token) Usable(refused string) bool {
	margin := expiryMargin
	if t.Refresh == "" {
		margin = 0
	}
	return t.Access != "" && t.Access != refused && (t.Expiry.IsZero() || time.Until(t.Expiry) > margin)
}

// Format writes nothing of the token, whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, "Token") }

// ErrNoToken says that there is no token of a key.
var ErrNoToken = errors.New("toolserver: no token")

// Tokens are the tokens in a file, each encrypted (threat 24). A token can be read only with the
// keys, and only as what it was saved as: its runtime, user, provider and scopes go into the
// encryption, so that a record which somebody has moved to another user cannot be opened, nor one
// whose scopes were changed.
type Tokens struct {
	file *File
	keys *Keyset
}

// NewTokens returns the tokens in a file that may have other things in it. It returns an error if
// they were encrypted with other keys, and encrypts anew what is encrypted with an older one.
func NewTokens(file *File, keys *Keyset) (*Tokens, error) {
	v := &Tokens{file: file, keys: keys}
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

// A tokenRecord is what is kept of a token. Whose it is can be found out only by
// who knows it already.
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

// tokenContext returns what a token is bound to when it is encrypted.
func tokenContext(id []byte, scopes []string) []byte {
	list, _ := json.Marshal(append([]string{"token", hex.EncodeToString(id)}, scopes...))
	return list
}

// errUnsealed tells an operator what Load cannot.
var errUnsealed = errors.New("the record cannot be decrypted: it is damaged, another user's, or of a key that was retired")

// Load returns the token of key, or [ErrNoToken]. A record that is not what was
// saved for this key is an error, and stays where it is.
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

// Reseal encrypts with the primary key what is encrypted with an older one, after
// [Keyset.Rotate] and before [Keyset.Retire], and returns how many tokens that
// were. They can be used meanwhile. What cannot be decrypted stays as it is,
// and is an error.
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

// reseal encrypts one record anew, unless it has changed meanwhile.
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
