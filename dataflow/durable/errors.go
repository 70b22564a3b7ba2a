package durable

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

var (
	// ErrChanged says that the flow is not the one that made the history: operators or
	// types were changed in a way that needs a line in [Options].Upgrade. The error has the
	// lines.
	ErrChanged = errors.New("durable: the program has changed since the history was made")

	// ErrDiverged says that a step of the history, made again, gives something else: a
	// function given to an operator depends on more than its arguments, or was changed.
	ErrDiverged = errors.New("durable: a step made again gives something else")

	// ErrMissing says that there is no history where [OpenHistory] was told to look.
	ErrMissing = journal.ErrMissing

	// ErrDamaged says that a part of the history is gone or cannot be read, or that one part
	// is older than another. The flow does not start, since it would take for granted what is
	// not there. The message says which part it is.
	ErrDamaged = journal.ErrDamaged

	// ErrNoRoom is the cause of a [*BacklogError] that did not wait; see [Options].Reject.
	ErrNoRoom = errors.New("durable: there is no room")

	// ErrStopped says that the app was stopped.
	ErrStopped = errors.New("durable: stopped")
)

// A DamagedError is an [ErrDamaged] that a start or a step of a partition has found.
type DamagedError struct {
	History   string // name of the application
	Log       string // where it is
	Partition int
	Damage    string // what is wrong, in words

	// Token is what a person gives to [Salvage] to accept the loss. It is empty where there is nothing that
	// Salvage could copy better. The same damage has the same token.
	Token string
	Lost  []string // what Salvage would leave out, in words; only Salvage says it
}

func (e *DamagedError) Error() string {
	text := fmt.Sprintf("%v: %s in %s: partition %d: %s; put back what was lost, or all of the history from one backup, or begin a new one elsewhere",
		ErrDamaged, e.History, e.Log, e.Partition, e.Damage)
	if e.Token != "" {
		text += fmt.Sprintf(", or accept the loss: durable.Salvage, or `millrace durable salvage`, copies what is left with the token %s", e.Token)
	}
	return text
}

func (e *DamagedError) Unwrap() error { return ErrDamaged }

// A QuarantinedError says that a record is kept, and that the program cannot handle it, or one
// of its key that came before it; see [App.Quarantine].
type QuarantinedError struct {
	Partition int
	Letter    uint64 // its number there
}

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("durable: the record is kept, and waits in the quarantine of partition %d as number %d: the program cannot handle it, or one of its key before it; see App.Quarantine", e.Partition, e.Letter)
}

// Is reports whether target is [dataflow.ErrQuarantined].
func (e *QuarantinedError) Is(target error) bool { return target == dataflow.ErrQuarantined }

// A DivergedError is an [ErrDiverged] with its place.
type DivergedError struct {
	Partition int
	Step      uint64 // its fence in the journal
	Was, Is   []byte // the outputs recorded, and those that came now
	Err       error  // why no outputs came: a function failed that did not when the step was committed; else nil

	// State says that the step gives the same, and that operators remember something else
	// after it. Operator is the first one that does, with its place, and Key is for which
	// key, where that is known.
	State         bool
	Operator, Key string

	MadeBy, AgainBy string // versions of the programs, as [Options].Version: the one that committed it, and this one
}

// versions says which versions the programs have, if they differ.
func (e *DivergedError) versions() string {
	if e.MadeBy == e.AgainBy {
		return ""
	}
	return fmt.Sprintf("; it was made by version %q, and made again by version %q", e.MadeBy, e.AgainBy)
}

func (e *DivergedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%v: partition %d, step %d: %v%s; start a program whose functions can make it again", ErrDiverged, e.Partition, e.Step, e.Err, e.versions())
	}
	what := fmt.Sprintf("%d bytes of outputs were recorded, %d came now, the first difference at byte %d; look at both with `millrace log replay`", len(e.Was), len(e.Is), firstDifference(e.Was, e.Is))
	if e.State {
		what = "the outputs are as recorded, and " + e.state()
	}
	return fmt.Sprintf("%v: partition %d, step %d: %s%s; "+
		"if the program was changed, start the one that made the history, stop it, which makes a snapshot, and start this one; or let what was recorded stand, with Options.Divergence = KeepRecorded",
		ErrDiverged, e.Partition, e.Step, what, e.versions())
}

// state says who remembers something else.
func (e *DivergedError) state() string {
	who := e.Operator
	if who == "" {
		who = "an operator"
	}
	if e.Key != "" {
		who += fmt.Sprintf(", for the key %s,", e.Key)
	}
	return who + " remembers something else: one of its functions depends on more than its arguments, or changes what it was given earlier"
}

// Unwrap returns [ErrDiverged], and why no outputs came.
func (e *DivergedError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrDiverged}
	}
	return []error{ErrDiverged, e.Err}
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
