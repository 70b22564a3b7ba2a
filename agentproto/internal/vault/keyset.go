package vault

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/millrace/millrace/internal/fsync"
)

// A Keyset holds the keys that encrypt tokens: the primary key, which encrypts and decrypts, and
// older ones, which only decrypt. Its file has the JSON format of Tink, so Tink's own tools work on
// it, too. The methods of a Keyset are safe for concurrent use; only one process at a time may use
// the file.
type Keyset struct {
	path   string
	master tink.AEAD // nil if the file is not encrypted

	mu     sync.RWMutex
	handle *keyset.Handle
	aead   tink.AEAD
}

// LoadKeyset reads the keys of a file, which is encrypted with master unless master is nil. If the
// file does not exist, LoadKeyset creates it with one new key. It refuses a file that is not
// encrypted and that others than its owner can read. Master is used when the file is read or
// written.
func LoadKeyset(path string, master tink.AEAD) (*Keyset, error) {
	k := &Keyset{path: path, master: master}
	err := k.read()
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	fresh, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("toolserver: no key can be made: %w", err)
	}
	if err := k.write(fresh, os.Link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return k, k.read() // if another process has made the file at the same time, its keys count
}

// NewKeyset returns keys that exist only in memory.
func NewKeyset() (*Keyset, error) {
	h, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("toolserver: no key can be made: %w", err)
	}
	k := new(Keyset)
	return k, k.use(h)
}

// Rotate makes a new primary key and writes it to the file before using it. Data encrypted with
// older keys can still be read. It is encrypted anew when it is next written, when a vault is
// opened, or by [Tokens.Reseal].
func (k *Keyset) Rotate() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := keyset.NewManagerFromHandle(k.handle)
	id, err := m.Add(aead.AES256GCMKeyTemplate())
	if err == nil {
		err = m.SetPrimary(id)
	}
	return k.change(m, err)
}

// Retire destroys all keys except the primary. Data that is still encrypted with one of them is
// lost, so call [Tokens.Reseal] first.
func (k *Keyset) Retire() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := keyset.NewManagerFromHandle(k.handle)
	info := k.handle.KeysetInfo()
	for _, key := range info.GetKeyInfo() {
		if key.GetKeyId() == info.GetPrimaryKeyId() {
			continue
		}
		if err := m.Delete(key.GetKeyId()); err != nil {
			return k.change(m, err)
		}
	}
	return k.change(m, nil)
}

// change replaces the keys with those of m. The caller holds mu.
func (k *Keyset) change(m *keyset.Manager, err error) error {
	var h *keyset.Handle
	if err == nil {
		h, err = m.Handle()
	}
	if err != nil {
		return fmt.Errorf("toolserver: the keys in %q cannot be changed: %w", k.path, err)
	}
	if k.path != "" {
		if err := k.write(h, os.Rename); err != nil {
			return err
		}
	}
	return k.use(h)
}

// use sets the keys to h. The caller holds mu, or k is new.
func (k *Keyset) use(h *keyset.Handle) (err error) {
	if k.aead, err = aead.New(h); err != nil {
		return fmt.Errorf("toolserver: the keys in %q are not for AEAD: %w", k.path, err)
	}
	k.handle = h
	return nil
}

func (k *Keyset) read() error {
	f, err := os.Open(k.path)
	if err != nil {
		return fmt.Errorf("toolserver: the keys cannot be read: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return fmt.Errorf("toolserver: the keys cannot be read: %w", err)
	} else if k.master == nil && goruntime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("toolserver: the keys in %q can be read by others than their owner (mode %#o): replace them if somebody may have, and set the mode to 0600", k.path, info.Mode().Perm())
	}
	// Errors of the parser may quote what they read.
	text, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("toolserver: the keys cannot be read: %w", err)
	}
	in := keyset.NewJSONReader(bytes.NewReader(text))
	var h *keyset.Handle
	if k.master != nil {
		h, err = keyset.Read(in, k.master)
	} else {
		h, err = insecurecleartextkeyset.Read(in)
	}
	if err != nil {
		return fmt.Errorf("toolserver: the file %q holds no keys that can be used; it is made by LoadKeyset, or read with the master key it was made with", k.path)
	}
	return k.use(h)
}

// write writes keys to a temporary file, which then replaces the file at path or, if put is
// [os.Link], becomes it only if there is none.
func (k *Keyset) write(h *keyset.Handle, put func(from, to string) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("toolserver: the keys cannot be written: %w", err)
		}
	}()
	var text bytes.Buffer
	out := keyset.NewJSONWriter(&text)
	if k.master != nil {
		err = h.Write(out, k.master)
	} else {
		err = insecurecleartextkeyset.Write(h, out)
	}
	if err != nil {
		return err
	}
	folder := filepath.Dir(k.path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ".keys-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := put(f.Name(), k.path); err != nil {
		return err
	}
	return fsync.Folder(folder)
}

// Seal encrypts text so that it can be decrypted only with the same context.
func (k *Keyset) Seal(text, context []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.aead.Encrypt(text, context)
}

// Unseal decrypts the result of Seal for the same context.
func (k *Keyset) Unseal(sealed, context []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.aead.Decrypt(sealed, context)
}

// current reports whether data is sealed with the primary key: Tink writes the key's id after the
// first byte.
func (k *Keyset) current(sealed []byte) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(sealed) > 5 && binary.BigEndian.Uint32(sealed[1:5]) == k.handle.KeysetInfo().GetPrimaryKeyId()
}

// Format writes where the keys are, and nothing about the keys themselves.
func (k *Keyset) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "Keyset(%q)", k.path) }
