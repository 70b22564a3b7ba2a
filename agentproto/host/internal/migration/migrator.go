// Package migration moves sessions between hosts. A [Migrator] sends sessions that leave, accepts those that arrive, forwards
// what arrives for threads that have left, and lets tool servers reach each other through tunnels. What has to survive a crash is
// in its [Ports].
package migration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/callback"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/display"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/subscriptions"
	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow"
)

var (
	ErrNoMigrationKey = errors.New("host: sessions cannot move without a MigrationKey")
	ErrNotMoved       = errors.New("host: the session was not moved")
	ErrElsewhere      = errors.New("host: the thread is elsewhere")
	ErrMoving         = fmt.Errorf("%w, or will be soon", ErrElsewhere)
	ErrBadDestination = errors.New("host: bad destination")
	ErrNoModel        = errors.New("host: there is no model to have conversations with")
)

// A Taker handles callbacks that another host has received.
type Taker interface {
	TakeForwarded(ctx context.Context, f *callback.Forwarded) *callback.Answer
}

// A Config holds what a migrator needs.
type Config struct {
	Peers         *peer.Peers
	Catalog       *discovery.Catalog
	Sealer        capability.Sealer
	Subscriptions *subscriptions.Open
	Display       *display.Display

	Key       []byte          // the key shared by the hosts; nil if no session leaves or arrives
	OtherKeys bool            // whether keys other than those of the history are accepted
	Kept      bool            // whether the flow is durable
	Running   <-chan struct{} // closed when the program has started
	Stopping  func() bool

	Migrate  time.Duration // the timeout for a tool server that hands over a session
	Transfer time.Duration // the timeout for a message between hosts
	Callback time.Duration // how long callback URLs are valid after the lifetimes of their calls
	Log      *slog.Logger
}

// A Migrator moves sessions from and to this host.
type Migrator struct {
	Config
	*moves
	publicURL, pathPrefix string                // set by Listen
	callbacks             Taker                 // set by Listen
	program               *agentproto.Program   // set by Attach
	threads               *conversation.Program // set by Attach; nil without conversations
}

// New returns a migrator for a flow that has not started.
func New(c Config) (*Migrator, error) {
	m, err := newMoves(c.Key)
	return &Migrator{Config: c, moves: m}, err
}

// Listen sets the URL under which other hosts reach this one, its path, and the handler of callbacks that they forward.
func (mg *Migrator) Listen(publicURL, prefix string, callbacks Taker) {
	mg.publicURL, mg.pathPrefix, mg.callbacks = publicURL, prefix, callbacks
}

// Attach sets the programs that have the calls and the conversations, and the ports.
func (mg *Migrator) Attach(calls *agentproto.Program, threads *conversation.Program, ports *Ports) {
	mg.program, mg.threads, mg.ports = calls, threads, ports
}

// Move moves a session to another host: see host.Runtime.Migrate.
func (mg *Migrator) Move(ctx context.Context, session, to string) error {
	if err := capability.CheckID("session", session); err != nil {
		return err
	}
	if mg.envelope == nil {
		return ErrNoMigrationKey
	}
	if _, err := peer.Origin(to); err != nil {
		return fmt.Errorf("%w %s: %w", ErrBadDestination, quote.Text(to), err)
	}
	if mg.Stopping() {
		return peer.ErrStopped
	}
	o, err := mg.ports.order(ctx, session, to)
	if err != nil {
		return err
	}
	out, err := mg.ports.outcomes.Await(ctx, o)
	if err != nil {
		return err
	}
	if out.Failure != "" {
		return fmt.Errorf("%w: %s", ErrNotMoved, out.Failure)
	}
	return nil
}

// order returns the migration of a session that is in progress, or a new one. A session has one migration at a time, whichever
// process is asked for it, so that a caller who asks again after a crash waits for the same migration.
func (m *Ports) order(ctx context.Context, session, to string) (o Order, err error) {
	o.Session = session
	var last handover.State // what has moved the session, or was to move it
	for n := 0; o.Migration == ""; n++ {
		text, known := m.read(note{Kind: noteOrder, Of: session, N: n})
		if known && m.isOver(session, text) {
			last.Transfer, _, _ = strings.Cut(text, " ")
			continue
		}
		if !known {
			came, host, _ := m.at(session)
			if host != "" {
				return o, fmt.Errorf("host: session %s lives at %s: %w", quote.Text(session), quote.Text(host), ErrNotMoved)
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
			return o, fmt.Errorf("host: session %s is on its way to %s: %w", quote.Text(session), quote.Text(where), ErrNotMoved)
		}
		o.Migration = id
	}
	if err := m.orders.Put(ctx, o, to); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
		return o, err
	}
	return o, nil
}

// isOver reports whether the migration of a noteOrder has an outcome.
func (m *Ports) isOver(session, text string) bool {
	id, _, _ := strings.Cut(text, " ")
	_, over := m.outcomes.Get(Order{session, id})
	return over
}

// isLeaving reports whether a session is moving away from here.
func (m *Ports) isLeaving(session string) bool {
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

// moves is a process's knowledge about moving sessions. What has to survive a crash is in its ports.
type moves struct {
	envelope *envelope.Envelope // nil without a MigrationKey
	tunnels  *tunnels           // nil without a MigrationKey
	ports    *Ports             // set when the program has started

	mu      sync.Mutex
	frozen  map[string]bool        // threads whose callbacks have to wait
	tickets map[string]string      // of accepted offers, by migration
	busy    map[string]*sync.Mutex // by arriving session: one message at a time
}

func newMoves(key []byte) (*moves, error) {
	e, err := newEnvelope(key)
	if err != nil {
		return nil, err
	}
	t, err := newTunnels(key)
	return &moves{envelope: e, tunnels: t, frozen: map[string]bool{}, tickets: map[string]string{}, busy: map[string]*sync.Mutex{}}, err
}

// one returns the lock of an arriving session.
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

// freeze makes the callbacks of threads wait, or no longer wait.
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

// LeftTo returns an error for a thread that has moved to another host.
func (mg *Migrator) LeftTo(thread string) error {
	if mg.ports == nil {
		return nil
	}
	host, _ := mg.ports.placeOf(thread)
	return elsewhere(thread, host)
}

// AwaitLeft is LeftTo for a thread that another process runs. That process may take until ctx ends to say where the thread is.
func (mg *Migrator) AwaitLeft(ctx context.Context, thread string) error {
	if mg.ports == nil {
		return nil
	}
	host := ""
	for n := 0; ; n++ {
		text, err := mg.ports.noted.Await(ctx, note{Kind: notePlace, Of: thread, N: n})
		if err != nil {
			return elsewhere(thread, host)
		}
		_, host, _ = strings.Cut(text, " ")
	}
}

// elsewhere returns the error for a thread at another host, or nil if host is empty.
func elsewhere(thread, host string) error {
	if host == "" {
		return nil
	}
	return fmt.Errorf("%w: %s is at %s", ErrElsewhere, quote.Text(thread), quote.Text(host))
}

// isFrozen reports whether callbacks of a thread have to wait.
func (m *moves) isFrozen(thread string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen[thread]
}
