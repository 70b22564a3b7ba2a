package toolserver

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/envelope"
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

// A brokenStore keeps nothing while it is broken.
type brokenStore struct {
	store
	broken *atomic.Bool
}

func (b brokenStore) update(f func(tx) error) error {
	if b.broken.Load() {
		return errors.New("the store is broken")
	}
	return b.store.update(f)
}

// Breakable has the updates of the server's store fail while what it returns is true. It is called
// before the server is used.
func Breakable(s *Server) *atomic.Bool {
	b := brokenStore{s.store, new(atomic.Bool)}
	s.store = b
	return b.broken
}

// AwaitDenied has a call wait for an authorization of a provider that the user has denied already. It
// returns how many messages the call has posted, and the outcome.
func AwaitDenied(s *Server, provider string) (posted uint64, err error) {
	const to = "https://runtime.example/rap/v1/cb/k1/c1"
	inv := &agentproto.Invocation{Operation: "whoami", ID: "c1", GroupID: "thread-1", CallbackURL: to}
	u, err := url.Parse(to)
	if err != nil {
		return 0, err
	}
	c := newCall(s, callKey{runtime: "r", CallKey: inv.Key()}, inv, u)
	a := s.states.newAuthorization(authorizationText{Call: c.id, Provider: provider, Expires: time.Now().Add(time.Hour)}, s.providers[provider])
	a.done <- outcome{err: errDenied}
	o := c.await(c.ctx, a)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number, o.err
}
