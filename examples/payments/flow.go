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

// A Charge is what the bank is asked to make once, however often it is asked. Key is that of
// the payment and its life, and the same for each attempt.
type Charge struct {
	Key   string
	Cents int64
}

// An Outcome is what the bank answers. Again says that it may do better later.
type Outcome struct {
	Number  string
	Refused string
	Again   bool
}

// A Receipt is what has become of a payment.
type Receipt struct {
	Number  string `json:"number,omitempty"`
	Refused string `json:"refused,omitempty"`
	Tries   int    `json:"tries"`
}

// attempts is how often the bank is asked.
const attempts = 5

const retry keyedstream.Timer = iota

// A payment is the state of one key: the amount, and how often the bank was asked.
type payment struct {
	Cents int64
	Tries int
}

type turn = keyedstream.CallingTurn[string, int64, Receipt, int64]

// ask takes a request. One that is repeated gets the receipt there is, or will be.
func (p *payment) ask(cents int64, do *turn) {
	switch {
	case p.Tries == 0:
		p.Cents = cents
		p.try(0, do)
	case cents != p.Cents:
		do.Emit(cents) // the key was used for another payment
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
	do.Decide(Receipt{o.Number, o.Refused, p.Tries})
	do.ForgetAfter(24 * time.Hour)
}

// Ports are the inputs and outputs of the flow.
type Ports struct {
	Requests *dataflow.SharedKeyedInputPort[string, int64]
	Receipts *dataflow.EntryOutputPort[string, Receipt]          // each for a day
	Misused  *dataflow.OutputPort[dataflow.Entry[string, int64]] // requests whose key stands for another amount
}

// build makes the flow. A payment is made once for each key, however often it is asked for, and
// forgotten after a day.
func build(flow *dataflow.Flow, bank func(context.Context, Charge) Outcome) Ports {
	in, requests := keyedstream.SharedInput[string, int64](dataflow.At[Till](flow), "requests")
	charge := func(ctx context.Context, c keyedstream.Call[string, int64]) Outcome {
		return bank(ctx, Charge{fmt.Sprintf("%s-%d", c.Key, c.Life), c.Request})
	}
	misused, receipts := keyedstream.CallingMachine(requests, func() payment { return payment{} }, (*payment).ask, (*payment).try,
		keyedstream.Calling(charge, (*payment).answered, keyedstream.CallOptions{Concurrency: 256, Timeout: 10 * time.Second}),
		"the first request of a key says what is paid, and nobody repeats one after a day")
	return Ports{in, keyedsingleton.Output(receipts, "receipts"), keyedstream.Output(misused, "misused")}
}
