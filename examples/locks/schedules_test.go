package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
)

// An event is a notice, or that the time of a lease is over.
type event struct {
	notice
	over bool
}

// A witness sees the events of one lock in order and knows what must never happen.
type witness struct {
	*sim.Sim
	holder string // by the client's reckoning: until it released or its time is over
	at     lease
	over   map[lease]bool
	grants map[string]int
}

func (w *witness) see(e event) {
	switch e.Kind {
	case granted:
		if w.holder != "" {
			w.Errorf("%s is granted the lock while %s holds it", e.Client, w.holder)
		}
		if e.Token <= w.at.Token {
			w.Errorf("%s is granted token %d after %d", e.Client, e.Token, w.at.Token)
		}
		w.holder = e.Client
		w.grants[e.Client]++
	case expired:
		if !w.over[w.at] {
			w.Errorf("the lease of %s is ended before its time", e.Client)
		}
	}
	switch {
	case e.over:
		w.over[e.lease] = true
	case e.Kind == granted, e.Kind == renewed:
		w.at = e.lease
	}
	if e.Kind == released || w.over[w.at] {
		w.holder = ""
	}
}

// play builds the flow, lets clients ask for locks and, once they hold one, for what is
// planned for them: to renew or release it, or nothing, as if they had crashed. It goes
// on until nothing can happen any more.
func play(s *sim.Sim, locks, clients []string, plans map[string][]string) {
	at := dataflow.At[Keeper](s.Flow())
	port, requests := keyedstream.Input[string, request](at, "requests")
	notices := keep(at, requests)
	over := dataflow.Map(leaseEnds(notices), func(e dataflow.Entry[string, request]) dataflow.Entry[string, event] {
		return dataflow.Entry[string, event]{Key: e.Key, Value: event{notice{lease: e.Value.lease}, true}}
	})
	all := keyedstream.Merge(keyedstream.Map(notices, func(n notice) event { return event{notice: n} }), dataflow.Keyed(over))
	events := keyedstream.Output(keyedstream.AssumeOrder(all, "the witness knows which end of a lease belongs to which"), "events")
	s.Start()

	witnesses := make(map[string]*witness)
	for _, lock := range locks {
		witnesses[lock] = &witness{Sim: s, over: make(map[lease]bool), grants: make(map[string]int)}
		for i, client := range clients {
			r := request{Kind: acquire, Lock: lock, For: time.Duration(i+1) * time.Second}
			s.Check(port.Send(s.Context(), client, r))
		}
	}
	for {
		e, err := events.Next(s.Context())
		if err != nil {
			break // everything is quiet
		}
		witnesses[e.Key].see(e.Value)
		if e.Value.Kind != granted {
			continue
		}
		for _, kind := range plans[e.Value.Client] {
			r := request{Kind: kind, Lock: e.Key, For: 3 * time.Second, lease: e.Value.lease}
			s.Check(port.Send(s.Context(), e.Value.Client, r))
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
	if want := 195; n != want {
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
