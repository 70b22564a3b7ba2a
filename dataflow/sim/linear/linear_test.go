package linear_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/dataflow/sim/linear"
	"github.com/millrace/millrace/internal/rerun"
)

var seed = flag.Int64("seed", 0, "draw from this seed, as printed by a failure")

// possible tries all orders of the operations of one key, with and without each operation that has
// no answer. It shares no code with the checker.
func possible(m linear.Model, ops []linear.Operation) bool {
	var try func(state any, left []linear.Operation) bool
	try = func(state any, left []linear.Operation) bool {
		if len(left) == 0 {
			return true
		}
		for i, op := range left {
			early := true // no remaining operation returned before this one was called
			for j, other := range left {
				if j != i && other.Output != linear.Unknown && other.Return < op.Call {
					early = false
				}
			}
			if !early {
				continue
			}
			rest := slices.Delete(slices.Clone(left), i, i+1)
			if ok, next := m.Step(state, op.Input, op.Output); ok && try(next, rest) {
				return true
			}
			if op.Output == linear.Unknown && try(state, rest) {
				return true
			}
		}
		return false
	}
	return try(m.Init(), ops)
}

// A subject is a model with some of its operations and their possible results.
type subject struct {
	name    string
	model   linear.Model
	inputs  []any
	outputs func(input any) []any
}

func subjects() []subject {
	truth := []any{true, false}
	found := []any{linear.Found{}, linear.Found{Value: 1, OK: true}, linear.Found{Value: 2, OK: true}}
	return []subject{
		{"Register", linear.Register(0), []any{linear.Read{}, linear.Read{}, linear.Write{Value: 1}, linear.Write{Value: 2}}, func(in any) []any {
			if in == (linear.Read{}) {
				return []any{0, 1, 2}
			}
			return []any{nil}
		}},
		{"Counter", linear.Counter(), []any{linear.Get{}, linear.Add{N: 1}, linear.Add{N: 2}}, func(any) []any { return []any{0, 1, 2, 3} }},
		{"Set", linear.Set(), []any{linear.Insert{Value: 1}, linear.Remove{Value: 1}, linear.Has{Value: 1}, linear.Insert{Value: 2}}, func(any) []any { return truth }},
		{"Queue", linear.Queue(), []any{linear.Enqueue{Value: 1}, linear.Enqueue{Value: 2}, linear.Dequeue{}, linear.Dequeue{}}, func(in any) []any {
			if in == (linear.Dequeue{}) {
				return found
			}
			return []any{nil}
		}},
		{"Lock", linear.Lock(), []any{linear.Acquire{By: 1}, linear.Acquire{By: 2}, linear.Release{By: 1}, linear.Release{By: 2}}, func(any) []any { return truth }},
		{"PutOnce", linear.PutOnce(), []any{linear.Put{Value: 1}, linear.Put{Value: 2}, linear.Get{}}, func(in any) []any {
			if in == (linear.Get{}) {
				return found
			}
			return truth
		}},
	}
}

// draw returns a history of up to six operations, one in five without an answer. Half of the
// histories take their answers from some order, so that both outcomes are frequent.
func draw(s subject, from int64) []linear.Operation {
	rng := rand.New(rand.NewSource(from))
	ops := make([]linear.Operation, 1+rng.Intn(6))
	state, honest := s.model.Init(), rng.Intn(2) > 0
	for i := range ops {
		op := linear.Operation{Client: i, Input: s.inputs[rng.Intn(len(s.inputs))], Call: int64(i*3 - rng.Intn(8))}
		op.Return = max(op.Call, int64(i*3+rng.Intn(8)))
		all := s.outputs(op.Input)
		op.Output = all[rng.Intn(len(all))]
		for _, out := range all {
			if ok, next := s.model.Step(state, op.Input, out); ok && honest {
				op.Output, state = out, next
				break
			}
		}
		if rng.Intn(5) == 0 {
			op.Output = linear.Unknown
			op.Return = 0 // Return is ignored
		}
		ops[i] = op
	}
	rng.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
	return ops
}

// TestAgainstAllOrders compares the checker with possible. It catches a wrong order of calls and
// returns, an unknown operation that is required to happen, and a model that the search cannot use
// because it modifies its states.
func TestAgainstAllOrders(t *testing.T) {
	for _, s := range subjects() {
		t.Run(s.name, func(t *testing.T) {
			parameters := gopter.DefaultTestParametersWithSeed(*seed)
			if *seed == 0 {
				parameters = gopter.DefaultTestParametersWithSeed(rand.Int63())
			}
			parameters.MinSuccessfulTests = 2000
			yes, no := 0, 0
			properties := gopter.NewProperties(parameters)
			properties.Property("it is what all orders say", prop.ForAll(func(from int64) string {
				ops := draw(s, from)
				err := linear.Check(s.model, ops)
				want := possible(s.model, ops)
				if want {
					yes++
				} else {
					no++
				}
				if (err == nil) != want || err != nil && !errors.Is(err, linear.ErrNot) {
					return fmt.Sprintf("%+v\nis possible: %v, and the checker says: %v", ops, want, err)
				}
				return ""
			}, gen.Int64Range(1, math.MaxInt64)))
			var report bytes.Buffer
			if !properties.Run(gopter.NewFormatedReporter(false, 160, &report)) {
				t.Errorf("%s\nrerun: %s", &report, rerun.Line(t.Name(), "-seed", fmt.Sprint(parameters.Seed())))
			}
			if yes < 100 || no < 100 {
				t.Errorf("%d histories are linearizable and %d are not", yes, no)
			}
		})
	}
}

