package membership

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestScale checks the shares of members while the cluster grows from one to three and shrinks to
// one.
func TestScale(t *testing.T) {
	s := startServer(t)
	a, _ := join(t, s.ClientURL(), Options{ID: "a", Info: []byte("http://a")})
	if got := a.Owned(); len(got) != 32 {
		t.Fatalf("the only member owns %v when it has joined", got)
	}
	log := follow(a)
	_, next := log.wait(t, 0, "everything", owns(32))
	b, _ := join(t, s.ClientURL(), Options{ID: "b", Info: []byte("http://b")})
	agree(t, 32, a, b)
	c, _ := join(t, s.ClientURL(), Options{ID: "c"})
	agree(t, 32, a, b, c)
	for _, m := range []*Member{a, b, c} {
		var got []string
		for _, p := range m.Members() {
			if time.Since(p.Started).Abs() > time.Minute {
				t.Errorf("%s started at %v", p.ID, p.Started)
			}
			got = append(got, p.ID+string(p.Info))
		}
		if want := []string{"ahttp://a", "bhttp://b", "c"}; !slices.Equal(got, want) {
			t.Errorf("%s sees members %v, want %v", m.ID(), got, want)
		}
	}
	for _, m := range []*Member{c, b} {
		if a, err := m.Next(soon(t)); err != nil || len(a.Owned) == 0 {
			t.Errorf("the first assignment is %v, %v", a, err)
		}
		if err := m.Leave(soon(t)); err != nil {
			t.Fatal(err)
		}
		if got := m.Owned(); got != nil {
			t.Errorf("who has left owns %v", got)
		}
		if a, err := m.Next(soon(t)); err != nil || len(a.Owned) != 0 {
			t.Errorf("the last assignment of who has left is %v, %v", a, err)
		}
		if _, err := m.Next(soon(t)); !errors.Is(err, ErrLeft) {
			t.Errorf("after it: %v, want %v", err, ErrLeft)
		}
	}
	agree(t, 32, a)
	log.wait(t, next, "everything again", owns(32))
	if _, ok := a.Owner(32); ok {
		t.Error("a partition that does not exist has an owner")
	}
}

// TestLeaveIsQuick checks that Leave itself hands partitions over: the lease is a minute and there
// is no probe.
func TestLeaveIsQuick(t *testing.T) {
	s := startServer(t)
	o := Options{Lease: time.Minute, Probe: -1}
	a, _ := join(t, s.ClientURL(), o)
	b, _ := join(t, s.ClientURL(), o)
	agree(t, 32, a, b)
	log := follow(a)
	log.wait(t, 0, "a part", func(e entry) bool { return len(e.owned) < 32 })
	if err := b.Leave(soon(t)); err != nil {
		t.Fatal(err)
	}
	log.wait(t, 0, "everything", owns(32))
}

// TestProbe closes a connection abruptly. The lease is so long that only a probe can detect it.
func TestProbe(t *testing.T) {
	s := startServer(t)
	o := Options{Lease: time.Minute}
	a, _ := join(t, s.ClientURL(), o)
	b, nc := join(t, s.ClientURL(), o)
	agree(t, 32, a, b)
	until(t, "an answer", a.trusts(b.ID()))
	lost := follow(b)
	_, next := lost.wait(t, 0, "a part", func(e entry) bool { return len(e.owned) > 0 })
	nc.Close()
	agree(t, 32, a)
	_, next = lost.wait(t, next, "nothing", owns(0))
	lost.wait(t, next, "the reason", func(e entry) bool { return errors.Is(e.err, ErrClosed) })
	if n := a.Counters().Suspicions; n != 1 {
		t.Errorf("%d suspicions, want 1", n)
	}
}

// trusts reports whether a member has answered a probe, so that later silence makes it suspected.
func (m *Member) trusts(id string) func() bool {
	return func() bool {
		answer := make(chan bool, 1)
		m.do(func(v *view, _ time.Time) { answer <- v.peers[id] != nil && v.peers[id].answered })
		return <-answer
	}
}

// TestLease closes a connection abruptly without probes, so that only the end of the lease can
// detect it.
func TestLease(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := Options{Lease: time.Second, Probe: -1}
	a, _ := join(t, s.ClientURL(), o)
	b, nc := join(t, s.ClientURL(), o)
	agree(t, 32, a, b)
	until(t, "a renewal, which makes it another lease", func() bool { return b.Counters().Renewals > 0 })
	nc.Close()
	agree(t, 32, a)
	if n := a.Counters().Suspicions; n != 0 {
		t.Errorf("%d suspicions without a probe", n)
	}
}

// TestDeaf has a member that renews its lease and does not answer probes. It is suspected once and
// returns after two renewals. It is not suspected again, because only its connection to the
// probing member is broken.
func TestDeaf(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := Options{Lease: time.Second, Probe: 10 * time.Millisecond}
	a, _ := join(t, s.ClientURL(), o)
	b, _ := join(t, s.ClientURL(), o)
	agree(t, 32, a, b)
	until(t, "an answer", a.trusts(b.ID()))
	if err := b.subs[0].Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	until(t, "the suspicion", func() bool { return len(a.Owned()) == 32 })
	agree(t, 32, a, b)
	before := b.Counters().Renewals
	until(t, "some renewals", func() bool { return b.Counters().Renewals >= before+4 })
	if c := a.Counters(); c.Suspicions != 1 || c.Returns != 1 {
		t.Errorf("%d suspicions and %d returns, want 1 and 1", c.Suspicions, c.Returns)
	}
	agree(t, 32, a, b)
}

