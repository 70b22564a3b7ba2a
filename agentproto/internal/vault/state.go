package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// keysFile is the name, in the folder of a state, of the file with the keys of a server that was
// given none.
const keysFile = "keys.json"

// keysBucket contains a record if the keys of the state are in keysFile.
const keysBucket = "keys"

// A State contains the secrets that a server stores.
type State struct {
	Tokens  *Tokens // nil in memory, and for a server whose tokens are stored elsewhere
	Transit *Entries
	Asking  []byte // key from which the addresses for answers and the secrets of authorizations are derived

	file *File // nil in memory
}

// NewState returns a state in memory, without tokens.
func NewState() (*State, error) {
	keys, err := NewKeyset()
	if err != nil {
		return nil, err
	}
	s := &State{Asking: make([]byte, 32), Transit: NewEntries(nil, keys)}
	rand.Read(s.Asking)
	return s, nil
}

// OpenState opens the state in a folder. If keys is nil, it uses the keys in the folder. If
// elsewhere is set, the state has no tokens.
func OpenState(folder string, keys *Keyset, elsewhere bool, log *slog.Logger) (*State, error) {
	file, err := Open(folder)
	if err != nil {
		return nil, err
	}
	s := &State{file: file}
	if err := s.open(folder, keys, elsewhere, log); err != nil {
		file.Close()
		return nil, err
	}
	return s, nil
}

func (s *State) open(folder string, keys *Keyset, elsewhere bool, log *slog.Logger) (err error) {
	if err := s.refuseEarlier(folder, log); err != nil {
		return err
	}
	if keys == nil {
		if keys, err = s.ownKeys(filepath.Join(folder, keysFile)); err != nil {
			return err
		}
	}
	if !elsewhere {
		if s.Tokens, err = NewTokens(s.file, keys); err != nil {
			return fmt.Errorf("toolserver: the state in %q: %w", folder, err)
		}
	}
	s.Transit = NewEntries(s.file, keys)
	if err = s.askingKey(keys, log); err != nil {
		return fmt.Errorf("toolserver: the state in %q: %w", folder, err)
	}
	return nil
}

// Close releases the folder.
func (s *State) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// ownKeys returns the keys in the state folder. They are made only once, since new keys could not
// decrypt existing data.
func (s *State) ownKeys(path string) (keys *Keyset, err error) {
	noted, made := false, false
	if err := s.file.View(func(tx *Tx) error {
		noted = tx.Get(keysBucket, []byte(keysFile)) != nil
		made = noted || tx.Get(vaultBucket, checkKey) != nil
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); made && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("toolserver: the keys %q are gone, and the state beside it was encrypted with keys: put them back, or set Options.Keys if it was with those, or remove the whole folder and have the users asked again", path)
	}
	if keys, err = LoadKeyset(path, nil); err != nil || noted {
		return keys, err
	}
	return keys, s.file.Update(func(tx *Tx) error { return tx.Put(keysBucket, []byte(keysFile), nil) })
}

// earlier are the buckets in which versions before the flow stored calls.
var earlier = []string{"calls", "outbox", "subscriptions", "questions", "finished", "finished_at", "results", "results_at", "grants", "moves", "transfers", "staged"}

// stateBucket is the bucket in which those versions stored pending authorizations.
const stateBucket = "authorizations"

// refuseEarlier returns an error if a version before the flow has left unfinished calls in the
// state. It removes that version's memory of finished calls, and its authorizations, whose calls
// ask anew.
func (s *State) refuseEarlier(folder string, log *slog.Logger) error {
	var open, any bool
	authorizations := 0
	if err := s.file.View(func(tx *Tx) error {
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
		return fmt.Errorf("toolserver: the state in %q has calls of an earlier version: run that version, without new calls, until all are finished, and then this one", folder)
	case !any && authorizations == 0:
		return nil
	case authorizations > 0:
		log.Warn("authorizations of an earlier version are lost; their users will be asked again", "number", authorizations)
	}
	return s.file.Update(func(tx *Tx) error {
		for _, bucket := range append([]string{stateBucket}, earlier...) {
			if err := tx.clear(bucket); err != nil {
				return err
			}
		}
		return nil
	})
}

// askingBucket contains, encrypted, the key from which the addresses for answers and the secrets of
// authorizations are derived. With it, a function that runs again after a restart finds what it has
// asked.
const askingBucket = "asking"

// askingKey reads or makes that key. If the key cannot be decrypted, a new one is made, and users
// are asked again.
func (s *State) askingKey(keys *Keyset, log *slog.Logger) error {
	at, bound := []byte("key"), []byte(`["asking"]`)
	return s.file.Update(func(tx *Tx) (err error) {
		sealed := tx.Get(askingBucket, at)
		if s.Asking, err = keys.Unseal(sealed, bound); err == nil {
			return nil
		}
		if sealed != nil {
			log.Warn("authorizations cannot be decrypted; their users will be asked again")
		}
		s.Asking = make([]byte, 32)
		rand.Read(s.Asking)
		if sealed, err = keys.Seal(s.Asking, bound); err != nil {
			return err
		}
		return tx.Put(askingBucket, at, sealed)
	})
}
