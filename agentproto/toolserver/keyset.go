package toolserver

import (
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A Keyset holds the keys that tokens are encrypted with: one that encrypts, the
// primary, and older ones that decrypt only. Its file has the JSON format of Tink,
// so Tink's own tools work on it, too. Its methods may be called from any number of
// goroutines; the file belongs to one process at a time.
type Keyset struct{ keys *vault.Keyset }

// LoadKeyset reads the keys of a file. If there is no such file it is made, with
// one new key and for its owner only; one that others can read is refused. Whoever
// has this file and the vault has the tokens, so the two should not be in the same
// backup. [LoadSealedKeyset] is for keys that a key service keeps.
func LoadKeyset(path string) (*Keyset, error) { return loadKeyset(path, nil) }

// LoadSealedKeyset is [LoadKeyset] for a file that is itself encrypted, with
// master: for example the AEAD of a cloud's key service, of which there is one for
// each in Tink's extensions. It is asked when the file is read and when it is
// written, and not for each token.
func LoadSealedKeyset(path string, master tink.AEAD) (*Keyset, error) {
	if master == nil {
		return nil, errors.New("toolserver: LoadSealedKeyset: there is no master key")
	}
	return loadKeyset(path, master)
}

func loadKeyset(path string, master tink.AEAD) (*Keyset, error) {
	keys, err := vault.LoadKeyset(path, master)
	if err != nil {
		return nil, err
	}
	return &Keyset{keys}, nil
}

// Rotate makes a new key, which is written to the file before it is used. What was
// encrypted with the older ones can still be read, and is encrypted anew when it is
// written the next time, when a vault is opened, or by [FileVault.Reseal].
func (k *Keyset) Rotate() error { return k.keys.Rotate() }

// Retire destroys all keys but the primary. What was encrypted with one of them and
// not since is lost, so [FileVault.Reseal] comes first.
func (k *Keyset) Retire() error { return k.keys.Retire() }

// Format writes where the keys are, and nothing of them.
func (k *Keyset) Format(f fmt.State, verb rune) { k.keys.Format(f, verb) }
