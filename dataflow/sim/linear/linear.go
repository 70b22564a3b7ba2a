// Package linear decides whether what clients have seen is linearizable: whether each operation
// can be given one moment between its call and its return, so that all of them one after the
// other, in the order of these moments, give what a [Model] says.
//
// A test notes an [Operation] for each call, with numbers that grow from event to event, and
// gives all of a run to [Check], or to a [Checker] that sees each schedule of package
// dataflow/sim. The models [Register], [Counter], [Set], [Queue], [Lock] and [PutOnce] are
// there; the latter is what a keyed singleton promises. The search is that of
// github.com/anishathalye/porcupine.
package linear

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"

	"github.com/millrace/millrace/internal/digest"
)

// ErrNot is what the error of a history is that is not linearizable.
var ErrNot = errors.New("linear: not linearizable")

// ErrHistory is what the error of a history or a model is that cannot be decided.
var ErrHistory = errors.New("linear: not decided")

type unknown struct{}

func (unknown) String() string { return "?" }

// Unknown is the output of an operation that nobody had an answer of, such as one that a
// crash cut off. It may have happened at any time after its call, or not at all.
var Unknown any = unknown{}

// A Model says what operations do one after the other. Its functions may be called by
// several goroutines and change nothing that they are given.
type Model struct {
	// Init returns the state before the first operation.
	Init func() any
	// Step reports whether an operation can have the output in a state, and returns the state
	// after it. The output may be [Unknown]; if it cannot have happened at all then, Step
	// returns false.
	Step func(state, input, output any) (bool, any)
	// Equal reports whether two states are the same. If it is nil, they are if they have the
	// same content.
	Equal func(a, b any) bool
	// String prints an operation. If it is nil, it is printed with %+v.
	String func(input, output any) string
}

// An Operation is a call by a client and its return.
type Operation struct {
	Client int
	Key    any // operations of different keys have nothing to do with each other; a map has to find it again
	Input  any
	Output any // or [Unknown]

	// Call and Return are positions in the history. Two operations overlap unless the return of
	// one is smaller than the call of the other. The return of an Unknown output does not
	// count.
	Call, Return int64
}

// Check returns nil if the history is linearizable, and otherwise an [ErrNot] that shows the
// smallest set of operations of one key that is not, up to the return that cannot be
// explained. It returns an [ErrHistory] for a model without Init or Step or that panics, for an
// operation that returns before it is called, and for a key that no map finds again.
//
// The time can be exponential in how many operations of one key overlap.
func Check(m Model, history []Operation) error { return NewChecker(m).Check(history) }

// A Checker checks the histories of many runs, each different one once. It may be used by
// several goroutines.
type Checker struct {
	model Model

	mu   sync.Mutex
	seen map[uint64]error
}

// NewChecker returns a checker for a model.
func NewChecker(m Model) *Checker { return &Checker{model: m, seen: make(map[uint64]error)} }

// Distinct returns how many different histories there were.
func (c *Checker) Distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// Check is the function [Check] for the checker's model. Histories are the same if they have
// the same operations and their calls and returns the same order. Keys, inputs and outputs are
// compared by a digest of their content, which does not look into functions and channels.
func (c *Checker) Check(history []Operation) error {
	ops, err := normal(history)
	if err != nil {
		return err
	}
	is := digest.Of(ops)
	c.mu.Lock()
	err, known := c.seen[is]
	c.mu.Unlock()
	if known {
		return err
	}
	err = c.model.check(ops)
	c.mu.Lock()
	c.seen[is] = err
	c.mu.Unlock()
	return err
}

// normal returns the operations in order of their calls, with the ranks of calls and returns
// instead of their positions.
func normal(history []Operation) ([]Operation, error) {
	ops := slices.Clone(history)
	var at []int64
	for i, op := range ops {
		if _, none := op.Output.(unknown); none {
			ops[i].Return = math.MaxInt64
		}
		if op := ops[i]; op.Return < op.Call {
			return nil, fmt.Errorf("%w: operation %d of the history returns at %d, before its call at %d", ErrHistory, i, op.Return, op.Call)
		}
		if !canBeKey(op.Key) {
			return nil, fmt.Errorf("%w: operation %d of the history has a key of type %T, which cannot be a key", ErrHistory, i, op.Key)
		}
		at = append(at, op.Call, ops[i].Return)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	rank := func(x int64) int64 {
		if x == math.MaxInt64 {
			return x
		}
		i, _ := slices.BinarySearch(at, x)
		return int64(i)
	}
	for i := range ops {
		ops[i].Call, ops[i].Return = rank(ops[i].Call), rank(ops[i].Return)
	}
	slices.SortStableFunc(ops, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Return, b.Return), cmp.Compare(a.Client, b.Client))
	})
	return ops, nil
}

