package toolserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A session is a root thread of a runtime. Its runtime is empty where runtimes do
// not say who they are, and then means every runtime.
type session struct{ runtime, ID string }

// sessionOf returns the root thread of a call.
func sessionOf(inv *agentproto.Invocation) string {
	if len(inv.ThreadAncestors) > 0 {
		return inv.ThreadAncestors[0]
	}
	return inv.GroupID
}

func (of session) has(k callKey, inv *agentproto.Invocation) bool {
	return sessionOf(inv) == of.ID && (of.runtime == "" || of.runtime == k.runtime)
}

// sessionTag is what is remembered of a finished call's session: 16 bytes of the
// digest of its name, and 16 of the one of its runtime's.
func sessionTag(runtime, id string) []byte {
	a, b := sha256.Sum256([]byte(id)), sha256.Sum256([]byte(runtime))
	return append(a[:16:16], b[:16]...)
}

// tag returns what the tags of the session's calls begin with.
func (of session) tag() []byte {
	t := sessionTag(of.runtime, of.ID)
	if of.runtime == "" {
		return t[:16]
	}
	return t
}

// A movePhase says how far the migration of a session is; see [Server.migrate].
type movePhase string

const (
	phaseHere   movePhase = "here"
	phaseFrozen movePhase = "frozen"
	phaseDoubt  movePhase = "doubt"
	phaseMoved  movePhase = "moved"
)

// A move is the migration of a session away from here.
type move struct {
	session
	URL      string // base URL of the destination
	Endpoint string // of the destination's manifest, which names the instance
	Transfer string // names the attempt

	phase movePhase // guarded by the server's mu, as busy
	busy  bool      // somebody is at it
	calls []*call   // that were interrupted

	cancelled []func(callKey) bool // meanwhile; guarded by the server's mu
}

// moves are the sessions that are not, or not for long, here. The server's mu
// guards them.
type moves map[session]*move

// moveBucket has the moves in doubt and those that are done.
const moveBucket = "moves"

// A moveRecord is what is kept of a move.
type moveRecord struct {
	Runtime  string    `json:"runtime"`
	Session  string    `json:"session"`
	URL      string    `json:"url"`
	Endpoint string    `json:"endpoint"`
	Transfer string    `json:"transfer"`
	Phase    movePhase `json:"phase"`
	At       time.Time `json:"at"`
}

// rememberMoved is for how long a server knows that it has given a session away.
const rememberMoved = 30 * 24 * time.Hour

func (of session) key() []byte {
	list, _ := json.Marshal([]string{of.runtime, of.ID})
	d := sha256.Sum256(list)
	return d[:]
}

// of returns the move of a session of a runtime.
func (ms moves) of(runtime, id string) *move {
	if m := ms[session{"", id}]; m != nil {
		return m
	}
	return ms[session{runtime, id}]
}

// holds reports whether calls to a session have to wait.
func (ms moves) holds(runtime, id string) bool {
	m := ms.of(runtime, id)
	return m != nil && (m.phase == phaseFrozen || m.phase == phaseDoubt)
}

// hasMoved reports whether the session of a call is with another instance.
func (s *Server) hasMoved(c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moves.of(c.key.runtime, sessionOf(c.inv))
	return m != nil && m.phase == phaseMoved
}

// movedTo reports whether a session is served by the instance at a destination.
func (s *Server) movedTo(of session, destination string) bool {
	base, err := s.opts.destination(destination)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moves.of(of.runtime, of.ID)
	return m != nil && m.phase == phaseMoved && m.URL == base
}

// claim begins a migration, or goes on with one in doubt. It returns nil if the
// session has moved there already.
func (s *Server) claim(of session, base string) (*move, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moves.of(of.runtime, of.ID)
	switch {
	case m == nil:
		m = &move{session: of, URL: base, Transfer: rand.Text(), phase: phaseHere, busy: true}
		if s.moves == nil {
			s.moves = make(moves)
		}
		s.moves[of] = m
		return m, nil
	case m.busy:
		return nil, errBusyMoving
	case m.URL != base && m.phase == phaseDoubt:
		return nil, errDoubt
	case m.URL != base:
		return nil, errElsewhere
	case m.phase == phaseMoved:
		return nil, nil
	}
	m.busy = true
	return m, nil
}

