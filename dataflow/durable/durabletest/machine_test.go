package durabletest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type tillPorts struct {
	requests *dataflow.KeyedInputPort[string, int]
	receipts *dataflow.EntryOutputPort[string, string]
	ended    *dataflow.EntryOutputPort[string, string]
}

// A till is the state of a payment whose bank fails at first.
type till struct {
	Cents, Asked int
	Answers      []string
}

type tillTurn = keyedstream.CallingTurn[string, string, struct{}, int]

const retry keyedstream.Timer = 7

func (p *till) ask(cents int, do *tillTurn) {
	if p.Asked++; p.Asked == 1 {
		p.Cents = cents
		do.Call(cents)
	}
}

func (p *till) again(_ keyedstream.Timer, do *tillTurn) {
	if len(p.Answers) == 2 {
		do.Emit(fmt.Sprint("ended ", do.Now() > 0))
		do.Forget()
		return
	}
	do.Call(p.Cents + 1)
}

func (p *till) answered(q int, number string, do *tillTurn) {
	p.Answers = append(p.Answers, fmt.Sprint(q, " ", number))
	do.After(retry, time.Minute)
	if len(p.Answers) == 2 {
		do.Emit(fmt.Sprint(p.Answers))
	}
}

// TestMachineSurvives crashes a machine that calls, waits, calls again and forgets, at every
// moment. It does each of these once, and a repeated call has the same name.
func TestMachineSurvives(t *testing.T) {
	var mu sync.Mutex
	made := make(map[keyedstream.Call[string, int]]int)
	bank := func(_ context.Context, c keyedstream.Call[string, int]) string {
		mu.Lock()
		defer mu.Unlock()
		made[c]++
		return fmt.Sprint("number ", c.Number)
	}
	runs := Crash(t, Program[tillPorts]{
		Build: func(flow *dataflow.Flow) (p tillPorts) {
			in, requests := keyedstream.Input[string, int](dataflow.At[server](flow), "requests")
			told, _ := keyedstream.CallingMachine(requests, func() till { return till{} }, (*till).ask, (*till).again,
				keyedstream.Calling(bank, (*till).answered, keyedstream.CallOptions{}), "the bank is asked twice")
			receipts, ended := keyedstream.Partition(told, func(s string) bool { return s[0] == '[' })
			return tillPorts{in, keyedsingleton.Output(keyedstream.First(receipts), "receipts"), keyedsingleton.Output(keyedstream.First(ended), "ended")}
		},
		Drive: func(ctx context.Context, p tillPorts) error {
			for i, k := range []string{"a", "b", "a"} {
				if err := p.requests.SendNumbered(ctx, k, uint64(i/2), 100); err != nil {
					return err
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p tillPorts) error {
			for _, k := range []string{"a", "b"} {
				if got, err := p.receipts.Await(ctx, k); err != nil || got != "[100 number 1 101 number 2]" {
					return fmt.Errorf("the receipt of %s is %q, %w", k, got, err)
				}
				if got, err := p.ended.Await(ctx, k); err != nil || got != "ended true" {
					return fmt.Errorf("%s is %q, %w", k, got, err)
				}
			}
			return nil
		},
	}, Options{LostAnswers: true})
	again := 0
	for c, n := range made {
		if want := 99 + int(c.Number); c.Request != want {
			t.Errorf("%+v, want %d", c, want)
		}
		again += n
	}
	if len(made) != 4 || runs < 50 || again < 4*runs {
		t.Errorf("%d runs made %d calls: %v", runs, again, made)
	}
}
