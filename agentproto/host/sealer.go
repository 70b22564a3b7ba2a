package host

import (
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// MaxID is the maximum length in bytes of the identifier of a thread or a tool call. Both are part of the callback URL, sealed.
const MaxID = agentproto.MaxID

// A Sealer makes callback URLs unforgeable. It seals what a URL permits, and opens only what it sealed.
//
// Both results of Seal become path segments, so kid, the name of the key, has to consist of letters, digits, - and _.
type Sealer interface {
	// Seal encrypts and authenticates a text, and authenticates context with it. Sealing a text twice must give different
	// results.
	Seal(text, context []byte) (kid string, sealed []byte, err error)
	// Open returns the text. It fails if anything was altered, and takes the same time whatever was altered.
	Open(kid string, sealed, context []byte) ([]byte, error)
}

// NewSealer returns a [Sealer] with a random AES-256-GCM key that is lost with it. Callback URLs then do not outlive the runtime.
func NewSealer() (Sealer, error) {
	return capability.NewSealer()
}

// SealerOf returns a [Sealer] with an AES-256-GCM key that the caller keeps. Callback URLs outlive the runtime for as long as the
// key is used. Anyone who has the key can make callback URLs, so store it like a password.
func SealerOf(secret [32]byte) (Sealer, error) {
	return capability.SealerOf(secret)
}
