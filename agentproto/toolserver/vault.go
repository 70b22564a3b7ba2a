package toolserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A TokenKey names the owner of a token and its provider.
type TokenKey struct {
	// Runtime is the runtime that spoke for the user: the result of [Options.Authenticate], or else the origin
	// of the callback_url. Two runtimes that use the same user ids cannot use each other's tokens.
	Runtime string
	// User is "user:" and the user_id of the invocation. For an invocation without one it is "thread:" and the
	// id of the root thread, which stands for the conversation.
	User string
	// Provider is the [OAuthProvider.ID].
	Provider string
}

// A UserToken is a token that a provider issued for a user.
type UserToken struct {
	Access  Secret
	Refresh Secret    // empty if the provider gave none
	Expiry  time.Time // of Access; zero if the provider did not say
	// ClientID is the client that the token was issued to, which alone can renew it. If it is empty, the token counts as
	// one of the provider's current client.
	ClientID string
	Scopes   []string // granted scopes, sorted
}

// A Vault stores tokens; a [FileVault] stores them durably. Its methods must be safe for concurrent use. A
// vault that writes to a disk must encrypt what it writes; [Secret] marshals as "[redacted]" so that this is
// not forgotten.
type Vault interface {
	// Load returns the token of key, or [ErrNoToken].
	Load(ctx context.Context, key TokenKey) (*UserToken, error)
	// Save replaces the token of key. A token is used only after Save returned.
	Save(ctx context.Context, key TokenKey, token *UserToken) error
	// Delete removes the token of key, if there is one.
	Delete(ctx context.Context, key TokenKey) error
}

// NewMemoryVault returns a vault whose tokens are lost when the process ends.
func NewMemoryVault() Vault { return &memoryVault{tokens: make(map[TokenKey]UserToken)} }

type memoryVault struct {
	mu     sync.Mutex
	tokens map[TokenKey]UserToken
}

func (v *memoryVault) Load(_ context.Context, key TokenKey) (*UserToken, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	t, ok := v.tokens[key]
	if !ok {
		return nil, ErrNoToken
	}
	return &t, nil
}

func (v *memoryVault) Save(_ context.Context, key TokenKey, token *UserToken) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens[key] = *token
	return nil
}

func (v *memoryVault) Delete(_ context.Context, key TokenKey) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.tokens, key)
	return nil
}

// A FileVault is a [Vault] in a file, in which every token is encrypted (threat 24). A token can be read only
// with the keys, and only under the runtime, user, provider and scopes that it was saved with: they are part
// of the encryption. So a record that somebody has moved to another user, or whose scopes were changed, cannot
// be decrypted.
type FileVault struct {
	tokens *vault.Tokens
	file   *vault.File // nil if a server closes it
}

// NewVault opens the vault in a folder. The folder is created if it does not exist, and only one process at a
// time may use it. A token is on disk when Save returns; if the process is killed before, the vault contains
// either the whole new token or the whole old one. Tokens that are encrypted with an older key are encrypted
// anew.
//
// It returns an error if the tokens in it were encrypted with other keys.
//
// A server with [Options.State] already has such a vault. A separate one is for servers without State, and for
// an operator who wants tokens on another disk, or in another backup, than calls.
func NewVault(folder string, keys *Keyset) (*FileVault, error) {
	if keys == nil {
		return nil, errors.New("toolserver: NewVault: there are no keys; see LoadKeyset")
	}
	file, err := vault.Open(folder)
	if err != nil {
		return nil, err
	}
	tokens, err := vault.NewTokens(file, keys.keys)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("toolserver: the vault in %q: %w", folder, err)
	}
	return &FileVault{tokens, file}, nil
}

// Load returns the token of key, or [ErrNoToken]. If the record is not what was saved for this key, Load
// returns an error and leaves the record in place.
func (v *FileVault) Load(_ context.Context, key TokenKey) (*UserToken, error) {
	t, err := v.tokens.Load(vault.Key(key))
	if err != nil {
		return nil, err
	}
	return userToken(t), nil
}

// Save replaces the token of key. It is durable when Save returns.
func (v *FileVault) Save(_ context.Context, key TokenKey, token *UserToken) error {
	return v.tokens.Save(vault.Key(key), token.revealed())
}

// Delete removes the token of key, if there is one.
func (v *FileVault) Delete(_ context.Context, key TokenKey) error {
	return v.tokens.Delete(vault.Key(key))
}

// Reseal encrypts everything that is encrypted with an older key with the primary key, after [Keyset.Rotate]
// and before [Keyset.Retire], and returns the number of those tokens. The vault can be used meanwhile. Reseal
// leaves records that it cannot decrypt as they are, and returns an error.
func (v *FileVault) Reseal() (n int, err error) { return v.tokens.Reseal() }

// Close releases the folder. It does nothing for the vault of a server.
func (v *FileVault) Close() error {
	if v.file == nil {
		return nil
	}
	return v.file.Close()
}

func (t *UserToken) revealed() *vault.Token {
	return &vault.Token{Access: t.Access.Reveal(), Refresh: t.Refresh.Reveal(), Expiry: t.Expiry, Client: t.ClientID, Scopes: t.Scopes}
}

func userToken(t *vault.Token) *UserToken {
	return &UserToken{Access: NewSecret(t.Access), Refresh: NewSecret(t.Refresh), Expiry: t.Expiry, ClientID: t.Client, Scopes: t.Scopes}
}

// A tokenVault adapts a [Vault] to package oauth.
type tokenVault struct{ Vault }

func (v tokenVault) Load(ctx context.Context, key vault.Key) (*vault.Token, error) {
	t, err := v.Vault.Load(ctx, TokenKey(key))
	if err != nil {
		return nil, err
	}
	return t.revealed(), nil
}

func (v tokenVault) Save(ctx context.Context, key vault.Key, t *vault.Token) error {
	return v.Vault.Save(ctx, TokenKey(key), userToken(t))
}

func (v tokenVault) Delete(ctx context.Context, key vault.Key) error {
	return v.Vault.Delete(ctx, TokenKey(key))
}
