package toolserver

import (
	"encoding/binary"
	"encoding/json"

	"github.com/millrace/millrace/internal/envelope"
)

// Finds reports whether a text contains one of the secrets, in any encoding that is
// looked for.
func Finds(text []byte, secrets ...string) bool {
	var g leakGuard
	for _, s := range secrets {
		g.add(NewSecret(s))
	}
	return g.finds(text)
}

// ReadPayload reads what an instance has sent of a session.
func ReadPayload(data []byte, runtime, id string) error {
	_, err := readPayload(data, session{runtime, id})
	return err
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

// Undelivered returns how many messages the server has not seen delivered.
func Undelivered(s *Server) (n int) {
	s.store.view(func(tx tx) error {
		n = 0
		tx.each(outboxBucket, nil, func(_, _ []byte) bool { n++; return true })
		return nil
	})
	return n
}

// Guarded returns how many windows of secrets the server looks for.
func Guarded(s *Server) (n int) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.live(func(ws []window) { n += len(ws) })
	return n
}

// KeptResults returns how many bytes of results the server thinks it keeps.
func KeptResults(s *Server) int64 { return s.resultBytes.Load() }

// CountKeptResults returns how many bytes of results there are.
func CountKeptResults(s *Server) (n int64) {
	s.store.view(func(tx tx) error {
		n = 0
		tx.each(resultBucket, nil, func(_, v []byte) bool { n += int64(len(v) - 8); return true })
		return nil
	})
	return n
}
