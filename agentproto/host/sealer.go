package host

import (
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
)

// MaxID is the longest thread or tool call identifier, in bytes, that a
// [Runtime] works with. Both travel in the callback URL, sealed.
const MaxID = agentproto.MaxID

// A Sealer makes callback URLs unforgeable. It seals what a URL permits and opens
// what it sealed, and nothing else.
//
// Both halves of what Seal returns become path segments, so kid, the name of the
// key, has to consist of letters, digits, - and _.
type Sealer interface {
	// Seal encrypts and authenticates a text, and authenticates context with it.
	// Sealing a text twice has to give different results.
	Seal(text, context []byte) (kid string, sealed []byte, err error)
	// Open returns the text. It fails if anything was altered, and takes the same
	// time whatever it was.
	Open(kid string, sealed, context []byte) ([]byte, error)
}

// NewSealer returns a [Sealer] with one random key, AES-256-GCM, that is forgotten
// with it. Callback URLs do not outlive the runtime then.
func NewSealer() (Sealer, error) {
	return capability.NewSealer()
}

// SealerOf returns a [Sealer] with a key that the caller keeps: AES-256-GCM. Callback URLs
// outlive the runtime for as long as the key is used. Who has the key can make callback
// URLs, so it is kept like a password.
func SealerOf(secret [32]byte) (Sealer, error) {
	return capability.SealerOf(secret)
}
