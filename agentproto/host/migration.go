package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow"
)

var (
	// ErrNoMigrationKey is returned by [Runtime.Migrate] without [Options].MigrationKey.
	ErrNoMigrationKey = errors.New("host: sessions cannot move without a MigrationKey")
	// ErrNotMoved is wrapped by the error of [Runtime.Migrate] if the session stayed, or
	// something is left to clean up; its text says what happened, in order.
	ErrNotMoved = errors.New("host: the session was not moved")
	// ErrElsewhere is returned for a thread that lives at another host, or is on its way
	// there. The text says where it is.
	ErrElsewhere = errors.New("host: the thread is elsewhere")
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
// that is on its way waits for that. If the destination is lost at the moment in which it
// may have the session, Migrate waits until it answers.
//
// Without a Model the session is the calls of this one thread. See doc/protocol.md §10.
func (rt *Runtime) Migrate(ctx context.Context, session, to string) error {
	if err := checkID("session", session); err != nil {
		return err
	}
	if rt.moves.envelope == nil {
		return ErrNoMigrationKey
	}
	if _, err := originOf(to); err != nil {
		return fmt.Errorf("host: destination %s: %w", quoted(to), err)
	}
	if rt.stopping.Load() {
		return ErrStopped
	}
	o, err := rt.moves.ports.order(ctx, session, to)
	if err != nil {
		return programError(err)
	}
	out, err := rt.moves.ports.outcomes.Await(ctx, o)
	if err != nil {
		return programError(err)
	}
	if out.Failure != "" {
		return fmt.Errorf("%w: %s", ErrNotMoved, out.Failure)
	}
	return nil
}

// order returns the migration of a session that is under way, or one that begins. A
// session has one at a time, whichever processes are asked for it, so that who asks again
// after a crash waits for the one that goes on.
func (m *migrationPorts) order(ctx context.Context, session, to string) (o order, err error) {
	o.Session = session
	var last handover.State // what has moved the session, or was to
	for n := 0; o.Migration == ""; n++ {
		text, known := m.read(note{Kind: noteOrder, Of: session, N: n})
		if known && m.isOver(session, text) {
			last.Transfer, _, _ = strings.Cut(text, " ")
			continue
		}
		if !known {
			came, host, _ := m.at(session)
			if host != "" {
				return o, fmt.Errorf("host: session %s lives at %s: %w", quoted(session), quoted(host), ErrNotMoved)
			}
			if handover.Number(came) > handover.Number(last.Transfer) {
				last.Transfer = came
			}
			mine := last.Name(time.Now()) + " " + to
			if text, err = m.write(ctx, note{Kind: noteOrder, Of: session, N: n}, mine); err != nil {
				return o, err
			}
			if text != mine && m.isOver(session, text) {
				last.Transfer, _, _ = strings.Cut(text, " ")
				continue
			}
		}
		id, where, _ := strings.Cut(text, " ")
		if where != to {
			return o, fmt.Errorf("host: session %s is on its way to %s: %w", quoted(session), quoted(where), ErrNotMoved)
		}
		o.Migration = id
	}
	if err := m.orders.Put(ctx, o, to); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
		return o, err
	}
	return o, nil
}

// isOver reports whether the migration of a noteOrder has an outcome.
func (m *migrationPorts) isOver(session, text string) bool {
	id, _, _ := strings.Cut(text, " ")
	_, over := m.outcomes.Get(order{session, id})
	return over
}

// isLeaving reports whether a session is on its way from here.
func (m *migrationPorts) isLeaving(session string) bool {
	for n := 0; ; n++ {
		text, known := m.read(note{Kind: noteOrder, Of: session, N: n})
		if !known {
			return false
		}
		if !m.isOver(session, text) {
			return true
		}
	}
}

// moves is what a process knows about sessions on their way. What has to be known
// after a crash is in its ports.
type moves struct {
	envelope *envelope.Envelope // nil without a MigrationKey
	tunnels  *tunnels           // likewise
	ports    *migrationPorts    // set when the program has started

	mu      sync.Mutex
	frozen  map[string]bool        // threads whose callbacks have to wait
	tickets map[string]string      // of offers that were accepted, by migration
	busy    map[string]*sync.Mutex // by session that comes: one message at a time
}

func newMoves(key []byte) (*moves, error) {
	e, err := newEnvelope(key)
	if err != nil {
		return nil, err
	}
	t, err := newTunnels(key)
	return &moves{envelope: e, tunnels: t, frozen: map[string]bool{}, tickets: map[string]string{}, busy: map[string]*sync.Mutex{}}, err
}

// one returns the lock of a session that comes.
func (m *moves) one(session string) *sync.Mutex {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.busy[session]
	if l == nil {
		l = new(sync.Mutex)
		m.busy[session] = l
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
