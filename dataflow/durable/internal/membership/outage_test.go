package membership

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestRestart restarts the server before a lease ends. No lease ends, and nobody suspects
// a member that has not reconnected yet.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a, _ := join(t, s.ClientURL(), Options{Lease: time.Minute})
	b, _ := join(t, s.ClientURL(), Options{Lease: time.Minute})
	agree(t, 32, a, b)
	until(t, "answers", func() bool { return a.trusts(b.ID())() && b.trusts(a.ID())() })
	before := map[*Member]uint64{a: a.Counters().Renewals, b: b.Counters().Renewals}
	s.stop()
	s.start()
	for _, m := range []*Member{a, b} {
		until(t, "a renewal", func() bool { return m.Counters().Renewals > before[m] })
		until(t, "a new watch", func() bool { return m.Counters().Watches > 0 })
	}
	agree(t, 32, a, b)
	c, _ := join(t, s.ClientURL(), Options{Lease: time.Minute}) // the watches work
	agree(t, 32, a, b, c)
	for _, m := range []*Member{a, b} {
		if c := m.Counters(); c.Lapses != 0 || c.Suspicions != 0 {
			t.Errorf("%d lapses and %d suspicions, want none", c.Lapses, c.Suspicions)
		}
	}
}

// TestOutage stops the server for longer than a lease, so every member is told that it
// owns nothing. The server comes back with or without its files.
func TestOutage(t *testing.T) {
	for _, files := range []string{"kept", "lost"} {
		t.Run("files="+files, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			a, _ := join(t, s.ClientURL(), Options{ID: "a", Lease: time.Second})
			b, _ := join(t, s.ClientURL(), Options{ID: "b", Lease: time.Second})
			agree(t, 32, a, b)
			logs := []*log{follow(a), follow(b)}
			var next [2]int
			for i, l := range logs {
				_, next[i] = l.wait(t, 0, "a part", func(e entry) bool { return len(e.owned) > 0 && len(e.owned) < 32 })
			}
			s.stop()
			for i, l := range logs {
				_, next[i] = l.wait(t, next[i], "nothing", owns(0))
			}
			for _, m := range []*Member{a, b} {
				if got := m.Owned(); got != nil {
					t.Errorf("%s owns %v without a server", m.ID(), got)
				}
			}
			if files == "lost" {
				s.opts.StoreDir = t.TempDir()
			}
			s.start()
			for i, l := range logs {
				l.wait(t, next[i], "a part again", func(e entry) bool { return len(e.owned) > 0 })
			}
			agree(t, 32, a, b)
			for _, m := range []*Member{a, b} {
				if c := m.Counters(); c.Lapses == 0 || c.FailedRenewals == 0 {
					t.Errorf("%s: %d lapses and %d failed renewals", m.ID(), c.Lapses, c.FailedRenewals)
				}
			}
		})
	}
}

// TestStuckWatch deletes the consumers behind the watches. The client would notice after
// ten seconds. The members notice before their leases end.
func TestStuckWatch(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a, nc := join(t, s.ClientURL(), Options{Lease: 6 * time.Second})
	b, _ := join(t, s.ClientURL(), Options{Lease: 6 * time.Second})
	agree(t, 32, a, b)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(soon(t), "KV_MEMBERS_app")
	if err != nil {
		t.Fatal(err)
	}
	deleted := 0
	for name := range stream.ConsumerNames(soon(t)).Name() {
		if err := stream.DeleteConsumer(soon(t), name); err != nil {
			t.Fatal(err)
		}
		deleted++
	}
	if deleted != 2 {
		t.Errorf("deleted %d consumers, want 2", deleted)
	}
	for _, m := range []*Member{a, b} {
		until(t, "a new watch", func() bool { return m.Counters().Watches > 0 })
	}
	c, _ := join(t, s.ClientURL(), Options{Lease: 6 * time.Second})
	agree(t, 32, a, b, c)
	for _, m := range []*Member{a, b} {
		if n := m.Counters().Lapses; n != 0 {
			t.Errorf("%d lapses", n)
		}
	}
}

// TestFrozen blocks the member's own goroutine for longer than a lease. Owned checks the
// clock, so it returns nothing although that goroutine does not run.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a, _ := join(t, s.ClientURL(), Options{Lease: time.Second})
	release := make(chan struct{})
	held := make(chan struct{})
	go a.do(func(*view, time.Time) { close(held); <-release })
	<-held
	before := a.Counters().Lapses
	until(t, "the clock", func() bool { return len(a.Owned()) == 0 })
	if n := a.Counters().Lapses - before; n != 0 {
		t.Errorf("%d lapses were noticed by a goroutine that is held", n)
	}
	close(release)
	agree(t, 32, a)
}