// canBeKey reports whether a map finds a key again.
func canBeKey(key any) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return map[any]bool{key: true}[key]
}

// check checks a history in normal form.
func (m Model) check(ops []Operation) error {
	if m.Init == nil || m.Step == nil {
		return fmt.Errorf("%w: the model has no Init or no Step", ErrHistory)
	}
	byKey := make(map[any][]Operation)
	var keys []any
	for _, op := range ops {
		if _, has := byKey[op.Key]; !has {
			keys = append(keys, op.Key)
		}
		byKey[op.Key] = append(byKey[op.Key], op)
	}
	var worst []Operation
	for _, k := range keys {
		part := byKey[k]
		ok, err := m.linearizable(part)
		if err != nil {
			return err
		}
		if part, err = m.shortest(part, ok); err != nil {
			return err
		}
		if !ok && (worst == nil || len(part) < len(worst)) {
			worst = part
		}
	}
	if worst == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNot, m.print(worst))
}

// linearizable decides for the operations of one key.
func (m Model) linearizable(ops []Operation) (bool, error) {
	var mu sync.Mutex // porcupine has goroutines
	var failed error
	equal := m.Equal
	if equal == nil {
		equal = same
	}
	guard := func(doing string) {
		if v := recover(); v != nil {
			mu.Lock()
			failed = fmt.Errorf("%w: the model panicked when %s: %v", ErrHistory, doing, v)
			mu.Unlock()
		}
	}
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{ClientId: op.Client, Input: op.Input, Output: op.Output, Call: op.Call, Return: op.Return}
	}
	ok := porcupine.CheckOperations(porcupine.Model{
		Init: func() (s any) {
			defer guard("it made the first state")
			return m.Init()
		},
		Step: func(state, input, output any) (ok bool, next any) {
			defer guard(fmt.Sprintf("%+v gave %+v", input, output))
			ok, next = m.Step(state, input, output)
			if _, none := output.(unknown); none && !ok { // it has not happened
				return true, state
			}
			return ok, next
		},
		Equal: func(a, b any) bool {
			defer guard("it compared states")
			return equal(a, b)
		},
	}, history)
	mu.Lock()
	defer mu.Unlock()
	return ok, failed
}

// shortest returns the operations up to the first return that cannot be explained, unless all
// can. A history up to a moment is linearizable if the whole is.
func (m Model) shortest(ops []Operation, ok bool) ([]Operation, error) {
	if ok {
		return ops, nil
	}
	var returns []int64
	for _, op := range ops {
		if op.Return < math.MaxInt64 {
			returns = append(returns, op.Return)
		}
	}
	slices.Sort(returns)
	for _, end := range slices.Compact(returns) {
		var begun []Operation
		for _, op := range ops {
			if op.Call > end {
				continue
			}
			if op.Return > end {
				op.Output, op.Return = Unknown, math.MaxInt64
			}
			begun = append(begun, op)
		}
		if ok, err := m.linearizable(begun); !ok || err != nil {
			return begun, err
		}
	}
	return ops, nil
}

// print prints operations of one key, a line each, and marks those whose return is the last.
func (m Model) print(ops []Operation) string {
	last := int64(-1)
	for _, op := range ops {
		if op.Return < math.MaxInt64 {
			last = max(last, op.Return)
		}
	}
	text := m.String
	if text == nil {
		text = func(input, output any) string { return fmt.Sprintf("%+v = %+v", input, output) }
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations", len(ops))
	if k := ops[0].Key; k != nil {
		fmt.Fprintf(&b, " of key %v", k)
	}
	b.WriteString(" have no order that gives these results")
	for _, op := range ops {
		end, sign := fmt.Sprint(op.Return), ""
		if op.Return == math.MaxInt64 {
			end = "?"
		} else if op.Return == last {
			sign = "  <- cannot be explained"
		}
		fmt.Fprintf(&b, "\n\tclient %d  [%d, %s]  %s%s", op.Client, op.Call, end, text(op.Input, op.Output), sign)
	}
	return b.String()
}

// same compares by content.
func same(a, b any) bool { return digest.Of(a) == digest.Of(b) }
