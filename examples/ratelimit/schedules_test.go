package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// play lets clients make requests that may race with the ends of their windows. Each request is
// answered once. It passes if fewer requests than the limit passed in the window that ends with it.
func play(s *sim.Sim, r rule, clients string, each int) {
	at := dataflow.At[Gate](s.Flow())
	pause(s, at, r.Window*3/5)
	port, asked := keyedstream.Input[string, string](at, "requests")
	told := limit(asked, r)
	seen := keyedstream.Output(told, "seen")
	s.Start()

	var ids []string
	for _, client := range strings.Fields(clients) {
		for i := range each {
			id := fmt.Sprint(client, "/", i)
			ids = append(ids, id)
			s.Check(port.Send(s.Context(), client, id))
		}
	}
	passed := make(map[string][]time.Duration)
	answers := make(map[string]int)
	inUse := make(map[string]int)
	for _, e := range sim.Collect(s, seen) {
		client, n := e.Key, e.Value
		if inUse[client] += n.inUse(); inUse[client] < 0 || inUse[client] > r.Limit {
			s.Errorf("%d permits of %s are in use", inUse[client], client)
		}
		if n.Back > 0 {
			continue
		}
		answers[n.Request]++
		recent := 0
		for _, at := range passed[client] {
			if n.At-at < r.Window {
				recent++
			}
		}
		if want := recent < r.Limit; n.Passed != want {
			s.Errorf("%s comes after %d in its window; passes: %v", n.Request, recent, n.Passed)
		}
		if n.Passed {
			passed[client] = append(passed[client], n.At)
		}
	}
	for _, id := range ids {
		if answers[id] != 1 {
			s.Errorf("%s has %d answers", id, answers[id])
		}
	}
	for client, n := range inUse {
		if n != 0 {
			s.Errorf("%d permits of %s are in use when all windows are over", n, client)
		}
	}
}

// pause sets a timer, of which only the firing matters. A simulation lets time pass only where
// this changes which timer fires first. The limiter has one timer, and compares times itself.
// Without the pause, all windows would begin at the start or when another one ends, and no two
// would overlap.
func pause(s *sim.Sim, at Gate, d time.Duration) {
	begin, begun := keyedsingleton.Input[string, bool](at, "pause")
	keyedsingleton.After(begun, d, "somewhere within a window")
	s.Check(begin.Put(s.Context(), "pause", true))
	begin.Close()
}

// TestEverySchedule runs a client that makes six requests, with a limit of two in a window.
func TestEverySchedule(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) { play(s, rule{Limit: 2, Window: time.Second}, "ann", 6) })
	if want := 126; n != want {
		t.Errorf("%d schedules, want %d", n, want)
	}
}

// TestManySchedules runs some of the schedules of two clients that make eight requests each.
func TestManySchedules(t *testing.T) {
	n := sim.Random(t, 2000, func(s *sim.Sim) { play(s, rule{Limit: 2, Window: time.Second}, "ann bob", 8) })
	if n < 1000 {
		t.Errorf("only %d of 2000 schedules are different ones", n)
	}
}
