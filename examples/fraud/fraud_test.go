package main

import (
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/sim"
)

// TestRun reads payments that are nearly in order, including one whose clock is wrong by a year
// and one that is too late.
func TestRun(t *testing.T) {
	payments, err := os.Open("testdata/payments.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer payments.Close()
	var alerts, late strings.Builder
	if err := run(t.Context(), payments, &alerts, &late); err != nil {
		t.Fatal(err)
	}
	const wantAlerts = `{"card":"gold","time":"2026-11-01T12:00:40Z","payments":3,"cents":110000}
{"card":"gold","time":"2026-11-01T12:01:01Z","payments":3,"cents":120000}
`
	if alerts.String() != wantAlerts {
		t.Errorf("the alerts are\n%swant\n%s", alerts.String(), wantAlerts)
	}
	if got := late.String(); got != "too late: blue paid 900000 at 2026-11-01T12:00:20Z\n" {
		t.Errorf("late is %q", got)
	}
}

// TestSchedules sends payments that are out of order by less than the slack. There is one
// schedule, and its alerts are those of the sorted payments.
func TestSchedules(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var all []Payment
		for i := range 30 {
			at := start.Add(time.Duration(2*i)*time.Second - time.Duration(rng.Int64N(int64(time.Second))))
			all = append(all, Payment{[]string{"gold", "blue"}[rng.IntN(2)], rng.Int64N(limit / 6), at})
		}
		sent := slices.Clone(all)
		for i := 0; i+1 < len(sent); i += 2 + rng.IntN(2) {
			sent[i], sent[i+1] = sent[i+1], sent[i]
		}
		n := sim.Exhaustive(t, func(s *sim.Sim) {
			ports := build(s.Flow())
			s.Start()
			for _, p := range sent {
				s.Check(ports.Payments.Send(s.Context(), p))
			}
			ports.Payments.Close()
			got := sim.Collect(s, ports.Alerts)
			want := byHand(all)
			if len(got) != len(want) {
				s.Fatalf("seed %d: there are %d alerts, want %d", seed, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					s.Errorf("seed %d: alert %d is %v, want %v", seed, i, got[i], want[i])
				}
			}
			if late := sim.Collect(s, ports.Late); len(late) > 0 {
				s.Errorf("seed %d: %v are late", seed, late)
			}
		})
		if n != 1 {
			t.Errorf("seed %d: there are %d schedules", seed, n)
		}
	}
}

// byHand computes the alerts by comparing each payment with all others. The payments are in order.
func byHand(all []Payment) (alerts []Alert) {
	for _, p := range all {
		a := Alert{Card: p.Card, Time: p.Time}
		for _, q := range all {
			if q.Card == p.Card && !q.Time.After(p.Time) && q.Time.After(p.Time.Add(-time.Minute)) {
				a.Payments++
				a.Cents += q.Cents
			}
		}
		if a.Cents > limit {
			alerts = append(alerts, a)
		}
	}
	return alerts
}
