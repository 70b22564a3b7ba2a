package migration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// offered answers whether this host accepts a session, and where its tool servers are. It fetches their manifests anew, because a
// destination has to be ready before anything moves.
func (mg *Migrator) offered(ctx context.Context, m *migrationMessage) (*migrationReply, error) {
	if err := capability.CheckID("session", m.Session); err != nil {
		return nil, err
	}
	l := mg.one(m.Session)
	l.Lock()
	defer l.Unlock()
	if mg.ports.isLeaving(m.Session) {
		return nil, errors.New("the session is on its way from here")
	}
	if err := mg.forget(ctx, m.Session); err != nil {
		return nil, err
	}
	if err := mg.vacant(ctx, m.Session); err != nil {
		return nil, err
	}
	mg.Peers.Raise(ctx)
	servers, err := mg.Catalog.ByToolset(ctx)
	if err != nil {
		return nil, err
	}
	reply := &migrationReply{Servers: map[string]string{}}
	for _, name := range m.Offer.Toolsets {
		base, ok := servers[name]
		if !ok {
			return nil, fmt.Errorf("it has no tool server with the toolset %s that can be reached", quote.Text(name))
		}
		reply.Servers[name] = base
		if err := mg.tunnels.opens(m.Session, name, mg.Migrate); err != nil {
			return nil, err
		}
	}
	reply.Ticket = mg.admit(m.Migration)
	return reply, nil
}

// arrive creates a session from what another host sends. When it returns without an error, the session is stored and served here;
// repeating it changes nothing.
func (mg *Migrator) arrive(ctx context.Context, m *migrationMessage) (*migrationReply, error) {
	l := mg.one(m.Session)
	l.Lock()
	defer l.Unlock()
	ports := mg.ports
	switch fate, _ := ports.fateOf(m.Session, m.Migration); {
	case fate == fateImported:
		return mg.fate(ctx, m.Session, m.Migration)
	case fate == fateAborted:
		return nil, errAbortedBefore
	case !mg.admitted(m.Migration, m.Import.Ticket):
		return nil, errors.New("nobody offered it the session: it was started anew meanwhile")
	}
	if err := mg.vacant(ctx, m.Session); err != nil {
		return nil, err
	}
	var threads []arrival
	for _, t := range m.Import.Threads {
		threads = append(threads, arrival{t.Thread, t.Calls.Closed})
	}
	if err := ports.expect(ctx, m.Session, m.Migration, threads); err != nil {
		return nil, err
	}
	for i := range m.Import.Threads {
		t := &m.Import.Threads[i]
		if err := mg.importThread(ctx, m.Migration, t); err != nil {
			return nil, fmt.Errorf("thread %s: %w", quote.Text(t.Thread), err)
		}
	}
	fate, err := ports.decide(ctx, m.Session, m.Migration, fateImported, threads)
	if err != nil {
		return nil, err
	}
	if fate != fateImported {
		return nil, errAbortedBefore
	}
	mg.tunnels.closes(m.Session)
	return mg.fate(ctx, m.Session, m.Migration)
}

// An arrival is a thread that arrives here.
type arrival struct {
	Thread string
	Closed bool
}

var errAbortedBefore = errors.New("the migration was aborted before")

// abort ensures that a session that did not arrive never will, and returns the fate of the migration.
func (mg *Migrator) abort(ctx context.Context, m *migrationMessage) (*migrationReply, error) {
	l := mg.one(m.Session)
	l.Lock()
	defer l.Unlock()
	if err := mg.forget(ctx, m.Session); err != nil {
		return nil, err
	}
	if _, err := mg.ports.decide(ctx, m.Session, m.Migration, fateAborted, nil); err != nil {
		return nil, err
	}
	return mg.fate(ctx, m.Session, m.Migration)
}

// forget aborts undecided migrations of a session to this host, and forgets the threads that arrived with them: their source no
// longer waits for them.
func (mg *Migrator) forget(ctx context.Context, session string) error {
	ports := mg.ports
	for n := 0; ; n++ {
		migration, threads, ok := ports.expected(session, n)
		if !ok {
			return nil
		}
		fate, err := ports.decide(ctx, session, migration, fateAborted, nil)
		if err != nil {
			return err
		}
		if fate != fateAborted {
			continue
		}
		for _, t := range threads {
			// A thread that did not arrive by this migration may be arriving by another one.
			if err := mg.abortThread(ctx, migration, t.Thread); err != nil && !errors.Is(err, agentproto.ErrMove) && !errors.Is(err, conversation.ErrNotMoving) {
				return err
			}
			mg.Subscriptions.Forget(t.Thread)
		}
	}
}

