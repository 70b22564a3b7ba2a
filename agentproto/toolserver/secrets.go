package toolserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// keysFile is the file in the folder of [Options.State] with the keys of a server
// that was given none.
const keysFile = "keys.json"

// keysBucket has a record if the keys of the state are in keysFile.
const keysBucket = "keys"

// ownKeys returns the keys in the state folder. They are made once: others could not read what
// is encrypted.
func (s *Server) ownKeys(path string) (keys *Keyset, err error) {
	noted, made := false, false
	if err := s.store.view(func(tx tx) error {
		noted = tx.get(keysBucket, []byte(keysFile)) != nil
		made = noted || tx.get(vaultBucket, checkKey) != nil
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); made && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("toolserver: the keys %q are gone, and the state beside it was encrypted with keys: put them back, or set Options.Keys if it was with those, or remove the whole folder and have the users asked again", path)
	}
	if keys, err = LoadKeyset(path); err != nil || noted {
		return keys, err
	}
	return keys, s.store.update(func(tx tx) error { return tx.put(keysBucket, []byte(keysFile), nil) })
}

// openSecrets opens the vault and reads the authorizations that wait for users.
func (s *Server) openSecrets() (err error) {
	keys := s.opts.Keys
	switch {
	case keys != nil:
	case s.opts.State != "":
		keys, err = s.ownKeys(filepath.Join(s.opts.State, keysFile))
	default:
		keys, err = newKeyset()
	}
	if err != nil {
		return err
	}
	switch {
	case s.opts.Vault != nil:
	case s.opts.State == "":
		s.opts.Vault = NewMemoryVault()
	default:
		if s.opts.Vault, err = newStoreVault(s.store, keys); err != nil {
			return fmt.Errorf("toolserver: the state in %q: %w", s.opts.State, err)
		}
	}
	s.states = states{store: s.store, keys: keys, guard: s.guard, browser: !s.opts.NoStartPage}
	lost, err := s.states.load(s.providers, time.Now())
	if err != nil {
		return fmt.Errorf("toolserver: the authorizations in %q cannot be read: %w", s.opts.State, err)
	}
	if lost > 0 {
		s.log.Warn("authorizations cannot be decrypted; their users will be asked again", "number", lost)
	}
	return nil
}
