package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/sim"
)

// A witness receives the notices of one lock in order and checks the invariants.
type witness struct {
	*sim.Sim
	holder string        // as far as the client knows: until it releases the lock or its lease ends
	token  token         // of the last grant
	until  time.Duration // the end of the holder's lease
	grants map[string]int
}

func (w *witness) see(n notice) {
	if n.At >= w.until {
		w.holder = "" // the client knows how long its lease is
	}
	switch n.Kind {
	case granted:
		if w.holder != "" {
			w.Errorf("%s is granted the lock while %s holds it", n.Client, w.holder)
		}
		if n.Token <= w.token {
			w.Errorf("%s is granted token %d after %d", n.Client, n.Token, w.token)
		}
		w.holder, w.token, w.until = n.Client, n.Token, n.At+n.For
		w.grants[n.Client]++
	case renewed: // perhaps late, if the timer has not fired yet
		if n.Token != w.token {
			w.Errorf("the lease with token %d is renewed, and %d was granted", n.Token, w.token)
		}
		w.holder, w.until = n.Client, n.At+n.For
	case expired:
		if n.At != w.until || n.Token != w.token {
			w.Errorf("the lease of %s with token %d is ended at %v, that with token %d ends at %v", n.Client, n.Token, n.At, w.token, w.until)
		}
	case released:
		w.holder = ""
	}
}

// play builds the flow and lets clients ask for locks. A client that holds a lock carries out its
// plan: it renews or releases the lock, or does nothing, as if it had crashed. play ends when
// nothing can happen.
func play(s *sim.Sim, locks, clients []string, plans map[string][]string) {
	k := newKeeper(s.Flow())
	s.Start()

	witnesses := make(map[string]*witness)
	for _, lock := range locks {
		witnesses[lock] = &witness{Sim: s, grants: make(map[string]int)}
		for i, client := range clients {
			r := request{Kind: acquire, Lock: lock, For: time.Duration(i+1) * time.Second}
			s.Check(k.requests.Send(s.Context(), client, r))
		}
	}
	for {
		e, err := k.notices.Next(s.Context())
		if err != nil {
			break // nothing can happen
		}
		witnesses[e.Key].see(e.Value)
		if e.Value.Kind != granted {
			continue
		}
		for _, kind := range plans[e.Value.Client] {
			r := request{Kind: kind, Lock: e.Key, For: 3 * time.Second, Token: e.Value.Token}
			s.Check(k.requests.Send(s.Context(), e.Value.Client, r))
		}
	}
	for _, lock := range locks {
		for _, client := range clients {
			if n := witnesses[lock].grants[client]; n != 1 {
				s.Errorf("%s was granted to %s %d times", lock, client, n)
			}
		}
	}
}

// TestEverySchedule has two clients that want a lock. One of them renews and releases it, if its
// lease has not ended. The other has crashed by the time it is granted the lock.
func TestEverySchedule(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		play(s, []string{"l"}, []string{"ann", "bob"}, map[string][]string{"ann": {renew, release}})
	})
	if want := 25; n != want {
		t.Errorf("%d schedules, want %d", n, want)
	}
}

// TestManySchedules runs some of the schedules of three clients and two locks.
func TestManySchedules(t *testing.T) {
	plans := map[string][]string{"ann": {renew, release}, "bob": {release}, "cid": {renew, renew}}
	n := sim.Random(t, 2000, func(s *sim.Sim) { play(s, []string{"l", "m"}, []string{"ann", "bob", "cid"}, plans) })
	if n < 1000 {
		t.Errorf("only %d of 2000 schedules are different ones", n)
	}
}