// fate returns the outcome of a migration. If the session arrived, it also lets the session go on here, once: that happens when
// the source learns of the arrival. If a crash interrupts it, it is completed when the source asks again, or when the session is
// to move on.
func (mg *Migrator) fate(ctx context.Context, session, migration string) (*migrationReply, error) {
	fate, threads := mg.ports.fateOf(session, migration)
	if fate != fateImported {
		return &migrationReply{Fate: fate}, nil
	}
	for i, t := range threads {
		on := note{Kind: noteOn, Of: migration, N: i, Session: session}
		if _, done := mg.ports.read(on); done {
			continue // the thread may have moved on, or be about to
		}
		if err := mg.arrived(ctx, migration, t); err != nil {
			return nil, fmt.Errorf("thread %s does not go on yet: %w", quote.Text(t.Thread), err)
		}
		if _, err := mg.ports.write(ctx, on, t.Thread); err != nil {
			return nil, err
		}
	}
	return &migrationReply{Fate: fate}, nil
}

// settleIn completes the decided migrations of a session to this host.
func (mg *Migrator) settleIn(ctx context.Context, session string) error {
	l := mg.one(session)
	l.Lock()
	defer l.Unlock()
	for n := 0; ; n++ {
		migration, _, ok := mg.ports.expected(session, n)
		if !ok {
			return nil
		}
		if _, err := mg.fate(ctx, session, migration); err != nil {
			return err
		}
	}
}

// became answers what the outcome of a migration is.
func (mg *Migrator) became(ctx context.Context, m *migrationMessage) (*migrationReply, error) {
	l := mg.one(m.Session)
	l.Lock()
	defer l.Unlock()
	return mg.fate(ctx, m.Session, m.Migration)
}

// decide records the outcome of a migration unless one is recorded, and returns the recorded one.
func (p *Ports) decide(ctx context.Context, session, migration, fate string, threads []arrival) (string, error) {
	list, err := json.Marshal(threads)
	if err != nil {
		return "", err
	}
	decided, err := p.write(ctx, note{Kind: noteFate, Of: migration, Session: session}, fate+" "+string(list))
	fate, _, _ = strings.Cut(decided, " ")
	return fate, err
}

// fateOf returns the outcome of a migration here, and the threads that arrived with it.
func (p *Ports) fateOf(session, migration string) (fate string, threads []arrival) {
	text, ok := p.read(note{Kind: noteFate, Of: migration, Session: session})
	if !ok {
		return fateNone, nil
	}
	fate, list, _ := strings.Cut(text, " ")
	if err := json.Unmarshal([]byte(list), &threads); err != nil {
		panic("host: a note on a migration cannot be read: " + err.Error()) // it was written by decide
	}
	return fate, threads
}

// expect records that threads of a session are about to arrive here.
func (p *Ports) expect(ctx context.Context, session, migration string, threads []arrival) error {
	list, err := json.Marshal(threads)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		is, err := p.write(ctx, note{Kind: noteComing, Of: session, N: n}, migration+" "+string(list))
		if err != nil || strings.HasPrefix(is, migration+" ") {
			return err
		}
	}
}

// expected returns the n-th migration of a session to this host, and its threads.
func (p *Ports) expected(session string, n int) (migration string, threads []arrival, ok bool) {
	text, ok := p.read(note{Kind: noteComing, Of: session, N: n})
	if !ok {
		return "", nil, false
	}
	migration, list, _ := strings.Cut(text, " ")
	if err := json.Unmarshal([]byte(list), &threads); err != nil {
		panic("host: a note on a migration cannot be read: " + err.Error()) // it was written by expect
	}
	return migration, threads, true
}

// vacant returns an error if the session already exists here.
func (mg *Migrator) vacant(ctx context.Context, session string) error {
	if mg.threads == nil {
		return nil // the program refuses its calls when they are staged
	}
	if host, _ := mg.ports.placeOf(session); host != "" {
		return nil // the session comes back
	}
	st, err := mg.threads.Status(ctx, session)
	if err == nil && st.Session != nil && !st.Moved {
		return errors.New("it has a session of this name")
	}
	return unlessUnknown(err)
}

// relay handles an input of a call that the host it came from has forwarded.
func (mg *Migrator) relay(ctx context.Context, f *agentproto.Forwarded) error {
	if host, _ := mg.ports.placeOf(f.Key.GroupID); host != "" { // the thread has moved on
		_, err := mg.tellHost(ctx, host, &migrationMessage{Session: f.Key.GroupID, Relay: f})
		return err
	}
	if err := mg.sealRelayed(&f.Relayed); err != nil {
		return err
	}
	return mg.program.Relay(ctx, f)
}

// admit returns the ticket of a migration whose offer was accepted.
func (m *moves) admit(migration string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tickets) >= maxTickets {
		clear(m.tickets) // their sessions have to be offered again
	}
	ticket := rand.Text()
	m.tickets[migration] = ticket
	return ticket
}

// maxTickets is how many accepted offers without a session are remembered.
const maxTickets = 1024

func (m *moves) admitted(migration, ticket string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.tickets[migration]
	return ok && known == ticket
}
