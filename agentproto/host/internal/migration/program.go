package migration

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// Ports are the ports of a flow that has to do with migrations.
type Ports struct {
	orders   *dataflow.EntryInputPort[Order, string]
	outcomes *dataflow.EntryOutputPort[Order, Outcome]
	notes    *dataflow.EntryInputPort[note, string]
	noted    *dataflow.EntryOutputPort[note, string]
}

// An Order names a migration.
type Order struct{ Session, Migration string }

// Affinity says that a migration is kept with its session.
func (o Order) Affinity() string { return agentproto.SessionOf(o.Session) }

// An Outcome says what came of a migration. It is kept, so an error is a text.
type Outcome struct{ Failure string }

// A note is something about migrations that has to be known after a crash: what was
// noted first holds.
type note struct {
	Kind noteKind
	Of   string
	N    int // of those of which there may be several
	// Session is where a note is kept that is of a migration. One of anything else is kept with what it is of.
	Session string
}

// Affinity says that a note is kept with the session.
func (n note) Affinity() string { return agentproto.SessionOf(cmp.Or(n.Session, n.Of)) }

type noteKind uint8

const (
	noteOrder  noteKind = iota + 1 // the N-th migration of session Of from here: its identifier and where to
	noteAsked                      // at the source: the tool servers that are asked to move in migration Of, a plan
	noteSent                       // at the source: the session may have been sent in migration Of, a plan
	noteBack                       // at the source: migration Of is taken back, a plan
	noteComing                     // at the destination: the N-th migration of session Of to here
	noteFate                       // at the destination: what became of migration Of
	noteOn                         // at the destination: the N-th thread of migration Of goes on
	notePlace                      // where thread Of is since its N-th move, by which migration; "" is here
	noteKey                        // the N-th key named Of, of those that the history was made with
)

// manyMigrations is how many migrations may be under way.
const manyMigrations = 1 << 16

// NewPorts adds to the flow of a program what sessions need to move. A migration is
// an asynchronous call: a durable flow makes it again from the start after a crash, if it
// had no outcome, so each of its steps can be done twice.
func NewPorts(p *agentproto.Program, migrate func(ctx context.Context, o Order, to string) Outcome) *Ports {
	at := dataflow.At[agentproto.Host](p.Flow())
	m := &Ports{}
	type task = dataflow.Pair[Order, string]
	var ordered dataflow.KeyedSingleton[Order, string, agentproto.Host, bounds.BoundedValue]
	var noted dataflow.KeyedSingleton[note, string, agentproto.Host, bounds.BoundedValue]
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

// write writes a note unless there is one, and returns the one that there is.
func (m *Ports) write(ctx context.Context, n note, text string) (string, error) {
	if err := m.notes.Put(ctx, n, text); err != nil && !errors.Is(err, dataflow.ErrDuplicateKey) {
		return "", err
	}
	return m.noted.Await(ctx, n)
}

// read returns a note, if there is one.
func (m *Ports) read(n note) (string, bool) { return m.noted.Get(n) }

// placeOf returns the host that a thread has moved to, "" if it lives here, and how often
// it has moved from here or to here.
func (m *Ports) placeOf(thread string) (host string, moves int) {
	_, host, moves = m.at(thread)
	return host, moves
}

// at is placeOf with the migration by which the thread has come there.
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

// place notes where a thread is since a migration. Noting it again, when later ones have
// been noted, changes nothing.
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
