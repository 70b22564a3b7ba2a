package simprop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/keyedsingleton"
)

// A till pays each request, and records it in a book outside the flow.
type till struct {
	requests *dataflow.EntryInputPort[string, int]
	paid     *dataflow.EntryOutputPort[string, int]
	book     map[int]int // how often each amount was paid
}

func buildTill(flow *dataflow.Flow) till {
	book := make(map[int]int)
	port, requests := keyedsingleton.Input[string, int](dataflow.At[server](flow), "requests")
	paid := keyedsingleton.MapAsync(requests, func(_ context.Context, amount int) int {
		book[amount]++
		return amount
	}, keyedsingleton.AsyncOptions{})
	return till{port, keyedsingleton.Output(paid, "paid"), book}
}

// TestFaults draws faults with the traffic. A payment is made twice after a crash, and the smallest case that shows it
// has one payment, one crash and no other fault. It catches faults that are drawn but do not happen, happen but are not
// shown, or do not shrink.
func TestFaults(t *testing.T) {
	traffic := simprop.TrafficWithin(simprop.Limits{Operations: 3, Clients: 2, Faults: sim.Faults{Crashes: 2, LostAcks: 1}},
		simprop.Entries("pay", func(p till) *dataflow.EntryInputPort[string, int] { return p.requests }, keys, gen.IntRange(1, 9)))
	spec := func(most int) func(c simprop.Case[till]) sim.Spec[till] {
		return func(c simprop.Case[till]) sim.Spec[till] {
			return sim.Spec[till]{Build: buildTill, Clients: c.Clients(), Faults: c.Faults(), Eventually: map[string]func(*sim.View, till) error{
				"paid at most so often": func(_ *sim.View, p till) error {
					asked := make(map[int]int)
					for _, e := range simprop.Sent[dataflow.Entry[string, int]](c, "pay") {
						asked[e.Value]++
					}
					for amount, n := range p.book {
						if n > most*asked[amount] {
							return fmt.Errorf("%d is paid %d times", amount, n)
						}
					}
					return nil
				},
			}}
		}
	}
	if result := decided(simprop.Holds(spec(3), traffic)); !result.Success() {
		t.Errorf("two crashes have it paid more than three times: %v", result.Labels)
	}
	more := 0 // cases drawn with further faults
	for seed := range int64(20) {
		result := simprop.Holds(spec(1), traffic)(gopter.DefaultGenParameters().WithSize(100).CloneWithSeed(seed))
		if result.Success() {
			continue
		}
		c := result.Args[0].Arg.(simprop.Case[till])
		if c.Len() != 1 || !strings.HasSuffix(c.String(), "\nfaults: Crashes 1") {
			t.Errorf("seed %d, %v: the smallest case is\n%v", seed, result.Error, c)
		}
		if strings.Contains(result.Args[0].OrigArgFormatted, "LostAcks 1") {
			more++
		}
	}
	if more == 0 {
		t.Error("no case that failed was drawn with another fault")
	}
}

// TestModelWithFaults checks that a counter agrees with its model when a client does not learn the result of a command,
// and that a wrong counter is found with faults as well.
func TestModelWithFaults(t *testing.T) {
	wrong := func(n, by int) int {
		if by < 0 && n > 1 {
			return n - 2
		}
		return n + by
	}
	for name, step := range map[string]func(n, by int) int{"right": right, "wrong": wrong} {
		model := counterModel(step)
		model.Limits = simprop.Limits{Clients: 2, Operations: 5, Faults: sim.Faults{LostAcks: 1}}
		for kind, prop := range map[string]gopter.Prop{"Sequential": simprop.Sequential(model), "Parallel": simprop.Parallel(model)} {
			if result := decided(prop); result.Success() != (name == "right") || result.Error != nil {
				t.Errorf("%s, %s: %v, %v\n%v", name, kind, result.Labels, result.Error, result.Args)
			}
		}
	}
}

// TestFaultsMisused checks that a generator with a negative number of faults panics.
func TestFaultsMisused(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "there cannot be -1 faults: Lose") {
			t.Errorf("it says %s", said)
		}
	}()
	simprop.TrafficWithin(simprop.Limits{Faults: sim.Faults{Lose: -1}}, simprop.Values("xs", func(p every) *dataflow.InputPort[int] { return p.one }, values))
}
