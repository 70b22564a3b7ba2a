package handover

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"
)

// The transfers in the table, relative to a state whose last transfer is this.
const (
	this  = "5.this"
	early = "4.early"
	late  = "6.late"
	other = "other" // has no number
)

// rows are all possible states, with their names in the table.
var rows = []struct {
	name  string
	state State
}{
	{"here", State{}},
	{"here aborted", State{Transfer: this}},
	{"here committed", State{Transfer: this, Committed: true}},
	{"frozen", State{Place: Frozen, Transfer: this}},
	{"doubt", State{Place: Doubt, Transfer: this}},
	{"gone", State{Place: Gone, Transfer: this, Committed: true, Left: true}},
	{"gone aborted", State{Place: Gone, Transfer: this, Left: true}},
	{"none", State{Place: None}},
	{"none aborted", State{Place: None, Transfer: this}},
	{"staged", State{Place: Staged, Transfer: this}},
	{"staged again", State{Place: Staged, Transfer: this, Left: true}},
}

var allSteps = []Step{Freeze, Send, Stage, Commit, Abort, Forget}

// table is the whole table. A "-" means refused and "=" unchanged. Otherwise the cell is the new place, with a "+" if the
// transfer was committed.
const table = `
here            this   frozen    -         -         -         =         =
here            early  frozen    -         -         -         =         =
here            late   frozen    -         -         -         =         =
here            other  frozen    -         -         -         =         =
here aborted    this   -         -         -         -         =         =
here aborted    early  -         -         -         -         =         =
here aborted    late   frozen    -         -         -         =         =
here aborted    other  frozen    -         -         -         =         =
here committed  this   -         -         =         =         -         =
here committed  early  -         -         -         -         =         =
here committed  late   frozen    -         -         -         =         =
here committed  other  frozen    -         -         -         =         =
frozen          this   =         in doubt  -         -         here      -
frozen          early  -         -         -         -         =         -
frozen          late   -         -         -         -         -         -
frozen          other  -         -         -         -         -         -
doubt           this   =         =         -         gone+     here      -
doubt           early  -         -         -         -         =         -
doubt           late   -         -         -         -         -         -
doubt           other  -         -         -         -         -         -
gone            this   =         =         -         =         -         here
gone            early  -         -         -         -         =         here
gone            late   -         -         staged    -         gone      here
gone            other  -         -         staged    -         gone      here
gone aborted    this   -         -         -         -         =         here
gone aborted    early  -         -         -         -         =         here
gone aborted    late   -         -         staged    -         gone      here
gone aborted    other  -         -         staged    -         gone      here
none            this   -         -         staged    -         not here  here
none            early  -         -         staged    -         not here  here
none            late   -         -         staged    -         not here  here
none            other  -         -         staged    -         not here  here
none aborted    this   -         -         -         -         =         here
none aborted    early  -         -         -         -         =         here
none aborted    late   -         -         staged    -         not here  here
none aborted    other  -         -         staged    -         not here  here
staged          this   -         -         =         here+     not here  -
staged          early  -         -         -         -         =         -
staged          late   -         -         staged    -         not here  -
staged          other  -         -         -         -         =         -
staged again    this   -         -         =         here+     gone      -
staged again    early  -         -         -         -         =         -
staged again    late   -         -         staged    -         gone      -
staged again    other  -         -         -         -         =         -`

// TestTable tries every step in every state, for this, an earlier, a later and an unnumbered transfer.
func TestTable(t *testing.T) {
	var got strings.Builder
	for _, row := range rows {
		for _, transfer := range []string{this, early, late, other} {
			_, who, _ := strings.Cut("."+strings.TrimLeft(transfer, "456."), ".")
			fmt.Fprintf(&got, "\n%-15s %-6s", row.name, who)
			for _, step := range allSteps {
				s := row.state
				changed, why := s.Take(step, transfer)
				cell := s.Place.String()
				switch {
				case why != "" && (changed || s != row.state):
					t.Errorf("%s, %s of %s: refused with %q, and changed to %+v", row.name, step, transfer, why, s)
				case why != "":
					cell = "-"
				case s == row.state && !changed:
					cell = "="
				case s.Committed:
					cell += "+"
				}
				if s.Place == Here && s.Left || s.Committed && s.Place != Here && s.Place != Gone {
					t.Errorf("%s, %s of %s: %+v", row.name, step, transfer, s)
				}
				fmt.Fprintf(&got, " %-9s", cell)
				again := s
				if changed, whyNot := again.Take(step, transfer); why == "" && (changed || again != s || whyNot != "") {
					t.Errorf("%s, %s of %s made twice: %+v and then %+v, %q", row.name, step, transfer, s, again, whyNot)
				}
			}
		}
	}
	if got := strings.Join(slices.Collect(trimmed(got.String())), "\n"); got != table {
		t.Errorf("the table is\n%s", got)
	}
}

// trimmed returns the lines of a text without trailing spaces.
func trimmed(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if !yield(strings.TrimRight(line, " \n")) {
				return
			}
		}
	}
}

// TestNames checks that the holder of a thing numbers its transfers, and that a name without a number is neither before nor after
// another.
func TestNames(t *testing.T) {
	var s State
	began := time.UnixMilli(1_000_000)
	for i, want := range []uint64{1_000_000, 1_000_001, 1_000_002, 1_120_000} {
		at := began.Add([]time.Duration{0, 0, -time.Minute, 2 * time.Minute}[i]) // another place, whose clock is behind
		name := s.Name(at)
		if Number(name) != want || Before(name, s.Transfer) || i > 0 && !Before(s.Transfer, name) {
			t.Errorf("transfer %d is named %q, after %q", i, name, s.Transfer)
		}
		for _, step := range []Step{Freeze, Abort} {
			if changed, why := s.Take(step, name); !changed || why != "" {
				t.Errorf("%s of %q: %v, %q", step, name, changed, why)
			}
		}
	}
	for _, name := range []string{"", "m", "x.5", "-1.x", "5"} {
		if Number(name) != 0 || Before(name, s.Transfer) || Before(s.Transfer, name) {
			t.Errorf("%q has the number %d", name, Number(name))
		}
	}
}
