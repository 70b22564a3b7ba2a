package durable

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

var (
	// ErrChanged says that the flow is not the one that made the history: its operators or types were changed
	// in a way that [Options].Upgrade has to declare. The error has the lines to add.
	ErrChanged = errors.New("durable: the program has changed since the history was made")

	// ErrDiverged says that a replayed step of the history gives a different result: a function given to an
	// operator depends on more than its arguments, or was changed.
	ErrDiverged = errors.New("durable: a step made again gives something else")

	// ErrMissing says that there is no history at the place given to [OpenHistory].
	ErrMissing = journal.ErrMissing

	// ErrDamaged says that a part of the history is missing or unreadable, or that one part is older than
	// another. The flow does not start, since it would rely on what is missing. The message names the part.
	ErrDamaged = journal.ErrDamaged

	// ErrNoRoom is the cause of a [*BacklogError] that was returned without waiting; see [Options].Reject.
	ErrNoRoom = errors.New("durable: there is no room")

	// ErrStopped says that the app was stopped.
	ErrStopped = errors.New("durable: stopped")
)

// A DamagedError is an [ErrDamaged] found by a start or by a step of a partition.
type DamagedError struct {
	History   string // name of the application
	Log       string // where the log is
	Partition int
	Damage    string // what is wrong, in words

	// Token is what a person passes to [Salvage] to accept the loss. The same damage has the same token. It is
	// empty if Salvage could not copy the history any better.
	Token string
	Lost  []string // what Salvage would leave out, in words; only Salvage fills it in
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

// A QuarantinedError says that a record is stored but quarantined, because the program cannot handle it or an
// earlier record of its key; see [App.Quarantine].
type QuarantinedError struct {
	Partition int
	Letter    uint64 // its ID in the partition, as [Letter].ID
}

func (e *QuarantinedError) Error() string {
	return fmt.Sprintf("durable: the record is kept, and waits in the quarantine of partition %d as number %d: the program cannot handle it, or one of its key before it; see App.Quarantine", e.Partition, e.Letter)
}

// Is reports whether target is [dataflow.ErrQuarantined].
func (e *QuarantinedError) Is(target error) bool { return target == dataflow.ErrQuarantined }

// A DivergedError is an [ErrDiverged] with the place where it happened.
type DivergedError struct {
	Partition int
	Step      uint64 // its number in the journal
	Was, Is   []byte // the recorded outputs, and those of the replay
	Err       error  // why the replay gave no outputs: a function failed that did not fail when the step was committed; else nil

	// State reports that the outputs are the same but operators remember something different after the step.
	// Operator is the first such operator, with its position in the source, and Key is the key concerned, if
	// known.
	State         bool
	Operator, Key string

	MadeBy, AgainBy string // versions of the programs that committed and that replayed the step, as [Options].Version
}

// versions names the versions of the two programs, if they differ.
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

// state says which operator remembers something different.
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

// Unwrap returns [ErrDiverged], and Err if the replay gave no outputs.
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
