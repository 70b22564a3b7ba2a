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

// A Member is one of the processes that share the partitions of an application. Any number of goroutines may
// call its methods, except that only one may call Next: each change is returned once.
type Member struct {
	options  Options
	nc       *nats.Conn
	js       jetstream.JetStream
	inbox    string // prefix of the subjects for answers to probes
	counters counters

	events     chan func(*view, time.Time)
	leaving    atomic.Bool
	done       chan struct{}      // closed when the loop has ended
	cancel     context.CancelFunc // ends all goroutines
	goroutines sync.WaitGroup
	subs       []*nats.Subscription
	kv         jetstream.KeyValue
	leave      sync.Once
	left       error // the result of Leave

	mu      sync.Mutex
	changed chan struct{} // closed when shared changes in a way that someone waits for
	shared  shared
	refuses Refusals // of this member; the sets are replaced, never modified
	refused uint64   // counts changes of refuses
	loop    *loop    // used by its own goroutine only

	cancelWatch context.CancelFunc // restarts the watch

	assigned bool // Next has returned an assignment
	last     []int
}

// shared is what the loop publishes.
type shared struct {
	owners []string // by partition; nil without members
	peers  []Peer
	owned  []int
	until  time.Time // owned is void from then on
	joined bool
	end    error
}

// A Peer is a member as seen by others.
type Peer struct {
	ID      string
	Info    []byte // from its options; must not be changed
	Started time.Time
	Refusals
}

// An Assignment is the partitions that a member owns.
type Assignment struct {
	Owned []int // partitions, in order; must not be changed
}

// Join makes this process a member, and returns when it owns its share of the partitions. The context limits
// joining only: the process stays a member until [Member.Leave], or until the connection is closed. Join needs
// a server with JetStream and per-message times to live: version 2.11 or later.
//
// The connection should reconnect forever (nats.MaxReconnects(-1)), and within the duration of a lease. The
// member does not close it, and others may use it.
//
// Errors are [ErrOptions], [ErrBucket], [ErrSuperseded], [ErrClosed], and errors of the server or of ctx.
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

// start listens to probes before others can know of this member, writes the first lease, and waits until the
// watch shows it.
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
		listen(m.alive(m.options.ID), func(msg *nats.Msg) { _ = msg.Respond([]byte("yes")) }), // without an answer, this member is suspected
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

// do passes f to the loop, unless that has ended.
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

// alive returns the subject of probes of a member.
func (m *Member) alive(id string) string { return m.options.Name + ".alive." + id }

// retry is the pause after a failure, and patience how long to wait for an answer that should come at once.
// Both are short even if the lease is long.
func (m *Member) retry() time.Duration    { return min(m.options.Lease/12, 250*time.Millisecond) }
func (m *Member) patience() time.Duration { return min(m.options.Lease/3, time.Second) }

// ID returns the ID of this member.
func (m *Member) ID() string { return m.options.ID }

// Next waits until what this member owns differs from what Next returned last, and returns it. It returns the
// newest assignment: changes in between are skipped, even that a partition was lost and came back, which only
// its fence shows. Only one goroutine may call it.
//
// After [Member.Leave], or when the member has ended for another reason, Next returns an empty assignment if
// the last one was not empty, and then [ErrLeft], [ErrSuperseded] or [ErrClosed].
func (m *Member) Next(ctx context.Context) (Assignment, error) {
	for {
		m.mu.Lock()
		changed, end, owned := m.changed, m.shared.end, m.shared.now()
		if !m.assigned && end == nil || !slices.Equal(owned, m.last) {
			m.assigned, m.last = true, owned
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

// now returns what is owned at the current time.
func (s *shared) now() []int {
	if !time.Now().Before(s.until) {
		return nil
	}
	return s.owned
}

// Owned returns the partitions that this member owns now, in order. In a process that was stopped and continues
// after its lease has ended, it correctly returns none.
func (m *Member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shared.now())
}

// Owner returns the owner of a partition as this member sees it, and false if it sees none. The answer may be
// as old as a lease if the member cannot reach the server.
func (m *Member) Owner(partition int) (id string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if partition < 0 || partition >= len(m.shared.owners) {
		return "", false
	}
	return m.shared.owners[partition], true
}

// Members returns the live members as this member sees them, in the order of their IDs: without those that it
// suspects, and without itself while its lease is over.
func (m *Member) Members() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.shared.peers)
}

// Leave gives the lease back, so that others take over at once, and returns when the server has deleted it.
// From the call on this member owns nothing; finish work first to spare others a wait. An error means that
// others notice only when the lease ends. Only the first call has an effect; later calls return when it is
// done.
func (m *Member) Leave(ctx context.Context) error {
	m.leave.Do(func() {
		m.leaving.Store(true)
		m.do(func(*view, time.Time) {})
		// A renewal in flight must be over first, or it would come after the purge.
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

// end publishes that this member has ended, if the loop did not.
func (m *Member) end(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shared.end == nil {
		m.shared = shared{end: why}
		close(m.changed)
		m.changed = make(chan struct{})
	}
}
