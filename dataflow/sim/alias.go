package sim

import (
	"fmt"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// An AliasError reports that one of several readers of a value changed it, so that the next
// one read something else. It ends the flow of a schedule, wrapped in a [dataflow.StepError]
// of the operator that ran last before the change.
type AliasError struct {
	Op, Pos     string // operator that gave the value to its readers, and file:line of its call
	By, ByPos   string // operator that ran last before the change was seen
	Value       any    // as it is now
	description string
}

// Error names the operator that gave the value to several readers and the one that ran last
// before the change.
func (e *AliasError) Error() string { return e.description }

// Changed implements [engine.AliasChecker].
func (s *observations) Changed(op, by *engine.Op, value any) error {
	return &AliasError{
		Op: op.Name, Pos: op.Pos, By: by.Name, ByPos: by.Pos, Value: value,
		description: fmt.Sprintf("a value that %s has given to several readers was changed by one of them, and %s ran last; it is now %s: return a new value instead of changing one in place",
			op, by, printedValue(value)),
	}
}

// lookForChange notes after which operator the first published value was changed, in a
// schedule whose choices are printed.
func (s *observations) lookForChange() {
	if s.notes == nil || s.changeNoted {
		return
	}
	for _, p := range s.values {
		if digest.Of(p.value) != p.digest {
			s.changeNoted = true
			by := p.op.Loc.Ops[p.op.Loc.At]
			s.notes.notes = append(s.notes.notes, fmt.Sprintf("a value of %s was changed; %s ran last", p.op, by))
			return
		}
	}
}
