package sim

import (
	"fmt"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// An AliasError says that a value with several readers was changed by one of them, so that
// the next one read something else. It ends the flow of a schedule, wrapped in a
// [dataflow.StepError] of the operator that ran last before the change.
type AliasError struct {
	Op, Pos     string // operator that gave the value to its readers, and file:line of its call
	By, ByPos   string // operator that ran last before the change was seen
	Value       any    // as it is now
	description string
}

// Error says who gave the value to several readers and who ran last before it was changed.
func (e *AliasError) Error() string { return e.description }

// Changed implements [engine.Lender].
func (s *seen) Changed(op, by *engine.Op, value any) error {
	return &AliasError{
		Op: op.Name, Pos: op.Pos, By: by.Name, ByPos: by.Pos, Value: value,
		description: fmt.Sprintf("a value that %s has given to several readers was changed by one of them, and %s ran last; it is now %s: return a new value instead of changing one in place",
			op, by, printedValue(value)),
	}
}

// lookForChange notes, of a schedule whose choices are printed, after which operator the first
// value was changed that an operator had let out.
func (s *seen) lookForChange() {
	if s.notes == nil || s.told {
		return
	}
	for _, p := range s.values {
		if digest.Of(p.value) != p.digest {
			s.told = true
			by := p.op.Loc.Ops[p.op.Loc.At]
			s.notes.notes = append(s.notes.notes, fmt.Sprintf("a value of %s was changed; %s ran last", p.op, by))
			return
		}
	}
}
