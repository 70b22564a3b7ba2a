package toolserver

import (
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// A Keyset holds the keys that encrypt tokens: the primary key, which encrypts and decrypts, and
// older ones, which only decrypt. Its file has the JSON format of Tink, so Tink's own tools work on
// it, too. The methods of a Keyset are safe for concurrent use; only one process at a time may use
// the file.
type Keyset struct{ keys *vault.Keyset }

// LoadKeyset reads the keys of a file. If the file does not exist, LoadKeyset creates it with one
// new key, readable by its owner only; it refuses a file that others can read. Anyone with both
// this file and the vault has the tokens, so do not put the two into the same backup. For keys that
// a key service protects, see [LoadSealedKeyset].
func LoadKeyset(path string) (*Keyset, error) { return loadKeyset(path, nil) }

// LoadSealedKeyset is like [LoadKeyset] for a file that is itself encrypted with master, for
// example the AEAD of a cloud's key service; Tink's extensions have one for each service. Master is
// used when the file is read or written, not for each token.
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

// Rotate makes a new primary key and writes it to the file before using it. Data encrypted with
// older keys can still be read. It is encrypted anew when it is next written, when a vault is
// opened, or by [FileVault.Reseal].
func (k *Keyset) Rotate() error { return k.keys.Rotate() }

// Retire destroys all keys except the primary. Data that is still encrypted with one of them is
// lost, so call [FileVault.Reseal] first.
func (k *Keyset) Retire() error { return k.keys.Retire() }

// Format writes where the keys are, and nothing about the keys themselves.
func (k *Keyset) Format(f fmt.State, verb rune) { k.keys.Format(f, verb) }
