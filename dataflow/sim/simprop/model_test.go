package simprop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// counter holds the ports of a flow that answers each request with the count after it.
type counter struct {
	requests *dataflow.EntryInputPort[string, int]
	answers  *dataflow.EntryOutputPort[string, int]
}

// buildCounter builds a counter that computes each new count with step.
func buildCounter(step func(n, by int) int) func(flow *dataflow.Flow) counter {
	return func(flow *dataflow.Flow) counter {
		at := dataflow.At[server](flow)
		port, requests := keyedsingleton.Input[string, int](at, "requests")
		inOrder := dataflow.AssumeOrder(keyedsingleton.Entries(requests), "requests are answered in the order in which they are handled")
		answered := dataflow.Scan(inOrder, func() int { return 0 }, func(n *int, r dataflow.Entry[string, int], emit func(dataflow.Entry[string, int])) {
			*n = step(*n, r.Value)
			emit(dataflow.Entry[string, int]{Key: r.Key, Value: *n})
		})
		return counter{port, keyedsingleton.Output(keyedstream.First(dataflow.Keyed(answered)), "answers")}
	}
}

func counterModel(step func(n, by int) int) simprop.Model[counter, int] {
	ask := func(c *sim.Ctx, p counter, by int) (int, error) {
		id := simprop.ID(c)
		if err := p.requests.Put(c, id, by); err != nil {
			return 0, err
		}
		return p.answers.Await(c, id)
	}
	return simprop.Model[counter, int]{
		Build: buildCounter(step),
		Init:  func() int { return 0 },
		Commands: []simprop.Step[counter, int]{
			simprop.Command[counter, int, int, int]{
				Name: "add",
				Gen:  func(int) gopter.Gen { return gen.IntRange(1, 2) },
				Do:   ask,
				Next: func(n, by int) int { return n + by },
				Post: func(n, by, got int) error { return want(n+by, got) },
			},
			simprop.Command[counter, int, struct{}, int]{
				Name: "subtract",
				Pre:  func(n int, _ struct{}) bool { return n > 0 },
				Do:   func(c *sim.Ctx, p counter, _ struct{}) (int, error) { return ask(c, p, -1) },
				Next: func(n int, _ struct{}) int { return n - 1 },
				Post: func(n int, _ struct{}, got int) error { return want(n-1, got) },
			},
		},
	}
}

func want(n, got int) error {
	if got != n {
		return fmt.Errorf("it is %d, want %d", got, n)
	}
	return nil
}

func right(n, by int) int { return n + by }

func wrong(n, by int) int {
	if by < 0 && n > 3 {
		return n - 2
	}
	return n + by
}

// decided checks a property with several sizes and seeds until it fails.
func decided(prop gopter.Prop) *gopter.PropResult {
	for seed := range int64(100) {
		if result := prop(gopter.DefaultGenParameters().WithSize(int(seed)).CloneWithSeed(seed)); !result.Success() {
			return result
		}
	}
	return gopter.NewPropResult(true, "")
}

// TestSequential finds a counter that subtracts 2 when it is above 3, with few commands, and finds
// nothing wrong with a correct counter. It catches a model whose state does not carry over from
// command to command.
func TestSequential(t *testing.T) {
	if result := decided(simprop.Sequential(counterModel(right))); !result.Success() {
		t.Errorf("of a counter that is right it says %v, %v\n%v", result.Labels, result.Error, result.Args)
	}
	result := decided(simprop.Sequential(counterModel(wrong)))
	if result.Status != gopter.PropFalse {
		t.Fatalf("%v: %v", result.Status, result.Error)
	}
	c := result.Args[0].Arg.(simprop.Case[counter])
	if said := strings.Join(result.Labels, "\n"); c.Len() > 6 || !strings.Contains(said, "subtract = 2: it is 2, want 3") {
		t.Errorf("%d commands: %v\n%s", c.Len(), c, said)
	}
}

