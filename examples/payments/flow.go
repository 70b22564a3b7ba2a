package main

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Till is where payments are asked for.
type Till struct{ dataflow.Process }

// A Bank makes a charge, once for each key, however often it is asked.
type Bank func(ctx context.Context, key string, cents int64) Outcome

// An Outcome is what the bank answers. Again says that it may do better later.
type Outcome struct {
	Number, Refused string
	Again           bool
}

// A Receipt is what has become of a payment.
type Receipt struct {
	Cents   int64  `json:"cents"`
	Number  string `json:"number,omitempty"`
	Refused string `json:"refused,omitempty"`
	Tries   int    `json:"tries"`
}

const attempts = 5 // how often the bank is asked
const retry keyedstream.Timer = 0

// A payment is the state of one key: its receipt as far as it is known.
type payment Receipt

type turn = keyedstream.CallingTurn[string, struct{}, Receipt, int64]

// ask takes a request. One that is repeated gets the receipt there is, or will be.
func (p *payment) ask(cents int64, do *turn) {
	if p.Tries == 0 {
		p.Cents = cents
		p.try(retry, do)
	}
}

func (p *payment) try(_ keyedstream.Timer, do *turn) {
	p.Tries++
	do.Call(p.Cents)
}

// answered tries again after a pause, or decides and forgets the payment after a day.
func (p *payment) answered(_ int64, o Outcome, do *turn) {
	if o.Again && p.Tries < attempts {
		do.After(retry, time.Second<<p.Tries)
		return
	}
	p.Number, p.Refused = o.Number, o.Refused
	do.Decide(Receipt(*p))
	do.ForgetAfter(24 * time.Hour)
}

// Ports are the input and the output of the flow.
type Ports struct {
	Requests *dataflow.SharedKeyedInputPort[string, int64]
	Receipts *dataflow.EntryOutputPort[string, Receipt] // each for a day
}

// build makes the flow. A payment is made once for each key, however often it is asked for, and
// forgotten after a day. The bank is asked by the same key each time.
func build(flow *dataflow.Flow, bank Bank) Ports {
	in, requests := keyedstream.SharedInput[string, int64](dataflow.At[Till](flow), "requests")
	calls := keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[string, int64]) Outcome {
		return bank(ctx, fmt.Sprintf("%s-%d", c.Key, c.Life), c.Request)
	}, (*payment).answered, keyedstream.CallOptions{Concurrency: 256, Timeout: 10 * time.Second})
	_, receipts := keyedstream.CallingMachine(requests, func() payment { return payment{} }, (*payment).ask, (*payment).try, calls,
		"the first request of a key says what is paid, and nobody repeats one after a day")
	return Ports{in, keyedsingleton.Output(receipts, "receipts")}
}
