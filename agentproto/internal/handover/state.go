package handover

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A State is what one side knows of the transfers of one thing. The zero State is of something that was never moved.
//
// It maintains:
//
//  1. Transfer is the last transfer that changed something here, and steps of earlier ones change nothing,
//  2. at Here, Gone and None, Committed is the outcome of Transfer; at other places it has no outcome yet,
//  3. Left is false at Here: what is served here is not forwarded.
type State struct {
	Place     Place
	Transfer  string
	Committed bool
	Left      bool // it left from here before, so what arrives while it is away is forwarded
}

// Name returns a name for a transfer that begins now: a number, which is greater than that of all earlier ones, and a random
// text. Transfers are named only where the thing is, so no two have the same number. The number is the time in milliseconds
// or, if greater, one more than the last transfer's. So it grows even if the last transfer was forgotten, or if clocks differ.
func (s *State) Name(now time.Time) string {
	return fmt.Sprintf("%d.%s", max(Number(s.Transfer)+1, uint64(max(0, now.UnixMilli()))), rand.Text())
}

// Number returns the number of a transfer, or 0 if its name has none: then its order relative to others is unknown.
func Number(transfer string) uint64 {
	number, _, found := strings.Cut(transfer, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if !found || err != nil {
		return 0
	}
	return n
}

// Before reports whether a transfer is known to have begun before another.
func Before(transfer, other string) bool {
	a, b := Number(transfer), Number(other)
	return a != 0 && a < b
}

// Take makes a step of a transfer. It reports whether the step has changed something. A repeated step changes nothing. A step
// that is not allowed is refused with a reason.
func (s *State) Take(step Step, transfer string) (changed bool, why string) {
	switch {
	case step == Forget && s.Place.Still():
		return false, "it is " + s.Place.String() + ", and somebody has to know"
	case step == Forget:
		changed = s.Place != Here
		if changed {
			*s = State{}
		}
		return changed, ""
	case transfer == s.Transfer && transfer != "":
		return s.goOn(step)
	case Before(transfer, s.Transfer):
		return false, refuseUnlessAbort(step, "a later transfer has begun")
	case step == Abort:
		return s.never(transfer)
	case step == Stage && s.Place == Staged && Before(s.Transfer, transfer): // the source has taken the earlier one back
		s.Transfer = transfer
		return true, ""
	case step != Freeze && step != Stage:
		return false, "it is " + s.Place.String() + ", and not by this transfer"
	}
	return s.make(step, transfer)
}

// goOn makes a step of the last transfer.
func (s *State) goOn(step Step) (changed bool, why string) {
	switch {
	case s.Place == Here || s.Place == None || s.Place == Gone: // the transfer has ended
		switch outcome := s.Committed; {
		case !outcome && step != Abort:
			return false, "this transfer was aborted"
		case outcome && step == Abort:
			return false, "this transfer was committed"
		case outcome && s.Place == Here && (step == Freeze || step == Send), outcome && s.Place == Gone && step == Stage:
			return false, "it is " + s.Place.String() + " by this transfer"
		}
		return false, ""
	case s.Place.Leaving() && step == Freeze, s.Place == Doubt && step == Send, s.Place == Staged && step == Stage:
		return false, ""
	}
	return s.make(step, s.Transfer)
}

// never records that a transfer which is unknown here was aborted: from now on its Stage is refused.
func (s *State) never(transfer string) (changed bool, why string) {
	switch {
	case s.Place.Leaving():
		return false, "it is " + s.Place.String() + ", and not by this transfer"
	case s.Place == Here || s.Place == Staged && !Before(s.Transfer, transfer):
		return false, "" // it cannot be staged in this state
	}
	changed = s.Place == Staged
	s.Place, s.Transfer, s.Committed = s.away(None), transfer, false
	return changed, ""
}

// make makes a step if the table allows it, and otherwise refuses it.
func (s *State) make(step Step, transfer string) (changed bool, why string) {
	to, ok := next[at{s.Place, step}]
	if !ok {
		return false, "it is " + s.Place.String()
	}
	s.Place, s.Transfer = s.away(to), transfer
	s.Committed = step == Commit
	s.Left = to == Gone || s.Left && to != Here
	return true, ""
}

// away returns the place of something that is not here. If it has left before, it is Gone, even if its return was aborted.
func (s *State) away(to Place) Place {
	if to == None && s.Left {
		return Gone
	}
	return to
}

// refuseUnlessAbort returns why a step is refused. An Abort is not refused, since the transfer can no longer happen.
func refuseUnlessAbort(step Step, why string) string {
	if step == Abort {
		return ""
	}
	return why
}
