package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/sim"
)

// A witness sees the notices of one lock in order and knows what must never happen.
type witness struct {
	*sim.Sim
	holder string        // by the client's reckoning: until it released or its time is over
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
	case renewed: // perhaps late, if the timer has yet to ring
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

// play builds the flow, lets clients ask for locks and, once they hold one, for what is
// planned for them: to renew or release it, or nothing, as if they had crashed. It goes
// on until nothing can happen any more.
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
			break // everything is quiet
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

// TestEverySchedule has two clients want a lock. One of them renews and releases it, as
// far as its lease lets it, and the other has crashed when it is granted.
func TestEverySchedule(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		play(s, []string{"l"}, []string{"ann", "bob"}, map[string][]string{"ann": {renew, release}})
	})
	if want := 25; n != want {
		t.Errorf("%d schedules, want %d", n, want)
	}
}

// TestManySchedules tries some of the schedules of three clients and two locks.
func TestManySchedules(t *testing.T) {
	plans := map[string][]string{"ann": {renew, release}, "bob": {release}, "cid": {renew, renew}}
	n := sim.Random(t, 2000, func(s *sim.Sim) { play(s, []string{"l", "m"}, []string{"ann", "bob", "cid"}, plans) })
	if n < 1000 {
		t.Errorf("only %d of 2000 schedules are different ones", n)
	}
}
