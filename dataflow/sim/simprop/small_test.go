package simprop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/keyedstream"
)

func letters() gopter.Gen { return gen.OneConstOf("a", "b") }

type letterPorts struct {
	shared *dataflow.SharedInputPort[string]
	one    *dataflow.InputPort[string]
	keyed  *dataflow.SharedKeyedInputPort[string, string]
}

// TestSmall compares the number of cases with a formula or a list made by hand. Cases that differ only in
// the names of clients count once, and an input with one sender has one client. It catches an omitted case.
func TestSmall(t *testing.T) {
	shared := simprop.Values("shared", func(p letterPorts) *dataflow.SharedInputPort[string] { return p.shared }, letters())
	one := simprop.Values("one", func(p letterPorts) *dataflow.InputPort[string] { return p.one }, letters())
	closed := simprop.Close("one", func(p letterPorts) *dataflow.InputPort[string] { return p.one })
	keyed := simprop.KeyedValues("keyed", func(p letterPorts) *dataflow.SharedKeyedInputPort[string, string] { return p.keyed }, letters(), letters())
	tests := []struct {
		n     int
		ports []simprop.PortGen[letterPorts]
		want  int
	}{
		{1, []simprop.PortGen[letterPorts]{shared}, 1 + 2},
		// ab: four words of one client, and a|a, a|b, b|b of two clients.
		{2, []simprop.PortGen[letterPorts]{shared}, 1 + 2 + 4 + 3},
		// Three operations: eight words of one client, or four words of one client, of two
		// operations, beside one operation of another.
		{3, []simprop.PortGen[letterPorts]{shared}, 1 + 2 + 7 + 8 + 8},
		{3, []simprop.PortGen[letterPorts]{one}, 1 + 2 + 4 + 8},
		// One client closes the input as its last operation.
		{1, []simprop.PortGen[letterPorts]{one, closed}, 1 + 3},
		{2, []simprop.PortGen[letterPorts]{one, closed}, 4 + 4 + 2 + 3},
		{3, []simprop.PortGen[letterPorts]{keyed}, 159},
	}
	for _, test := range tests {
		seen := make(map[string]bool)
		result := simprop.Small(test.n, func(c simprop.Case[letterPorts]) sim.Spec[letterPorts] {
			if seen[c.String()] || c.Len() > test.n {
				t.Errorf("%d operations: there is twice\n%v", test.n, c)
			}
			seen[c.String()] = true
			return sim.Spec[letterPorts]{Build: buildSenders, Clients: c.Clients()}
		}, test.ports)(gopter.DefaultGenParameters())
		if result.Status != gopter.PropProof || len(seen) != test.want || result.Labels[0] != fmt.Sprintf("%d cases of at most %d operations", test.want, test.n) {
			t.Errorf("%d operations: %d cases, want %d; %v %v", test.n, len(seen), test.want, result.Status, result.Labels)
		}
	}
}

func buildSenders(flow *dataflow.Flow) letterPorts {
	at := dataflow.At[server](flow)
	shared, _ := dataflow.SharedInput[string](at, "shared")
	one, _ := dataflow.Input[string](at, "one")
	keyed, _ := keyedstream.SharedInput[string, string](at, "keyed")
	return letterPorts{shared, one, keyed}
}

// TestSmallFails shrinks a small case too, because its values are not those that the generator considers small.
func TestSmallFails(t *testing.T) {
	result := simprop.Small(3, func(c simprop.Case[sums]) sim.Spec[sums] {
		spec := under100(c)
		spec.Eventually["two numbers"] = func(*sim.View, sums) error {
			if len(simprop.Sent[int](c, "xs")) == 2 {
				return errors.New("there are two")
			}
			return nil
		}
		return spec
	}, []simprop.PortGen[sums]{simprop.Values("xs", xs, gen.IntRange(30, 50))})(gopter.DefaultGenParameters())
	if got := fmt.Sprint(result.Args[0].Arg); result.Status != gopter.PropFalse || got != "client 1: xs 30, xs 30" || !strings.Contains(strings.Join(result.Labels, ""), "there are two") {
		t.Errorf("%v: %v\n%v", result.Status, got, result.Labels)
	}
	panics(t, "simprop: Small: 0 operations", func() { simprop.Small(0, under100, []simprop.PortGen[sums]{simprop.Values("xs", xs, values)}) })
	panics(t, "simprop: Small: 1 operations at 0 ports", func() { simprop.Small(1, under100, nil) })
}
