package toolserver

import (
	"testing"

	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// Finds reports whether a text contains one of the secrets in any encoding that the guard
// recognizes.
func Finds(text []byte, secrets ...string) bool {
	var g leak.Guard
	for _, s := range secrets {
		g.Add(s)
	}
	return g.Finds(text)
}

// Undelivered returns the number of calls with undelivered messages.
func Undelivered(s *Server) int {
	return int(s.flow.Load().Busy)
}

// Guarded returns the number of windows of secrets that the server searches for.
func Guarded(s *Server) int { return s.guard.Windows() }

// KeptResults returns the number of bytes of results that the server keeps.
func KeptResults(s *Server) int64 {
	return s.flow.Load().Results
}

// OpenAuthorizations returns the number of open authorizations.
func OpenAuthorizations(s *Server) int {
	n, _ := s.flow.Ports.Opens.Latest()
	return n
}

// Transit returns the number of codes in the vault of a state that no server uses.
func Transit(t *testing.T, state string) int {
	t.Helper()
	file, err := vault.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	if _, err := vault.NewEntries(file, nil).Sweep(func(string) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}