// release ends what claim has begun. A session that is still here goes on.
func (s *Server) release(m *move) {
	s.mu.Lock()
	phase := m.phase
	switch phase {
	case phaseHere:
		delete(s.moves, m.session)
	case phaseDoubt:
		m.busy = false
		go s.settleLater(m)
	case phaseMoved:
		m.busy = false
	}
	s.mu.Unlock()
	if phase == phaseFrozen {
		s.thaw(m)
	}
}

// doubt notes, before the destination is told to serve the session, that it may.
func (s *Server) doubt(m *move) error {
	if err := s.keepMove(m, phaseDoubt, nil); err != nil {
		return fmt.Errorf("%w: %w", errMoveStore, err)
	}
	return nil
}

// moved notes that the destination serves the session, and forgets its calls.
func (s *Server) moved(m *move) error {
	ids, err := s.callsOf(m.session)
	if err != nil {
		return err
	}
	if err := s.keepMove(m, phaseMoved, func(tx tx) error {
		for _, id := range ids {
			if err := deleteCall(tx, id); err != nil {
				return err
			}
		}
		for _, g := range m.grants(tx) {
			if err := tx.delete(grantBucket, g.Key); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	s.countResults()
	for _, id := range ids {
		if a := s.states.of(id); a != nil { // the destination asks the user itself
			if err := s.states.drop(a); err != nil {
				s.log.Error("authorization not forgotten", "provider", a.Provider, "error", err)
			}
		}
	}
	return nil
}

// deleteCall removes everything that is kept of a call.
func deleteCall(tx tx, id digest) error {
	_, err := dropResult(tx, id[:])
	err = errors.Join(err, tx.delete(callBucket, id[:]))
	for _, bucket := range callParts {
		err = errors.Join(err, deleteAll(tx, bucket, id[:]))
	}
	return err
}

func (s *Server) keepMove(m *move, p movePhase, change func(tx) error) error {
	data, err := json.Marshal(moveRecord{m.runtime, m.ID, m.URL, m.Endpoint, m.Transfer, p, time.Now().Round(0)})
	if err != nil {
		return err
	}
	if err := s.store.update(func(tx tx) error {
		if change != nil {
			if err := change(tx); err != nil {
				return err
			}
		}
		return tx.put(moveBucket, m.key(), data)
	}); err != nil {
		return err
	}
	s.mu.Lock()
	m.phase = p
	s.mu.Unlock()
	return nil
}

// loadMoves reads the moves of the processes before.
func (s *Server) loadMoves() error {
	found := make(moves)
	err := s.store.update(func(tx tx) error {
		clear(found)
		var old [][]byte
		var bad error
		tx.each(moveBucket, nil, func(k, v []byte) bool {
			var r moveRecord
			if bad = json.Unmarshal(v, &r); bad != nil {
				return false
			}
			if r.Phase == phaseMoved && time.Since(r.At) > rememberMoved {
				old = append(old, append([]byte(nil), k...))
				return true
			}
			of := session{r.Runtime, r.Session}
			found[of] = &move{session: of, URL: r.URL, Endpoint: r.Endpoint, Transfer: r.Transfer, phase: r.Phase}
			return true
		})
		for _, k := range old {
			bad = errors.Join(bad, tx.delete(moveBucket, k))
		}
		return bad
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves = found
	return err
}

// settleMoves goes on with the moves in doubt, after a restart.
func (s *Server) settleMoves() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.moves {
		if m.phase == phaseDoubt {
			go s.settleLater(m)
		}
	}
}

// settleLater asks the destination of a session in doubt until it answers. The
// runtime was told that the migration failed, or nothing at all, so the destination
// should give up. If it has the session, the next /migrate is answered 200.
func (s *Server) settleLater(m *move) {
	for wait := time.Second; sleep(s.ctx, wait) == nil; wait = min(2*wait, time.Minute) {
		s.mu.Lock()
		doubt, mine := m.phase == phaseDoubt, !m.busy
		m.busy = m.busy || doubt
		s.mu.Unlock()
		if !doubt {
			return
		}
		if !mine {
			continue
		}
		ctx, stop := context.WithTimeout(s.ctx, abortTimeout)
		err := s.conclude(ctx, m, stepAbort)
		stop()
		if !errors.Is(err, errDoubt) {
			s.release(m)
			return
		}
		s.mu.Lock()
		m.busy = false
		s.mu.Unlock()
	}
}