func op(client int, key, input, output any, call, ret int64) linear.Operation {
	return linear.Operation{Client: client, Key: key, Input: input, Output: output, Call: call, Return: ret}
}

// TestMessage checks that the message shows the smallest part up to the return that cannot be
// explained, and nothing else.
func TestMessage(t *testing.T) {
	err := linear.Check(linear.Register(0), []linear.Operation{
		op(1, "good", linear.Write{Value: 5}, nil, 10, 20),
		op(1, "large", linear.Write{Value: 1}, nil, 10, 20), op(2, "large", linear.Write{Value: 2}, nil, 10, 20), op(3, "large", linear.Read{}, 3, 10, 20), op(4, "large", linear.Read{}, 0, 10, 20),
		op(1, "small", linear.Write{Value: 7}, nil, 10, 20), op(2, "small", linear.Read{}, 0, 30, 40), op(3, "small", linear.Read{}, 7, 50, 60),
		op(4, "small", linear.Write{Value: 8}, linear.Unknown, 15, 0),
	})
	if !errors.Is(err, linear.ErrNot) {
		t.Fatal(err)
	}
	want := `linear: not linearizable: 3 operations of key small have no order that gives these results
	client 1  [0, 2]  Write{Value:7} = <nil>
	client 4  [1, ?]  Write{Value:8} = ?
	client 2  [3, 4]  Read{} = 0  <- cannot be explained`
	if err.Error() != want {
		t.Errorf("it says\n%v\nwant\n%s", err, want)
	}
}

// TestUndecided checks that an invalid history or model is an error and causes no panic.
func TestUndecided(t *testing.T) {
	one := func(key, input any) []linear.Operation { return []linear.Operation{op(1, key, input, nil, 1, 2)} }
	strange := linear.Model{Init: func() any { return 0 }, Step: func(s, _, _ any) (bool, any) { return s.(int) < 2, s.(int) + 1 }, Equal: func(any, any) bool { panic("no") }}
	tests := []struct {
		name    string
		model   linear.Model
		history []linear.Operation
		want    string
	}{
		{"no model", linear.Model{}, one(1, linear.Read{}), "no Init or no Step"},
		{"another operation", linear.Register(0), one(1, linear.Get{}), "linear.Get is no operation of linear.Register"},
		{"no operation", linear.Queue(), one(1, nil), "<nil> is no operation"},
		{"a value of a set that is not comparable", linear.Set(), one(1, linear.Insert{Value: []int{}}), "unhashable"},
		{"a key that is not comparable", linear.Register(0), one([]int{}, linear.Read{}), "operation 0 of the history has a key of type []int"},
		{"a key that is not equal to itself", linear.Register(0), one(math.NaN(), linear.Read{}), "cannot be a key"},
		{"a return before its call", linear.Register(0), []linear.Operation{op(1, 1, linear.Read{}, 0, 2, 1)}, "operation 0 of the history returns at 1, before its call at 2"},
		{"a model that panics", strange, slices.Repeat(one(1, 1), 3), "panicked when it compared states: no"},
	}
	for _, test := range tests {
		if err := linear.Check(test.model, test.history); !errors.Is(err, linear.ErrHistory) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	if err := linear.Check(linear.Register(0), nil); err != nil {
		t.Errorf("an empty history: %v", err)
	}
}

// TestChecker checks that each distinct history is checked once, whatever its positions are, also
// with several goroutines.
func TestChecker(t *testing.T) {
	var mu sync.Mutex
	steps := 0
	m := linear.Counter()
	step := m.Step
	m.Step = func(s, in, out any) (bool, any) {
		mu.Lock()
		steps++
		mu.Unlock()
		return step(s, in, out)
	}
	c := linear.NewChecker(m)
	history := func(shift int64, second int) []linear.Operation {
		return []linear.Operation{op(2, 1, linear.Get{}, second, shift*5, shift*6), op(1, 1, linear.Add{N: 1}, 1, shift, shift*2)}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if c.Check(history(1, 1)) != nil || c.Check(history(1, 0)) == nil {
				t.Error("a history is decided wrongly")
			}
		})
	}
	all.Wait()
	made := steps
	for shift := range int64(20) {
		if err := c.Check(history(shift+1, 1)); err != nil {
			t.Error(err)
		}
		if err := c.Check(history(shift+1, 0)); !errors.Is(err, linear.ErrNot) {
			t.Errorf("%v, want that it is not linearizable, each time", err)
		}
	}
	if steps != made || c.Distinct() != 2 {
		t.Errorf("%d more steps for %d different histories", steps-made, c.Distinct())
	}
}
