package toolserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace/millrace/agentproto/internal/vault"
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
	if err := s.file.View(func(tx *vault.Tx) error {
		noted = tx.Get(keysBucket, []byte(keysFile)) != nil
		made = noted || tx.Get(vaultBucket, checkKey) != nil
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
	return keys, s.file.Update(func(tx *vault.Tx) error { return tx.Put(keysBucket, []byte(keysFile), nil) })
}

// earlier are the buckets in which versions before the flow kept calls.
var earlier = []string{"calls", "outbox", "subscriptions", "questions", "finished", "finished_at", "results", "results_at", "grants", "moves", "transfers", "staged"}

// stateBucket is the bucket in which versions before kept authorizations that wait for users.
const stateBucket = "authorizations"

// refuseEarlier returns an error if a version before the flow has left calls in the state. What it
// remembers of others is removed, and so are authorizations: their calls ask anew.
func (s *Server) refuseEarlier() error {
	var open, any bool
	authorizations := 0
	if err := s.file.View(func(tx *vault.Tx) error {
		open, any, authorizations = false, false, 0
		for i, bucket := range earlier {
			tx.Each(bucket, nil, func(_, _ []byte) bool {
				any = true
				open = open || i < 2 || bucket == "staged"
				return false
			})
		}
		tx.Each(stateBucket, nil, func(_, _ []byte) bool { authorizations++; return true })
		return nil
	}); err != nil {
		return err
	}
	switch {
	case open:
		return fmt.Errorf("toolserver: the state in %q has calls of an earlier version: run that version, without new calls, until all are finished, and then this one", s.opts.State)
	case !any && authorizations == 0:
		return nil
	case authorizations > 0:
		s.log.Warn("authorizations of an earlier version are lost; their users will be asked again", "number", authorizations)
	}
	return s.file.Update(func(tx *vault.Tx) error {
		for _, bucket := range append([]string{stateBucket}, earlier...) {
			if err := deleteAll(tx, bucket); err != nil {
				return err
			}
		}
		return nil
	})
}

func deleteAll(tx *vault.Tx, bucket string) error {
	var keys [][]byte
	tx.Each(bucket, nil, func(k, _ []byte) bool {
		keys = append(keys, append([]byte(nil), k...))
		return true
	})
	for _, k := range keys {
		if err := tx.Delete(bucket, k); err != nil {
			return err
		}
	}
	return nil
}

// openSecrets opens the vault, and what is in transit to it.
func (s *Server) openSecrets() (err error) {
	keys := s.opts.Keys
	if s.file == nil {
		if keys, err = newKeyset(); err != nil {
			return err
		}
		if s.opts.Vault == nil {
			s.opts.Vault = NewMemoryVault()
		}
		s.asking = make([]byte, 32)
		rand.Read(s.asking)
		s.transit = vault.NewEntries(nil, sealing{keys})
		return nil
	}
	if err := s.refuseEarlier(); err != nil {
		return err
	}
	if keys == nil {
		if keys, err = s.ownKeys(filepath.Join(s.opts.State, keysFile)); err != nil {
			return err
		}
	}
	if s.opts.Vault == nil {
		if s.opts.Vault, err = newFileVault(s.file, keys); err != nil {
			return fmt.Errorf("toolserver: the state in %q: %w", s.opts.State, err)
		}
	}
	s.transit = vault.NewEntries(s.file, sealing{keys})
	if s.asking, err = s.askingKey(keys); err != nil {
		return fmt.Errorf("toolserver: the state in %q: %w", s.opts.State, err)
	}
	return nil
}

// closeFile gives the state free.
func (s *Server) closeFile() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// sweepTransit removes codes that no history names: a process ended before it had said so.
func (s *Server) sweepTransit() {
	n, err := s.transit.Sweep(func(name string) bool {
		_, needed := s.ports.Codes.Get(name)
		return needed
	})
	if n > 0 || err != nil {
		s.log.Warn("codes of authorizations that had not arrived were removed", "number", n, "error", err)
	}
}

// askingBucket has the key that makes the addresses for answers and what is secret of
// authorizations, encrypted: a function that runs again after a restart finds out with it what it
// has asked.
const askingBucket = "asking"

// askingKey returns that key. One that cannot be decrypted is made anew, and users are asked
// again.
func (s *Server) askingKey(keys *Keyset) (key []byte, err error) {
	at, bound := []byte("key"), []byte(`["asking"]`)
	err = s.file.Update(func(tx *vault.Tx) (err error) {
		sealed := tx.Get(askingBucket, at)
		if key, err = keys.open(sealed, bound); err == nil {
			return nil
		}
		if sealed != nil {
			s.log.Warn("authorizations cannot be decrypted; their users will be asked again")
		}
		key = make([]byte, 32)
		rand.Read(key)
		if sealed, err = keys.seal(key, bound); err != nil {
			return err
		}
		return tx.Put(askingBucket, at, sealed)
	})
	return key, err
}
