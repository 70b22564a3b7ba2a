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

// A ClaimError says that a claim for which an operator was given a [dataflow.Proof] does not hold. It
// ends the flow of a schedule, wrapped in a [dataflow.StepError].
//
// Claims are checked where they are made, in simulated flows only: each time that a function is
// called, the simulator calls it with copies of the last values as well, as far as the claim
// asks for it. So a wrong claim shows although no schedule shows its consequence. A step is
// called more often than values come for this, and must not count its calls.
type ClaimError struct {
	Op    string // operator, such as "dataflow.FoldCommutative"
	Pos   string // file:line of the call
	Why   dataflow.Proof
	Claim string // what is claimed, such as "the order does not matter"

	State any // before A and B came, or nil if the function has none
	A, B  any // the values that show it; B is nil if one is enough

	One   any // what the function makes of A and then B
	Other any // what it makes of B and then A, or what should not be less than One
}

// Error says what was claimed and which values show that it is wrong.
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
func (s *seen) Broken(b claims.Broken) error {
	return &ClaimError{
		Op: b.Op.Name, Pos: b.Op.Pos, Why: dataflow.Proof(b.Op.Proof), Claim: b.Claim,
		State: b.State, A: b.A, B: b.B, One: b.One, Other: b.Other,
	}
}

// unchecked are the claims that could not be checked, by operator, with the reason.
type unchecked map[string]string

// Unchecked implements [claims.Watcher].
func (s *seen) Unchecked(op *engine.Op, why string) {
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
