package toolserver

import (
	"context"
	"sync"
	"time"
)

// A TokenKey says whose token it is, and for what.
type TokenKey struct {
	// Runtime is the runtime that spoke for the user: what [Options.Authenticate]
	// returned, or else the origin of the callback_url. Two runtimes that use the
	// same user ids do not get at each other's tokens.
	Runtime string
	// User is "user:" and the user_id of the invocation. An invocation without one
	// stands for its conversation: "thread:" and the id of the root thread.
	User string
	// Provider is the [OAuthProvider.ID].
	Provider string
}

// A UserToken is what a provider gave for a user.
type UserToken struct {
	Access  Secret
	Refresh Secret    // empty if the provider gave none
	Expiry  time.Time // of Access; zero if the provider did not say
	Scopes  []string  // what it is good for, sorted
}

// expiryMargin is how long before its expiry an access token is renewed.
const expiryMargin = 10 * time.Second

// valid reports whether the access token can be used now. One that can be renewed
// is not used to the very end.
func (t *UserToken) valid() bool {
	margin := expiryMargin
	if t.Refresh.Empty() {
		margin = 0
	}
	return !t.Access.Empty() && (t.Expiry.IsZero() || time.Until(t.Expiry) > margin)
}

// usable reports whether the access token can be used now and is not the one that
// was refused.
func (t *UserToken) usable(refused Secret) bool {
	return t.valid() && (refused.Empty() || !t.Access.equal(refused))
}

// A Vault keeps tokens; a [FileVault] does so durably. Its methods are called from any number of goroutines. A
// vault that writes to a disk has to encrypt what it writes; [Secret] marshals as
// "[redacted]" so that this is not forgotten.
type Vault interface {
	// Load returns the token of key, or [ErrNoToken].
	Load(ctx context.Context, key TokenKey) (*UserToken, error)
	// Save replaces the token of key. A token is used only after Save returned.
	Save(ctx context.Context, key TokenKey, token *UserToken) error
	// Delete removes the token of key, if there is one.
	Delete(ctx context.Context, key TokenKey) error
}

// NewMemoryVault returns a vault that forgets everything when the process ends.
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
