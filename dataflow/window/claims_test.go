package window_test

import (
	"cmp"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/window"
)

// TestClaims has a wrong function and the correct one for each operator that takes a proof. It
// catches a check that mixes the spans of a key, and one that ignores merging.
func TestClaims(t *testing.T) {
	add := func(sum *int, other int) { *sum += other }
	digits := func(acc *int, p Payment) { *acc = *acc*10 + p.Cents }
	fold := func(step func(*int, Payment), shape window.Shape, payments ...Payment) func(Stream[Payment], *sim.Sim) []Payment {
		return func(xs Stream[Payment], s *sim.Sim) []Payment {
			events, _ := window.Stamp(xs, when, window.Disorder{Slack: time.Hour})
			closed, _ := window.FoldCommutative(dataflow.KeyBy(events, card), shape, zero, step, "it is claimed")
			perWindow(closed)
			return payments
		}
	}
	sessions := func(step func(*int, Payment), merge func(*int, int), payments ...Payment) func(Stream[Payment], *sim.Sim) []Payment {
		return func(xs Stream[Payment], s *sim.Sim) []Payment {
			events, _ := window.Stamp(xs, when, window.Disorder{Slack: time.Hour})
			closed, _ := window.Sessions(dataflow.KeyBy(events, card), 30*time.Second, zero, step, merge, "it is claimed")
			perWindow(closed)
			return payments
		}
	}
	sort := func(tie func(a, b Payment) int) func(Stream[Payment], *sim.Sim) []Payment {
		return func(xs Stream[Payment], s *sim.Sim) []Payment {
			es, _ := window.Stamp(xs, when, window.Disorder{})
			events(window.SortBy(es, tie, "it is claimed"))
			return []Payment{pay("gold", 1, 20), pay("blue", 1, 20)}
		}
	}
	minute := window.Every(time.Minute)
	tests := []struct {
		name  string
		build func(Stream[Payment], *sim.Sim) []Payment
		want  string
	}{
		{"FoldCommutative", fold(digits, minute, pay("gold", 1, 5), pay("gold", 2, 6)), "0: 12 and 21"},
		{"FoldCommutative of two keys", fold(digits, minute, pay("gold", 1, 5), pay("blue", 2, 6)), ""},
		{"FoldCommutative of two spans", fold(digits, minute, pay("gold", 1, 5), pay("gold", 2, 66)), ""},
		{"FoldCommutative of sliding spans", fold(digits, window.Sliding(time.Minute, 30*time.Second), pay("gold", 1, 5), pay("gold", 2, 66), pay("gold", 3, 35)), "0: 23 and 32"},
		{"FoldCommutative, right", fold(cents, window.Sliding(time.Minute, 30*time.Second), pay("gold", 1, 5), pay("gold", 2, 6), pay("gold", 3, 35)), ""},
		{"Sessions", sessions(digits, add, pay("gold", 1, 5), pay("gold", 2, 6)), "0: 12 and 21"},
		{"Sessions that merge", sessions(cents, func(into *int, other int) { *into = max(*into, other) }, pay("gold", 1, 0), pay("gold", 2, 50), pay("gold", 4, 25)), "5: 7 and 5"},
		{"Sessions, right", sessions(cents, add, pay("gold", 1, 0), pay("gold", 2, 50), pay("gold", 4, 25), pay("gold", 8, 26)), ""},
		{"SortBy", sort(func(a, b Payment) int { return cmp.Compare(a.Cents, b.Cents) }), "<nil>: <nil> and <nil>"},
		{"SortBy, right", sort(func(a, b Payment) int { return cmp.Compare(a.Card, b.Card) }), ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var broken *sim.ClaimError
			quiet := &unfailing{TB: t}
			sim.Replay(quiet, "0", func(s *sim.Sim) {
				in, xs := dataflow.Input[Payment](dataflow.At[Bank](s.Flow()), "payments")
				for _, p := range test.build(xs, s) {
					s.Check(in.Send(s.Context(), p))
				}
				in.Close()
				app := s.Start()
				defer func() { errors.As(app.Err(), &broken) }()
				s.Quiesce()
			})
			got := ""
			if broken != nil {
				got = fmt.Sprintf("%v: %v and %v", broken.State, broken.One, broken.Other)
			}
			if got != test.want || quiet.failed != (test.want != "") {
				t.Errorf("it shows %q, want %q, and fails: %v", got, test.want, quiet.failed)
			}
		})
	}
}

// unfailing is a test that records that it has failed.
type unfailing struct {
	testing.TB
	failed bool
}

func (u *unfailing) Fail() { u.failed = true }
