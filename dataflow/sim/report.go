package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A Report says what an exploration has covered.
type Report struct {
	// Complete reports that every schedule was covered. If it is false, Why is the reason.
	Complete bool
	Why      string

	Schedules   int // distinguishable schedules
	Executions  int // runs of the specification
	Blocked     int // executions that were given up, since they led to nothing new
	Discarded   int // executions that an Assume discarded
	Transitions int // moves that were made, in all executions
	Depth       int // moves of the longest execution

	Reasons   []Reason       // the operators that were given a reason, in order of construction
	Sometimes map[string]int // in how many executions each held
	Unchecked []string       // claims that could not be checked, and why

	Seed    uint64  // of an exploration at random
	Missed  float64 // with [ByPriority], an upper bound for the chance that all schedules missed a bug of the depth
	Elapsed time.Duration
}

// A Reason is an operator whose result depends on timing, with the reason that the program gives
// for it.
type Reason struct {
	Op   string // such as "slice.Batch"
	Pos  string // file:line
	Text string // the reason given

	// Choices is the number of moves, in all executions, that concerned the operator or cut its
	// slice where another move was possible. If it is 0, nothing about the reason was tried.
	Choices int
}

// String prints the report on some lines.
func (r *Report) String() string {
	var b strings.Builder
	what := "all schedules"
	if !r.Complete {
		what = "not all schedules: " + r.Why
	}
	fmt.Fprintf(&b, "%s: %d in %d executions", what, r.Schedules, r.Executions)
	if r.Blocked > 0 {
		fmt.Fprintf(&b, ", %d of them given up as known", r.Blocked)
	}
	if r.Discarded > 0 {
		fmt.Fprintf(&b, ", %d discarded", r.Discarded)
	}
	fmt.Fprintf(&b, "; %d moves, at most %d in one; %v", r.Transitions, r.Depth, r.Elapsed.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(r.Sometimes)) {
		fmt.Fprintf(&b, "\nsometimes %q: in %d executions", name, r.Sometimes[name])
	}
	for _, x := range r.Reasons {
		how := fmt.Sprintf("%d choices", x.Choices)
		if x.Choices == 0 {
			how = "nothing to choose: no schedule tries it"
		}
		fmt.Fprintf(&b, "\n%s (%s) %q: %s", x.Op, x.Pos, x.Text, how)
	}
	for _, line := range r.Unchecked {
		b.WriteString("\n" + line)
	}
	return b.String()
}

// A tally counts what is explored. It may be used by several goroutines.
type tally struct {
	mu sync.Mutex
	counts
}

// counts is the part of a tally that a checkpoint contains.
type counts struct {
	Executions  int
	Blocked     int
	Discarded   int
	Transitions int
	Depth       int
	Reasons     []Reason
	Sometimes   map[string]int
}

func newTally() *tally { return &tally{counts: counts{Sometimes: make(map[string]int)}} }

// names returns the names of the Sometimes properties, sorted.
func (t *tally) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.Sometimes))
}

// add counts a schedule of a specification. Other schedules are ignored.
func (t *tally) add(run execution) {
	x := run.spec
	if t == nil || x == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Executions++
	if run.blocked {
		t.Blocked++
	}
	if x.discarded {
		t.Discarded++
	}
	t.Transitions += int(x.moves)
	t.Depth = max(t.Depth, int(x.moves))
	for i, p := range x.inst.sometimes {
		t.Sometimes[p.name] += 0
		if x.held[i] {
			t.Sometimes[p.name]++
		}
	}
	if t.Reasons == nil {
		for _, op := range x.reasons.ops {
			t.Reasons = append(t.Reasons, Reason{Op: op.Name, Pos: op.Pos, Text: op.Why})
		}
	}
	for i, n := range x.reasons.choices {
		if i < len(t.Reasons) {
			t.Reasons[i].Choices += n
		}
	}
}

// report returns the report of an exploration.
func (x subject) report(found exploration, o options, missed float64) *Report {
	t := x.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Report{
		Complete: found.complete && found.failed == nil && x.ctx.Err() == nil, Schedules: found.schedules,
		Executions: t.Executions, Blocked: t.Blocked, Discarded: t.Discarded, Transitions: t.Transitions, Depth: t.Depth,
		Reasons: t.Reasons, Sometimes: maps.Clone(t.Sometimes), Unchecked: found.outs.unchecked.lines(), Seed: o.seed, Missed: missed,
	}
	switch {
	case r.Complete:
	case found.misfit:
		r.Why = misfit
	case found.failed != nil:
		r.Why = "one failed"
	case x.ctx.Err() != nil:
		r.Why = "the context ended"
	case found.unsteady != "":
		r.Why = "one came out differently when it was run again"
	case o.script != nil:
		r.Why = "one was run"
	case o.depth > 0:
		r.Why = fmt.Sprintf("they were chosen by priority, with seed %d; a bug that needs %d orderings was missed with a chance of at most %.2g", o.seed, o.depth, missed)
	case o.runs > 0:
		r.Why = fmt.Sprintf("they were chosen at random, with seed %d", o.seed)
	default:
		r.Why = fmt.Sprintf("the limit is %d executions", o.limit)
	}
	return r
}

// reasons counts, in one schedule, the choices that concern operators with a reason.
type reasons struct {
	ops     []*engine.Op
	choices []int
	at      map[engine.Object]int // index of the operator, by its object
	by      map[*engine.Op]int
	chosen  bool // another move was possible
}

// find finds the operators that were given a reason.
func (r *reasons) find(g *engine.Graph) {
	r.at, r.by = make(map[engine.Object]int), make(map[*engine.Op]int)
	for _, s := range g.Locations {
		for _, op := range s.Ops {
			if op.Why != "" {
				r.at[op.Object(0)], r.by[op] = len(r.ops), len(r.ops)
				r.ops = append(r.ops, op)
			}
		}
	}
	r.choices = make([]int, len(r.ops))
}

// offered notes the move that was chosen out of among possible ones.
func (r *reasons) offered(m *simulate.Move, among int) {
	if r.chosen = among > 1; !r.chosen {
		return
	}
	for _, op := range m.Reasons() {
		r.choices[r.by[op]]++
	}
}

// made counts what the move has touched.
func (r *reasons) made(e *simulate.Effect) {
	if !r.chosen {
		return
	}
	last := -1
	for _, t := range e.Touched {
		o := t.Object
		o.Key = 0
		if i, ok := r.at[o]; ok && i != last {
			r.choices[i]++
			last = i
		}
	}
}
