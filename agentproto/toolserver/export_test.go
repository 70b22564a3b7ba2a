package toolserver

import (
	"testing"

	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/vault"
)

// Finds reports whether a text contains one of the secrets, in any encoding that is
// looked for.
func Finds(text []byte, secrets ...string) bool {
	var g leak.Guard
	for _, s := range secrets {
		g.Add(s)
	}
	return g.Finds(text)
}

// Undelivered returns how many calls have messages that are not delivered.
func Undelivered(s *Server) int {
	return int(s.flow.Load().Busy)
}

// Guarded returns how many windows of secrets the server looks for.
func Guarded(s *Server) int { return s.guard.Windows() }

// KeptResults returns how many bytes of results the server keeps.
func KeptResults(s *Server) int64 {
	return s.flow.Load().Results
}

// OpenAuthorizations returns how many authorizations are open.
func OpenAuthorizations(s *Server) int {
	n, _ := s.flow.Ports.Opens.Latest()
	return n
}

// Transit returns how many codes are in the vault of a state that no server uses.
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
