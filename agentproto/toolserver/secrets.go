package toolserver

import (
	"crypto/rand"
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

// earlier are the buckets in which versions before the flow kept calls.
var earlier = []string{"calls", "outbox", "subscriptions", "questions", "finished", "finished_at", "results", "results_at", "grants", "moves", "transfers", "staged"}

// refuseEarlier returns an error if a version before the flow has left calls in the state. What it
// remembers of others is removed.
func (s *Server) refuseEarlier() error {
	var open, any bool
	if err := s.store.view(func(tx tx) error {
		open, any = false, false
		for i, bucket := range earlier {
			tx.each(bucket, nil, func(_, _ []byte) bool {
				any = true
				open = open || i < 2 || bucket == "staged"
				return false
			})
		}
		return nil
	}); err != nil || !any {
		return err
	}
	if open {
		return fmt.Errorf("toolserver: the state in %q has calls of an earlier version: run that version, without new calls, until all are finished, and then this one", s.opts.State)
	}
	return s.store.update(func(tx tx) error {
		for _, bucket := range earlier {
			if err := deleteAll(tx, bucket); err != nil {
				return err
			}
		}
		return nil
	})
}

func deleteAll(tx tx, bucket string) error {
	var keys [][]byte
	tx.each(bucket, nil, func(k, _ []byte) bool {
		keys = append(keys, append([]byte(nil), k...))
		return true
	})
	for _, k := range keys {
		if err := tx.delete(bucket, k); err != nil {
			return err
		}
	}
	return nil
}

// openSecrets opens the vault and reads the authorizations that wait for users.
func (s *Server) openSecrets() (err error) {
	if err := s.refuseEarlier(); err != nil {
		return err
	}
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
	if s.asking, err = s.askingKey(keys); err != nil {
		return fmt.Errorf("toolserver: the state in %q: %w", s.opts.State, err)
	}
	lost, err := s.states.load(s.providers, time.Now())
	if err != nil {
		return fmt.Errorf("toolserver: the authorizations in %q cannot be read: %w", s.opts.State, err)
	}
	if lost > 0 {
		s.log.Warn("authorizations cannot be decrypted; their users will be asked again", "number", lost)
	}
	return nil
}

// askingBucket has the key that makes the addresses for answers, encrypted: a function that runs
// again after a restart finds out with it which questions it has asked.
const askingBucket = "asking"

// askingKey returns that key. One that cannot be decrypted is made anew, and users are asked
// again.
func (s *Server) askingKey(keys *Keyset) (key []byte, err error) {
	at, bound := []byte("key"), []byte(`["asking"]`)
	err = s.store.update(func(tx tx) (err error) {
		if key, err = keys.open(tx.get(askingBucket, at), bound); err == nil {
			return nil
		}
		key = make([]byte, 32)
		rand.Read(key)
		sealed, err := keys.seal(key, bound)
		if err != nil {
			return err
		}
		return tx.put(askingBucket, at, sealed)
	})
	return key, err
}
