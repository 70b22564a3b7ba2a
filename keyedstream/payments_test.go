package keyedstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
)

// A payment is made once, however often it is requested, and forgotten after a day. Calls to
// the bank are retried while it fails.
type payment struct {
	Cents, Tries int
}

type (
	bankAnswer struct {
		Number string
		Again  bool
	}
	payTurn = keyedstream.CallingTurn[string, string, string, int]
)

func (p *payment) ask(cents int, do *payTurn) {
	if p.Tries > 0 {
		if cents != p.Cents {
			do.Emit("another payment")
		}
		return
	}
	p.Cents = cents
	do.Emit(fmt.Sprint("begun at ", do.Now()))
	p.try(do)
}

func (p *payment) try(do *payTurn) {
	p.Tries++
	do.Call(p.Cents)
}

func (p *payment) again(_ keyedstream.Timer, do *payTurn) { p.try(do) }

func (p *payment) answered(_ int, z bankAnswer, do *payTurn) {
	if z.Again && p.Tries < 5 {
		do.After(first, time.Second<<p.Tries)
		return
	}
	do.Emit(fmt.Sprint("paid at ", do.Now()))
	do.Decide(z.Number)
	do.ForgetAfter(24 * time.Hour)
}

// TestPayments has the bank fail twice, with repeated requests in between, in every schedule.
// It checks that there is one receipt after three calls, and no second payment within a day.
func TestPayments(t *testing.T) {
	most := 0
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		in, requests := keyedstream.Input[string, int](dataflow.At[Shop](s.Flow()), "requests")
		var made []string
		told, _ := keyedstream.CallingMachine(requests, func() payment { return payment{} }, (*payment).ask, (*payment).again,
			keyedstream.Calling(func(_ context.Context, c keyedstream.Call[string, int]) bankAnswer {
				made = append(made, fmt.Sprint(c.Life, ".", c.Number))
				return bankAnswer{fmt.Sprint("no ", c.Number), c.Number < 3}
			}, (*payment).answered, keyedstream.CallOptions{}), "a request that comes in between is answered by the one receipt")
		out := keyedstream.Output(told, "told")
		s.Start()
		for _, cents := range []int{100, 100, 7} {
			s.Check(in.Send(s.Context(), "a", cents))
		}
		in.Close()
		var paid time.Duration
		receipts, lives := 0, 0
		for {
			e, err := out.Next(s.Context())
			if err != nil {
				break
			}
			what, at, _ := strings.Cut(e.Value, " at ")
			switch now, _ := time.ParseDuration(at); what {
			case "begun":
				if lives++; lives > 1 && now < paid+24*time.Hour {
					s.Errorf("a second payment begins at %v, and the first was made at %v", now, paid)
				}
			case "paid":
				receipts++
				paid = now
			}
		}
		if want := []string{"[1.1 1.2 1.3]", "[1.1 1.2 1.3 2.1 2.2 2.3]", "[1.1 1.2 1.3 2.1 2.2 2.3 3.1 3.2 3.3]"}[lives-1]; receipts != lives || fmt.Sprint(made) != want {
			s.Errorf("%d receipts, %d lives, calls %s", receipts, lives, made)
		}
		most = max(most, lives)
	})
	if want := 34; n != want || most != 3 {
		t.Errorf("%d schedules with up to %d payments, want %d", n, most, want)
	}
}
