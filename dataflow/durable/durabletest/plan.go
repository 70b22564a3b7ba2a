package durabletest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A plan is the faults of a run.
type plan struct {
	lost bool  // lose answers instead of crashing
	at   []int // moments, counted from 1 over all processes of the run
}

// String returns the plan in the syntax of the flag: crash.17, crash.17.19 or lost.18.
func (p plan) String() string {
	s := "crash"
	if p.lost {
		s = "lost"
	}
	for _, at := range p.at {
		s += "." + strconv.Itoa(at)
	}
	return s
}

func parsePlan(s string) (p plan, err error) {
	kind, rest, _ := strings.Cut(s, ".")
	if kind != "crash" && kind != "lost" {
		return p, fmt.Errorf("%q begins neither with crash nor with lost", s)
	}
	p.lost = kind == "lost"
	for rest != "" {
		var word string
		word, rest, _ = strings.Cut(rest, ".")
		at, err := strconv.Atoi(word)
		if err != nil || at < 1 {
			return p, fmt.Errorf("%q: %q is no number of a moment", s, word)
		}
		p.at = append(p.at, at)
	}
	return p, nil
}

// fault returns the fault at a moment, also in words. Happened is the number of earlier faults. An answer is
// lost after an action that is done. Runs differ if partitions act at the same time, so an answer is lost at
// the first such action from the planned moment on.
func (p plan) fault(at, happened int, a journal.Action) (f journal.Fault, words string) {
	if p.lost {
		if happened == len(p.at) || at < p.at[happened] || !a.Done {
			return f, ""
		}
	} else if !slices.Contains(p.at, at) {
		return f, ""
	}
	where := fmt.Sprintf("%s, partition %d", actions[a.Op], a.Partition)
	if a.Size > 0 {
		where += fmt.Sprintf(", %d bytes", a.Size)
	}
	if p.lost {
		return journal.Fault{Fail: true}, fmt.Sprintf("the answer is lost at moment %d, of %s", at, where)
	}
	when := "before"
	if a.Done {
		when = "after"
	}
	return journal.Fault{Crash: true}, fmt.Sprintf("a crash at moment %d, %s %s", at, when, where)
}

var actions = map[journal.Op]string{
	journal.OpAppend:   "appending records",
	journal.OpCommit:   "committing a step",
	journal.OpPiece:    "saving a piece of the state",
	journal.OpSnapshot: "saving a snapshot",
	journal.OpPurge:    "purging history",
}
