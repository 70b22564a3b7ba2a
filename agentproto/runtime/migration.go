package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace/millrace/internal/envelope"
)

var (
	// ErrNoMigrationKey is returned by [Runtime.Migrate] without [Options].MigrationKey.
	ErrNoMigrationKey = errors.New("runtime: sessions cannot move without a MigrationKey")
	// ErrNotMoved is wrapped by the error of [Runtime.Migrate] if the session stayed, or
	// something is left to clean up; its text says what happened, in order.
	ErrNotMoved = errors.New("runtime: the session was not moved")
	// ErrElsewhere is returned for a thread that lives at another host, or is on its way
	// there. The text says where it is.
	ErrElsewhere = errors.New("runtime: the thread is elsewhere")
)

// Migrate moves a session, named by its root thread, to another runtime, named by its
// public URL, which has the same MigrationKey. It returns when the destination serves the
// session, with its history, pending calls, prompts, subscriptions and tombstones.
//
// The order is the protocol's: the session is shut down here, and its callbacks have to
// wait; the destination makes its tool servers ready; the tool servers that need it hand
// their state over, all at once, each within [Timeouts].Migrate; when all have, the
// conversation moves; then the source is cleaned up. If anything fails before the
// destination has the session, everything is undone, tool servers take their state back,
// and the session goes on here.
//
// A callback that comes here later is handed on to where the session is. A runtime whose
// state is kept goes on with a migration after a crash; calling Migrate again for a session
// that is on its way waits for that. Source: seed part 4, protocol parts 1.8 and 3.11.
func (rt *Runtime) Migrate(ctx context.Context, session, to string) error {
	if err := checkID("session", session); err != nil {
		return err
	}
	if rt.moves.envelope == nil {
		return ErrNoMigrationKey
	}
	if _, err := originOf(to); err != nil {
		return fmt.Errorf("runtime: destination %s: %w", quoted(to), err)
	}
	if rt.stopping.Load() {
		return ErrStopped
	}
	d, joined := rt.moves.begin(session, rand.Text(), to)
	if joined && d.to != to {
		return fmt.Errorf("runtime: session %s is on its way to %s: %w", quoted(session), quoted(d.to), ErrNotMoved)
	}
	ports, o := rt.moves.ports, order{Session: session, Migration: d.id}
	if !joined {
		if host, _ := ports.placeOf(session); host != "" {
			rt.moves.leave(d)
			return fmt.Errorf("runtime: session %s lives at %s: %w", quoted(session), quoted(host), ErrNotMoved)
		}
		if err := ports.orders.Put(ctx, o, to); err != nil {
			rt.moves.leave(d)
			return programError(err)
		}
	}
	out, err := ports.outcomes.Await(ctx, o)
	if err != nil {
		return programError(err)
	}
	if out.Failure != "" {
		return fmt.Errorf("%w: %s", ErrNotMoved, out.Failure)
	}
	return nil
}

// moves is what a runtime knows about sessions on their way. What has to be known
// after a crash is in its ports.
type moves struct {
	envelope *envelope.Envelope // nil without a MigrationKey
	ports    *migrationPorts    // set when the program has started

	mu      sync.Mutex
	leaving map[string]*departure  // by session
	frozen  map[string]bool        // threads whose callbacks have to wait
	tickets map[string]string      // of offers that were accepted, by migration
	busy    map[string]*sync.Mutex // by migration: one message at a time
}

func newMoves(key []byte) (*moves, error) {
	e, err := newEnvelope(key)
	return &moves{
		envelope: e, leaving: map[string]*departure{}, frozen: map[string]bool{},
		tickets: map[string]string{}, busy: map[string]*sync.Mutex{},
	}, err
}

// begin returns the migration of a session that is under way, or one that begins.
func (m *moves) begin(session, id, to string) (d *departure, joined bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.leaving[session]; d != nil {
		return d, true
	}
	d = &departure{session: session, id: id, to: to}
	m.leaving[session] = d
	return d, false
}

// enter notes that a migration is under way: one that begins, or one that goes on after a
// crash.
func (m *moves) enter(d *departure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving[d.session] = d
}

// leave notes that a migration is over.
func (m *moves) leave(d *departure) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.leaving[d.session]; now != nil && now.id == d.id {
		delete(m.leaving, d.session)
	}
}

func (m *moves) isLeaving(session string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaving[session] != nil
}

// one returns the lock of a migration.
func (m *moves) one(migration string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.busy[migration]
	if l == nil {
		l = new(sync.Mutex)
		m.busy[migration] = l
	}
	return l
}

// freeze has the callbacks of threads wait, or not any more.
func (m *moves) freeze(threads []string, frozen bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range threads {
		if frozen {
			m.frozen[t] = true
		} else {
			delete(m.frozen, t)
		}
	}
}

// leftTo returns an error for a thread that lives at another host.
func (rt *Runtime) leftTo(thread string) error {
	if rt.moves.ports == nil {
		return nil
	}
	if host, _ := rt.moves.ports.placeOf(thread); host != "" {
		return fmt.Errorf("%w: %s is at %s", ErrElsewhere, quoted(thread), quoted(host))
	}
	return nil
}

// isFrozen reports whether callbacks of a thread have to wait.
func (m *moves) isFrozen(thread string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen[thread]
}
