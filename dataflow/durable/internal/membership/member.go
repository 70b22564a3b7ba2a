package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Member is one of those who share the partitions of an application. Its methods may be
// called by any number of goroutines, except that Next is for one: each change is returned once.
type Member struct {
	options  Options
	nc       *nats.Conn
	js       jetstream.JetStream
	inbox    string // where answers to probes go
	counters counters

	events     chan func(*view, time.Time)
	leaving    atomic.Bool
	done       chan struct{}      // the loop has ended
	cancel     context.CancelFunc // ends all goroutines
	goroutines sync.WaitGroup
	subs       []*nats.Subscription
	kv         jetstream.KeyValue
	leave      sync.Once
	left       error // what Leave returns

	mu      sync.Mutex
	changed chan struct{} // closed when shared changes in a way that somebody waits for
	shared  shared
	refuses Refusals // by this member; its sets are never changed in place
	refused uint64   // changes of it
	loop    *loop    // its goroutine alone uses it

	cancelWatch context.CancelFunc // makes the watch begin anew

	told bool // Next has returned something
	last []int
}

// shared is what the loop shows.
type shared struct {
	owners []string // by partition; nil without members
	peers  []Peer
	owned  []int
	until  time.Time // owned is void from then on
	joined bool
	end    error
}

// A Peer is a member as others see it.
type Peer struct {
	ID      string
	Info    []byte // what it gave in its options; not to be changed
	Started time.Time
	Refusals
}

// An Assignment is what a member owns.
type Assignment struct {
	Owned []int // partitions, in order; not to be changed
}

// Join makes this process a member, and returns when it owns its part of the
// partitions. The context limits joining only: the member is one until [Member.Leave], or
// until its connection is closed. It needs a server with JetStream and per-message times to
// live, 2.11 or later.
//
// The connection should reconnect for ever (nats.MaxReconnects(-1)) and soon, within a
// lease. It is not closed by the member, and others may use it.
//
// Errors are [ErrOptions], [ErrBucket], [ErrSuperseded], [ErrClosed], and what the server or
// the context said.
func Join(ctx context.Context, nc *nats.Conn, o Options) (*Member, error) {
	o, err := o.withDefaults(nc)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	running, cancel := context.WithCancel(context.Background())
	m := &Member{
		options: o, nc: nc, js: js, inbox: nc.NewInbox(),
		events: make(chan func(*view, time.Time), 64),
		done:   make(chan struct{}), cancel: cancel, changed: make(chan struct{}), cancelWatch: func() {},
	}
	if err := m.start(ctx, running); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

// start listens to probes before others can know of this member, writes the first lease,
// and waits until the watch shows it.
func (m *Member) start(ctx, running context.Context) error {
	l := &loop{Member: m, again: make(map[string]time.Time), renewal: 1}
	m.loop = l
	listen := func(subject string, f nats.MsgHandler) error {
		sub, err := m.nc.Subscribe(subject, f)
		if err == nil {
			m.subs = append(m.subs, sub)
		}
		return err
	}
	err := errors.Join(
		listen(m.alive(m.options.ID), func(msg *nats.Msg) { _ = msg.Respond([]byte("yes")) }), // or be suspected
		listen(m.inbox+".*.*", l.answered),
	)
	if err != nil {
		return fmt.Errorf("membership: %w", err)
	}
	kv, err := m.bucket(ctx)
	if err != nil {
		return err
	}
	started, sent, err := m.register(ctx, kv)
	if err != nil {
		return err
	}
	m.kv = kv
	l.view = newView(m.options.ID, started, m.options.Partitions, m.options.Lease)
	l.view.renewing(1, sent)
	l.renewAt = sent.Add(m.options.Lease / 3)
	m.goroutines.Go(func() {
		l.run(running)
		close(m.done)
		m.cancel()
	})
	m.goroutines.Go(func() { m.follow(running) })
	for {
		m.mu.Lock()
		changed, now := m.changed, m.shared
		m.mu.Unlock()
		if now.joined || now.end != nil {
			return now.end
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("membership: join: %w", ctx.Err())
		}
	}
}

// do hands f to the loop, unless it has ended.
func (m *Member) do(f func(*view, time.Time)) {
	select {
	case m.events <- f:
	case <-m.done:
	}
}

// stop ends all goroutines.
func (m *Member) stop() {
	m.cancel()
	m.goroutines.Wait()
	for _, sub := range m.subs {
		_ = sub.Unsubscribe() // fails only if the connection is closed
	}
}

// alive is the subject of probes of a member.
func (m *Member) alive(id string) string { return m.options.Name + ".alive." + id }

// retry is how long to wait after a failure, and patience how long for an answer that
// should be there at once. A long lease is no reason to wait long.
func (m *Member) retry() time.Duration    { return min(m.options.Lease/12, 250*time.Millisecond) }
func (m *Member) patience() time.Duration { return min(m.options.Lease/3, time.Second) }

// ID returns the member's own.
func (m *Member) ID() string { return m.options.ID }

// Next returns what this member owns now if that is not what Next returned last, and
// else waits until it is not. It returns the newest: changes in between are skipped, also
// that a partition was lost and came back, which only its fence tells. It is for one
// goroutine. After [Member.Leave], or when the member is none any more for another reason,
// it returns an empty assignment if the last one was not, and then [ErrLeft],
// [ErrSuperseded] or [ErrClosed].
func (m *Member) Next(ctx context.Context) (Assignment, error) {
	for {
		m.mu.Lock()
		changed, end, owned := m.changed, m.shared.end, m.shared.now()
		if !m.told && end == nil || !slices.Equal(owned, m.last) {
			m.told, m.last = true, owned
			m.mu.Unlock()
			return Assignment{Owned: owned}, nil
		}
		m.mu.Unlock()
		if end != nil {
			return Assignment{}, end
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Assignment{}, ctx.Err()
		}
	}
}

// now returns what is owned, looking at the clock.
func (s *shared) now() []int {
	if !time.Now().Before(s.until) {
		return nil
	}
	return s.owned
}

// Owned returns the partitions this member owns now, in order. It is right also in a
// process that was stopped and goes on after its lease has ended: nothing.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shared.now())
}

