// Package migration moves sessions between hosts. A [Migrator] sends those that leave, takes those that come, hands on
// what comes for threads that have left, and lets tool servers reach each other through tunnels. What has to be
// known after a crash is in its [Ports].
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
	ErrNoModel        = errors.New("host: there is no model to have conversations with")
)

// A Taker takes in callbacks that another host has received.
type Taker interface {
	TakeForwarded(ctx context.Context, f *callback.Forwarded) *callback.Answer
}

// A Config has what a migrator works with.
type Config struct {
	Peers         *peer.Peers
	Catalog       *discovery.Catalog
	Sealer        capability.Sealer
	Subscriptions *subscriptions.Open
	Display       *display.Display

	Key       []byte          // that hosts have in common; nil if no session leaves or comes
	OtherKeys bool            // whether other keys than those of the history are accepted
	Kept      bool            // whether the flow outlasts the process
	Running   <-chan struct{} // closed when the program has started
	Stopping  func() bool

	Migrate  time.Duration // for a tool server that hands a session over
	Transfer time.Duration // for a message between hosts
	Callback time.Duration // for which callback URLs are good beyond the lifetimes of calls
	Log      *slog.Logger
}

// A Migrator moves sessions from here and to here.
type Migrator struct {
	Config
	*moves
	publicURL, pathPrefix string                // set by listen
	callbacks             Taker                 // likewise
	program               *agentproto.Program   // set by attach
	threads               *conversation.Program // likewise; nil without conversations
}

// New returns a migrator of a flow that has not started.
func New(c Config) (*Migrator, error) {
	m, err := newMoves(c.Key)
	return &Migrator{Config: c, moves: m}, err
}

// Listen says under which URL other hosts reach this one, the path of which is prefix, and who takes callbacks that
// they hand on.
func (mg *Migrator) Listen(publicURL, prefix string, callbacks Taker) {
	mg.publicURL, mg.pathPrefix, mg.callbacks = publicURL, prefix, callbacks
}

// Attach says which programs have the calls and the conversations.
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
		return fmt.Errorf("host: destination %s: %w", quote.Text(to), err)
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

// order returns the migration of a session that is under way, or one that begins. A
// session has one at a time, whichever processes are asked for it, so that who asks again
// after a crash waits for the one that goes on.
func (m *Ports) order(ctx context.Context, session, to string) (o Order, err error) {
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

// isLeaving reports whether a session is on its way from here.
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

// moves is what a process knows about sessions on their way. What has to be known
// after a crash is in its ports.
type moves struct {
	envelope *envelope.Envelope // nil without a MigrationKey
	tunnels  *tunnels           // likewise
	ports    *Ports             // set when the program has started

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

// freeze has the callbacks of threads wait, or no longer wait.
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

// LeftTo returns an error for a thread that lives at another host.
func (mg *Migrator) LeftTo(thread string) error {
	if mg.ports == nil {
		return nil
	}
	if host, _ := mg.ports.placeOf(thread); host != "" {
		return fmt.Errorf("%w: %s is at %s", ErrElsewhere, quote.Text(thread), quote.Text(host))
	}
	return nil
}

// isFrozen reports whether callbacks of a thread have to wait.
func (m *moves) isFrozen(thread string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen[thread]
}
