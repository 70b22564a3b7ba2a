package toolserver

import (
	"fmt"
	"path/filepath"
	"time"
)

// keysFile is the file in the folder of [Options.State] with the keys of a server
// that was given none.
const keysFile = "keys.json"

// openSecrets opens the vault and reads the authorizations that wait for users.
func (s *Server) openSecrets() (err error) {
	keys := s.opts.Keys
	switch {
	case keys != nil:
	case s.opts.State != "":
		keys, err = LoadKeyset(filepath.Join(s.opts.State, keysFile))
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
