// Package linear decides whether the history of some clients is linearizable: whether each
// operation can be given one moment between its call and its return so that all of them,
// executed in the order of these moments, behave as a [Model] says.
//
// A test records an [Operation] for each call, with numbers that grow from event to event. It
// gives the history of a run to [Check], or the histories of all schedules of package
// dataflow/sim to a [Checker]. The package contains the models [Register], [Counter], [Set],
// [Queue], [Lock] and [PutOnce]; PutOnce is what a keyed singleton promises. The search is that
// of github.com/anishathalye/porcupine.
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

// ErrNot is wrapped by the error for a history that is not linearizable.
var ErrNot = errors.New("linear: not linearizable")

// ErrHistory is wrapped by the error for a history or a model that cannot be decided.
var ErrHistory = errors.New("linear: not decided")

type unknown struct{}

func (unknown) String() string { return "?" }

// Unknown is the output of an operation whose answer nobody received, such as one that a crash
// cut off. The operation may have happened at any time after its call, or not at all.
var Unknown any = unknown{}

// A Model says what operations do when they run one after the other. Its functions may be
// called by several goroutines and must not change their arguments.
type Model struct {
	// Init returns the state before the first operation.
	Init func() any
	// Step reports whether an operation can have the output in a state, and returns the state
	// after it. The output may be [Unknown]; Step returns false if the operation cannot have
	// happened at all in the state.
	Step func(state, input, output any) (bool, any)
	// Equal reports whether two states are the same. If it is nil, states are equal if they
	// have the same content.
	Equal func(a, b any) bool
	// String formats an operation. If it is nil, operations are formatted with %+v.
	String func(input, output any) string
}

// An Operation is a call by a client and its return.
type Operation struct {
	Client int
	Key    any // operations of different keys are independent; must be usable as a map key that is found again
	Input  any
	Output any // or [Unknown]

	// Call and Return are positions in the history. Two operations overlap unless the return of
	// one is smaller than the call of the other. The return of an Unknown output does not
	// count.
	Call, Return int64
}

// Check returns nil if the history is linearizable. If not, it returns an [ErrNot] that shows
// the smallest set of operations of one key that is not linearizable, up to the return that
// cannot be explained. It returns an [ErrHistory] if the model has no Init or Step or panics,
// if an operation returns before it is called, and if a key is not found again in a map.
//
// The running time can be exponential in the number of overlapping operations of one key.
func Check(m Model, history []Operation) error { return NewChecker(m).Check(history) }

// A Checker checks the histories of many runs, and each distinct history only once. It may be
// used by several goroutines.
type Checker struct {
	model Model

	mu   sync.Mutex
	seen map[uint64]error
}

// NewChecker returns a checker for a model.
func NewChecker(m Model) *Checker { return &Checker{model: m, seen: make(map[uint64]error)} }

// Distinct returns the number of distinct histories that were checked.
func (c *Checker) Distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// Check is the function [Check] for the checker's model. Two histories are the same if they
// have the same operations and the same order of calls and returns. Keys, inputs and outputs
// are compared by a digest of their content, which does not look into functions and channels.
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

// normal returns the operations in the order of their calls, with positions replaced by the
// ranks of calls and returns.
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

// canBeKey reports whether a map finds key again. It does not find a NaN, and panics for a key
// that is not comparable.
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

// linearizable decides whether the operations of one key are linearizable.
func (m Model) linearizable(ops []Operation) (bool, error) {
	var mu sync.Mutex // porcupine calls the functions from several goroutines
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
			if _, none := output.(unknown); none && !ok { // the operation has not happened
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

// shortest returns the operations up to the first return that cannot be explained, or all if
// all can be explained. If a whole history is linearizable, so is each of its prefixes.
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

// print formats operations of one key, one per line, and marks those with the last return.
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

// same reports whether a and b have the same content.
func same(a, b any) bool { return digest.Of(a) == digest.Of(b) }
