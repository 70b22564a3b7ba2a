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
)

// A Keyset holds the keys that tokens are encrypted with: one that encrypts, the
// primary, and older ones that decrypt only. Its file has the JSON format of Tink,
// so Tink's own tools work on it, too. Its methods may be called from any number of
// goroutines; the file belongs to one process at a time.
type Keyset struct {
	path   string
	master tink.AEAD // nil if the file is not encrypted

	mu     sync.RWMutex
	handle *keyset.Handle
	aead   tink.AEAD
}

// LoadKeyset reads the keys of a file, which is encrypted with master unless that is nil. If there
// is no such file it is made, with one new key. One that is not encrypted and that others than its
// owner can read is refused. Master is asked when the file is read and when it is written.
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
	return k, k.read() // what another process has made at the same time counts
}

// NewKeyset returns keys that end with the process.
func NewKeyset() (*Keyset, error) {
	h, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("toolserver: no key can be made: %w", err)
	}
	k := new(Keyset)
	return k, k.use(h)
}

// Rotate makes a new key, which is written to the file before it is used. What was
// encrypted with the older ones can still be read, and is encrypted anew when it is
// written the next time, when a vault is opened, or by [Tokens.Reseal].
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

// Retire destroys all keys but the primary. What was encrypted with one of them and
// not since is lost, so [Tokens.Reseal] comes first.
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

// change replaces the keys by what m has. The caller holds mu.
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

// use makes h the keys. The caller holds mu, or k is new.
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

// write puts keys into a file of their own, which then takes the place of the one
// there, or, if put is [os.Link], does so only if there is none.
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
	return SyncFolder(folder)
}

// Seal encrypts text in such a way that it can be opened in the same context only.
func (k *Keyset) Seal(text, context []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.aead.Encrypt(text, context)
}

// Unseal decrypts what Seal has returned for the same context.
func (k *Keyset) Unseal(sealed, context []byte) ([]byte, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.aead.Decrypt(sealed, context)
}

// current reports whether something is sealed with the primary key: Tink puts the
// id of the key behind a first byte.
func (k *Keyset) current(sealed []byte) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(sealed) > 5 && binary.BigEndian.Uint32(sealed[1:5]) == k.handle.KeysetInfo().GetPrimaryKeyId()
}

// Format writes where the keys are, and nothing of them.
func (k *Keyset) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "Keyset(%q)", k.path) }