// TestAnswers sends forged answers to probes. Late answers, and answers for another connection, do
// not cause a suspicion.
func TestAnswers(t *testing.T) {
	s := startServer(t)
	o := Options{Lease: time.Minute, Probe: time.Hour}
	a, _ := join(t, s.ClientURL(), o)
	b, nc := join(t, s.ClientURL(), o)
	c, _ := join(t, s.ClientURL(), o)
	agree(t, 32, a, b, c)
	say := func(connection string, of *Member, answers ...string) {
		for _, answer := range answers {
			msg := nats.NewMsg(a.inbox + "." + connection + "." + of.ID())
			if answer == "nobody" {
				msg.Header.Set("Status", "503")
			} else {
				msg.Data = []byte(answer)
			}
			if err := nc.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	say("0", b, "yes")
	say("7", b, "nobody", "nobody", "nobody")
	say("0", b, "nobody", "yes", "nobody", "yes")
	say("0", c, "yes") // after all of the above
	until(t, "the last answer", a.trusts(c.ID()))
	if n := a.Counters().Suspicions; n != 0 {
		t.Errorf("%d suspicions, want none", n)
	}
	say("0", b, "nobody", "nobody")
	until(t, "the suspicion", func() bool { return a.Counters().Suspicions == 1 })
	until(t, "two members", func() bool { return len(a.Members()) == 2 })
}

// TestSuperseded joins a second time with the same ID, as a service does that restarts before the
// lease of its previous process has ended.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	first, _ := join(t, s.ClientURL(), Options{ID: "a"})
	log := follow(first)
	_, next := log.wait(t, 0, "everything", owns(32))
	second, _ := join(t, s.ClientURL(), Options{ID: "a"})
	_, next = log.wait(t, next, "nothing", owns(0))
	log.wait(t, next, "the reason", func(e entry) bool { return errors.Is(e.err, ErrSuperseded) })
	if err := first.Leave(soon(t)); err != nil {
		t.Error(err)
	}
	before := second.Counters().Renewals
	until(t, "a renewal", func() bool { return second.Counters().Renewals > before })
	agree(t, 32, second)
}

// TestPurged purges the lease of a living member, as an administrator may do.
func TestPurged(t *testing.T) {
	s := startServer(t)
	a, nc := join(t, s.ClientURL(), Options{ID: "a", Lease: time.Hour})
	log := follow(a)
	log.wait(t, 0, "everything", owns(32))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(soon(t), "MEMBERS_app")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Purge(soon(t), "m.a"); err != nil {
		t.Fatal(err)
	}
	until(t, "the lapse", func() bool { return a.Counters().Lapses == 1 })
	until(t, "everything again", func() bool { return len(a.Owned()) == 32 }) // a follower may miss the moment in between
	agree(t, 32, a)
}

// TestErrors checks the errors of Join.
func TestErrors(t *testing.T) {
	s := startServer(t)
	nc := connect(t, s.ClientURL())
	join(t, s.ClientURL(), Options{Name: "taken", Partitions: 8})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(soon(t), jetstream.KeyValueConfig{Bucket: "MEMBERS_plain"}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		o    Options
		is   error
		says string
	}{
		{"no name", Options{Partitions: 8}, ErrOptions, "Name"},
		{"dots", Options{Name: "a.b", Partitions: 8}, ErrOptions, "Name"},
		{"wildcard", Options{Name: "a", ID: "*", Partitions: 8}, ErrOptions, "ID"},
		{"no partitions", Options{Name: "a"}, ErrOptions, "Partitions"},
		{"short lease", Options{Name: "a", Partitions: 8, Lease: time.Second / 2}, ErrOptions, "Lease"},
		{"long info", Options{Name: "a", Partitions: 8, Info: bytes.Repeat([]byte("x"), MaxInfo+1)}, ErrOptions, "Info"},
		{"many replicas", Options{Name: "a", Partitions: 8, Replicas: 6}, ErrOptions, "Replicas"},
		{"no cluster", Options{Name: "a", Partitions: 8, Replicas: 3}, nil, "replicas > 1 not supported in non-clustered mode"},
		{"other partitions", Options{Name: "taken", Partitions: 9}, ErrBucket, "8 partitions, not 9"},
		{"other replicas", Options{Name: "taken", Partitions: 8, Replicas: 3}, ErrBucket, "1 replicas, not 3"},
		{"no time to live", Options{Name: "plain", Partitions: 8}, ErrBucket, "no time to live"},
	} {
		m, err := Join(soon(t), nc, test.o)
		if err == nil {
			_ = m.Leave(soon(t))
		}
		if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %v with %q", test.name, err, test.is, test.says)
		}
	}
	if _, err := Join(soon(t), nil, Options{Name: "a", Partitions: 1}); !errors.Is(err, ErrOptions) {
		t.Errorf("no connection: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Join(ctx, nc, Options{Name: "a", Partitions: 8}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}
