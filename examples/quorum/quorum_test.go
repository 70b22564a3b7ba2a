package main

import (
	"io"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// TestVerdicts checks what groups of replicas decide, and when they have not decided yet.
func TestVerdicts(t *testing.T) {
	const yes, no = true, false
	tests := []struct {
		replicas int
		votes    []bool // of one replica after another
		want     string // empty if undecided
	}{
		{1, []bool{yes}, "passed"},
		{1, []bool{no}, "rejected"},
		{3, []bool{yes, no, yes}, "passed"},
		{3, []bool{no, no, yes}, "rejected"},
		{3, []bool{no, yes}, ""},
		{4, []bool{yes, yes, no, no}, "rejected"}, // there is no majority for it
		{4, []bool{yes, yes, yes, no}, "passed"},
		{4, []bool{yes, yes}, ""},
	}
	for _, test := range tests {
		flow := dataflow.New()
		q := newQuorum(flow, test.replicas)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		for i, vote := range test.votes {
			if err := q.ballots.Send(t.Context(), string(rune('a'+i)), ballot{"r", vote}); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := q.verdicts.Await(t.Context(), "r")
		if got != test.want || (test.want == "") != (err == io.EOF) {
			t.Errorf("%d replicas vote %v: got %q, %v, want %q", test.replicas, test.votes, got, err, test.want)
		}
	}
}

// TestEverySchedule lets the votes on two requests arrive in every order, some of them twice.
// Each request has the same verdict in every schedule.
func TestEverySchedule(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		q := newQuorum(s.Flow(), 3)
		s.Start()
		for _, b := range []struct {
			replica string
			ballot
		}{
			{"berlin", ballot{"a", true}},
			{"berlin", ballot{"b", false}},
			{"lisbon", ballot{"a", false}},
			{"lisbon", ballot{"a", false}},
			{"oslo", ballot{"a", true}},
			{"oslo", ballot{"b", false}},
			{"oslo", ballot{"a", true}},
		} {
			s.Check(q.ballots.Send(s.Context(), b.replica, b.ballot))
		}
		for _, want := range []struct{ request, verdict string }{{"a", "passed"}, {"b", "rejected"}} {
			if got, err := q.verdicts.Await(s.Context(), want.request); got != want.verdict || err != nil {
				s.Errorf("%s is %s, %v, and should be %s", want.request, got, err, want.verdict)
			}
		}
	})
	// The three votes on a have 6 orders, and the two votes on b have 2. Repeated votes have no
	// effect and add no schedules.
	if want := 12; n != want {
		t.Errorf("%d schedules, want %d", n, want)
	}
}