// Owner returns who owns a partition as this member sees it, and false if it sees
// nobody. The answer may be a lease old if the member cannot reach the server.
func (m *Member) Owner(partition int) (id string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if partition < 0 || partition >= len(m.shared.owners) {
		return "", false
	}
	return m.shared.owners[partition], true
}

// Members returns the members that count as this member sees it, in the order of their
// IDs: without those it suspects, and without itself while its lease is over.
func (m *Member) Members() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shared.peers)
}

// Leave gives the lease back, so that others take over at once, and returns when the
// server has it. From its call on this member owns nothing; one that finishes its work first
// spares others a wait. An error means that others will know when the lease ends. Only the
// first call does something; others return when it is done.
func (m *Member) Leave(ctx context.Context) error {
	m.leave.Do(func() {
		m.leaving.Store(true)
		m.do(func(*view, time.Time) {})
		// A renewal under way has to be over, or it would come after the purge.
		select {
		case <-m.done:
		case <-ctx.Done():
			m.cancel()
			<-m.done
			m.end(ErrLeft)
		}
		if errors.Is(m.shared.end, ErrLeft) {
			if err := m.kv.Purge(ctx, leasePrefix+m.options.ID, jetstream.PurgeTTL(markerTTL)); err != nil {
				m.left = fmt.Errorf("membership: leave: %w", err)
			}
		}
		m.stop()
	})
	return m.left
}

// end shows that the member is none any more, when the loop did not.
func (m *Member) end(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shared.end == nil {
		m.shared = shared{end: why}
		close(m.changed)
		m.changed = make(chan struct{})
	}
}
