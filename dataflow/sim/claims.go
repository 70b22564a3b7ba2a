package sim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
)

// A ClaimError reports that the claim in a [dataflow.Proof] that an operator was given does not hold.
// It ends the flow of a schedule, wrapped in a [dataflow.StepError].
//
// Claims are checked where they are made, and only in simulated flows: each time a function is
// called, the simulator also calls it with copies of the last values, as far as the claim requires.
// So a false claim is found even if no schedule shows its consequence. A step function is therefore
// called more often than values arrive, and must not count its calls.
type ClaimError struct {
	Op    string // operator, such as "dataflow.FoldCommutative"
	Pos   string // file:line of the call
	Why   dataflow.Proof
	Claim string // what is claimed, such as "the order does not matter"

	State any // before A and B arrived, or nil if the function has no state
	A, B  any // the values that refute the claim; B is nil if one is enough

	One   any // the function's result for A and then B
	Other any // its result for B and then A, or the value that should not be less than One
}

// Error says what was claimed and which values show that the claim is false.
func (e *ClaimError) Error() string {
	values := ""
	if e.State != nil {
		values = fmt.Sprintf(" in state %s", printedValue(e.State))
	}
	values += ", a = " + printedValue(e.A)
	if e.B != nil {
		values += ", b = " + printedValue(e.B)
	}
	results := ""
	if e.One != nil || e.Other != nil {
		results = fmt.Sprintf(": %s and %s", printedValue(e.One), printedValue(e.Other))
	}
	return fmt.Sprintf("it is claimed that %s (%q), which is wrong%s%s", e.Claim, e.Why, values, results)
}

// printedValue prints a value on one line, shortened.
func printedValue(x any) string {
	const most = 200
	format := "%+v"
	if reflect.ValueOf(x).Kind() == reflect.String {
		format = "%q"
	}
	s := []rune(fmt.Sprintf(format, x))
	if len(s) > most {
		s = append(s[:most], '…')
	}
	return string(s)
}

// Broken implements [claims.Watcher].
func (s *observations) Broken(b claims.Broken) error {
	return &ClaimError{
		Op: b.Op.Name, Pos: b.Op.Pos, Why: dataflow.Proof(b.Op.Proof), Claim: b.Claim,
		State: b.State, A: b.A, B: b.B, One: b.One, Other: b.Other,
	}
}

// unchecked maps operators whose claims could not be checked to the reason.
type unchecked map[string]string

// Unchecked implements [claims.Watcher].
func (s *observations) Unchecked(op *engine.Op, why string) {
	if s.unchecked == nil {
		s.unchecked = make(unchecked)
	}
	s.unchecked[op.String()] = why
}

// lines returns a line for each claim that could not be checked.
func (u unchecked) lines() (all []string) {
	for _, op := range slices.Sorted(maps.Keys(u)) {
		all = append(all, fmt.Sprintf("sim: the claim of %s is not checked: %s", op, u[op]))
	}
	return all
}
