package toolserver

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/tools"
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

// ReadPayload reads what an instance has sent of a session.
func ReadPayload(data []byte, runtime, id string) error {
	_, err := readPayload(data, tools.Place{Runtime: runtime, Session: id})
	return err
}

// Payload makes what an instance sends of a session that is written like that.
func Payload(session string, tool []byte) []byte {
	data, err := json.Marshal(payload{Session: []byte(session), Tool: tool, HasTool: tool != nil})
	if err != nil {
		panic(err)
	}
	return data
}

// Transfer makes what an instance with this key would send.
func Transfer(key, purpose, step, transfer, toolset, endpoint, id string, payload []byte) []byte {
	e, err := envelope.New([]byte(key), purpose)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(header{Step: step, Transfer: transfer, Toolset: toolset, Session: id, Endpoint: endpoint})
	if err != nil {
		panic(err)
	}
	sealed := e.Seal(text, "header")
	body := append(binary.BigEndian.AppendUint32(nil, uint32(len(sealed))), sealed...)
	return append(body, e.Seal(payload, "payload", string(text))...)
}

// Step makes another step of a transfer of which a message was captured, as its source would send it.
func Step(key, captured, step string) string {
	e, err := envelope.New([]byte(key), migrationPurpose)
	if err != nil {
		panic(err)
	}
	n := 4 + binary.BigEndian.Uint32([]byte(captured))
	text, err := e.Open([]byte(captured[4:n]), "header")
	if err != nil {
		panic(err)
	}
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		panic(err)
	}
	h.Step = step
	if text, err = json.Marshal(h); err != nil {
		panic(err)
	}
	sealed := e.Seal(text, "header")
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(sealed))), sealed...))
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
