package migration

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// Ports are the ports of a flow that concern migrations.
type Ports struct {
	orders   *dataflow.EntryInputPort[Order, string]
	outcomes *dataflow.EntryOutputPort[Order, Outcome]
	notes    *dataflow.EntryInputPort[note, string]
	noted    *dataflow.EntryOutputPort[note, string]
}

// An Order identifies a migration.
type Order struct{ Session, Migration string }

// Affinity returns the session, which partitions the migration.
func (o Order) Affinity() string { return agentproto.SessionOf(o.Session) }

// An Outcome is the outcome of a migration. It is stored, so an error is a text.
type Outcome struct{ Failure string }

// A note is a fact about migrations that has to survive a crash. The first note with a key counts.
type note struct {
	Kind noteKind
	Of   string
	N    int // for kinds that may have several notes
	// Session partitions the notes of migrations and of toolsets. Other notes are partitioned by Of.
	Session string
}

// Affinity returns the session that partitions the note.
func (n note) Affinity() string { return agentproto.SessionOf(cmp.Or(n.Session, n.Of)) }

type noteKind uint8

const (
	noteOrder  noteKind = iota + 1 // the N-th migration of session Of away from here: its identifier and destination
	noteAsked                      // at the source: a plan, with the tool servers that are asked to move in migration Of
	noteSent                       // at the source: a plan; the session may have been sent in migration Of
	noteBack                       // at the source: a plan; migration Of is taken back
	noteComing                     // at the destination: the N-th migration of session Of to here
	noteFate                       // at the destination: the outcome of migration Of
	noteOn                         // at the destination: the N-th thread of migration Of goes on
	notePlace                      // where thread Of is after its N-th move, and by which migration; "" means here
	noteKey                        // the mark of the N-th key named Of that the history was made with
	noteNamed                      // at the source: the N-th name that the toolset of tool server Of had when the session left
)

// manyMigrations is how many migrations may run at once.
const manyMigrations = 1 << 16

// NewPorts adds to the flow of a program what sessions need to move. A migration is an asynchronous call: after a crash, a
// durable flow repeats it from the start if it had no outcome, so each of its steps must be repeatable.
func NewPorts(p *agentproto.Program, migrate func(ctx context.Context, o Order, to string) Outcome) *Ports {
	at := dataflow.At[agentproto.Host](p.Flow())
	m := &Ports{}
	type task = dataflow.Pair[Order, string]
	var ordered dataflow.FixedKeyedSingleton[Order, string, agentproto.Host]
	var noted dataflow.FixedKeyedSingleton[note, string, agentproto.Host]
	m.orders, ordered = keyedsingleton.Input[Order, string](at, "migrations")
	m.notes, noted = keyedsingleton.Input[note, string](at, "notes on migrations")
	tasks := keyedsingleton.MapWithKey(ordered, func(o Order, to string) task { return task{First: o, Second: to} })
	outcomes := keyedsingleton.MapAsync(tasks, func(ctx context.Context, t task) Outcome {
		return migrate(ctx, t.First, t.Second)
	}, keyedsingleton.AsyncOptions{Concurrency: manyMigrations})
	m.outcomes = keyedsingleton.Output(outcomes, "migrated")
	m.noted = keyedsingleton.Output(noted, "noted on migrations")
	return m
}

// write writes a note unless it exists, and returns the existing one.
func (m *Ports) write(ctx context.Context, n note, text string) (string, error) {
	if err := m.notes.Put(ctx, n, text); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
		return "", err
	}
	return m.noted.Await(ctx, n)
}

// read returns a note, if it exists.
func (m *Ports) read(n note) (string, bool) { return m.noted.Get(n) }

// placeOf returns the host that a thread has moved to, or "" if it is here, and how often it has moved from or to this host.
func (m *Ports) placeOf(thread string) (host string, moves int) {
	_, host, moves = m.at(thread)
	return host, moves
}

// at is placeOf, and also returns the migration of the last move.
func (m *Ports) at(thread string) (migration, host string, moves int) {
	for {
		text, ok := m.read(note{Kind: notePlace, Of: thread, N: moves})
		if !ok {
			return migration, host, moves
		}
		migration, host, _ = strings.Cut(text, " ")
		moves++
	}
}

// place records where a thread is after a migration. Recording it again after later ones changes nothing.
func (m *Ports) place(ctx context.Context, migration, thread, host string) error {
	for n := 0; ; n++ {
		text, ok := m.read(note{Kind: notePlace, Of: thread, N: n})
		if !ok {
			var err error
			if text, err = m.write(ctx, note{Kind: notePlace, Of: thread, N: n}, migration+" "+host); err != nil {
				return err
			}
		}
		if strings.HasPrefix(text, migration+" ") {
			return nil
		}
	}
}

// toolsetOf returns the name that the toolset of a tool server had when a session last left, or "", and how many such names there
// are.
func (m *Ports) toolsetOf(session, server string) (name string, names int) {
	for {
		text, ok := m.read(note{Kind: noteNamed, Of: server, N: names, Session: session})
		if !ok {
			return name, names
		}
		name = text
		names++
	}
}

// nameToolset records the name of the toolset of a tool server when a session leaves.
func (m *Ports) nameToolset(ctx context.Context, session, server, name string) (err error) {
	for last, n := m.toolsetOf(session, server); last != name; n++ {
		if last, err = m.write(ctx, note{Kind: noteNamed, Of: server, N: n, Session: session}, name); err != nil {
			return err
		}
	}
	return nil
}