// TestPreHoldsInEveryOrder draws and shrinks commands of several clients. Commands that must not be
// given at 0 are never given at 0, in any interleaving of the clients. It catches a Pre that is
// checked only in the order of drawing, so that the program would be blamed for what the test did.
func TestPreHoldsInEveryOrder(t *testing.T) {
	model := counterModel(right)
	model.Limits = simprop.Limits{Clients: 3, Operations: 6}
	subtract := model.Commands[1].(simprop.Command[counter, int, struct{}, int])
	given, below := 0, 0
	subtract.Next = func(n int, _ struct{}) int {
		given++
		if n <= 0 {
			below++
		}
		return n - 1
	}
	model.Commands[1] = subtract
	result := decided(simprop.Parallel(model))
	if below > 0 || given < 100 || result.Status != gopter.PropTrue {
		t.Errorf("%d of %d times it is subtracted from 0: %v %v", below, given, result.Status, result.Error)
	}
}

// cell holds the ports of a number that clients read and write.
type cell struct {
	writes *dataflow.EntryInputPort[string, int]
	done   *dataflow.EntryOutputPort[string, int]
	value  *dataflow.SingletonOutputPort[int]
}

func buildCell(flow *dataflow.Flow) cell {
	port, writes := keyedsingleton.Input[string, int](dataflow.At[server](flow), "writes")
	inOrder := dataflow.AssumeOrder(keyedsingleton.Entries(writes), "the last write that is handled counts")
	value := dataflow.Fold(inOrder, func() int { return 0 }, func(n *int, w dataflow.Entry[string, int]) { *n = w.Value })
	return cell{port, keyedsingleton.Output(writes, "done"), singleton.Output(value, "value")}
}

// increments has clients that read, add one and write, one operation directly after the other.
var increments = simprop.Model[cell, int]{
	Build:  buildCell,
	Init:   func() int { return 0 },
	Limits: simprop.Limits{Clients: 2, Operations: 4},
	Commands: []simprop.Step[cell, int]{simprop.Command[cell, int, struct{}, int]{
		Name: "increment",
		Do: func(c *sim.Ctx, p cell, _ struct{}) (int, error) {
			n, _ := p.value.Latest()
			if err := p.writes.Put(c, simprop.ID(c), n+1); err != nil {
				return 0, err
			}
			return p.done.Await(c, simprop.ID(c))
		},
		Next: func(n int, _ struct{}) int { return n + 1 },
		Post: func(n int, _ struct{}, got int) error { return want(n+1, got) },
	}},
}

// TestParallel finds the lost update when two clients read before either writes, and shrinks it to
// these two clients. One client alone loses no update.
func TestParallel(t *testing.T) {
	if result := decided(simprop.Sequential(increments)); !result.Success() {
		t.Errorf("one client: %v %v", result.Labels, result.Error)
	}
	result := decided(simprop.Parallel(increments))
	if result.Status != gopter.PropFalse {
		t.Fatalf("two clients: %v %v", result.Status, result.Error)
	}
	if got, want := fmt.Sprint(result.Args[0].Arg), "client 1: increment\nclient 2: increment"; got != want {
		t.Errorf("shrunk to\n%v\nwant\n%v", got, want)
	}
	if said := strings.Join(result.Labels, "\n"); strings.Count(said, "increment = 1") != 2 {
		t.Errorf("it says\n%s", said)
	}
	counter := counterModel(right)
	counter.Limits = increments.Limits
	if result := decided(simprop.Parallel(counter)); !result.Success() {
		t.Errorf("a counter that is right: %v %v", result.Labels, result.Error)
	}
}

// TestModelsMisused checks that a model that would show nothing panics.
func TestModelsMisused(t *testing.T) {
	panics(t, "simprop: Sequential: the model has no commands", func() {
		simprop.Sequential(simprop.Model[cell, int]{Build: buildCell, Init: func() int { return 0 }})
	})
	panics(t, "simprop: Parallel: the function given at", func() { simprop.Parallel(simprop.Model[cell, int]{Build: buildCell}) })
	panics(t, "simprop: Parallel: the model is limited to 1 clients", func() {
		m := increments
		m.Limits.Clients = 1
		simprop.Parallel(m)
	})
}
