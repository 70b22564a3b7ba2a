package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/internal/plain"
)

// busiest is the number of operators in the summary.
const busiest = 10

// views print parts of a report, by the word that asks for them.
var views = map[string]func(*report){
	"":           (*report).summary,
	"locations":  (*report).locations,
	"operators":  (*report).allOperators,
	"outputs":    (*report).outputs,
	"partitions": (*report).partitions,
	"graph":      (*report).operatorsAndReaders,
}

// A report describes a flow, or agents. Each text from elsewhere is printed on one line.
type report struct {
	s      *inspect.Snapshot
	graph  *graphBody
	health *healthBody
	text   bytes.Buffer
	table  *tabwriter.Writer
}

func newReport(s *inspect.Snapshot, graph *graphBody, health *healthBody) *report {
	t := &report{s: s, graph: graph, health: health}
	t.table = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	if s != nil {
		s.Operators = s.Operators[:min(len(s.Operators), len(graph.Operators))]
	}
	return t
}

func (t *report) flush(to io.Writer) error {
	t.table.Flush() // writes to memory, so there is no error
	_, err := to.Write(t.text.Bytes())
	return err
}

// line ends a table and writes a line.
func (t *report) line(format string, args ...any) {
	t.table.Flush()
	fmt.Fprintf(&t.text, format+"\n", args...)
}

// row adds a row to a table.
func (t *report) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = plain.Line(fmt.Sprint(c))
	}
	fmt.Fprintln(t.table, strings.Join(texts, "\t"))
}

// summary prints the overview.
func (t *report) summary() {
	name := plain.Line(t.graph.Name)
	switch {
	case len(t.health.Reasons) > 0:
		texts := make([]string, len(t.health.Reasons))
		for i, r := range t.health.Reasons {
			texts[i] = plain.Line(reasonText(r))
		}
		t.line("%s is not healthy: %s.", name, strings.Join(texts, "; "))
	case t.s.Ended:
		t.line("%s has ended.", name)
	default:
		t.line("%s is healthy.", name)
	}
	if t.s.Error != "" {
		t.line("It has ended: %s", plain.Line(t.s.Error))
	}
	for _, stopped := range t.s.Stopped {
		what := plain.Line(stopped.Location)
		if stopped.Partition >= 0 {
			what = fmt.Sprintf("Partition %d of %s", stopped.Partition, what)
		}
		since := ""
		if !stopped.Since.IsZero() {
			since = " since " + t.s.At.Sub(stopped.Since).Round(time.Second).String()
		}
		t.line("%s does not run%s: %s", what, since, plain.Line(stopped.Why))
	}
	t.line("")
	t.locations()
	if len(t.s.Partitions) > 0 {
		t.line("")
		t.partitions()
	}
	if len(t.s.Outputs) > 0 {
		t.line("")
		t.outputs()
	}
	t.line("")
	t.operators(t.busiest())
	if !t.s.Counted {
		t.line("\nElements are not counted: dataflow.Options.Count has each operator count what comes to it.")
	}
}

// reasonText says in words why a flow is not healthy.
func reasonText(r inspect.Reason) string {
	switch r {
	case inspect.Failed:
		return "it has ended with an error"
	case inspect.Blocked:
		return "a location has stood still for ten seconds or longer"
	case inspect.StepHangs:
		return "a step has gone on for 30 seconds or longer"
	case inspect.Restoring:
		return "a partition is being restored"
	case inspect.Halted:
		return "a partition cannot go on, or takes only what makes room"
	}
	return string(r)
}

func (t *report) locations() {
	t.row("location", "state", "steps", "records", "queued", "may", "senders wait", "calls", "calls wait", "timers")
	for _, l := range t.s.Locations {
		state := "runs"
		switch {
		case l.Ended:
			state = "ended"
		case l.Stopped:
			state = "stopped"
		case l.Stale:
			state = "in a long step"
		}
		t.row(l.Name, state, l.Steps, l.Records, l.Queued, l.Bound, l.Senders, l.Calls, l.Waiting, l.Timers)
	}
}

func (t *report) partitions() {
	t.row("partition", "location", "state", "step", "behind", "bytes", "committed", "saved", "quarantined", "owner")
	for _, p := range t.s.Partitions {
		t.row(p.Number, p.Location, p.State, p.Step, p.LagRecords, p.LagBytes, t.ago(p.Committed), t.ago(p.Saved), p.Quarantined, cmp.Or(p.Owner, "-"))
	}
}

func (t *report) outputs() {
	t.row("output", "location", "given", "waiting", "may")
	for _, o := range t.s.Outputs {
		may := "any"
		if o.Bound > 0 {
			may = strconv.Itoa(o.Bound)
		}
		t.row(o.Port, o.Location, o.Given, o.Unread, may)
	}
}

// ago says how long ago a time was.
func (t *report) ago(at time.Time) string {
	switch d := t.s.At.Sub(at); {
	case at.IsZero():
		return "-"
	case d < time.Second:
		return "now"
	default:
		return d.Round(time.Second).String() + " ago"
	}
}

// busiest returns the operators that received most or, where that is not counted, that do and keep most.
func (t *report) busiest() (all []int) {
	for i, o := range t.s.Operators {
		if o != (inspect.Operator{}) {
			all = append(all, i)
		}
	}
	slices.SortStableFunc(all, func(i, j int) int {
		a, b := t.s.Operators[i], t.s.Operators[j]
		return cmp.Or(cmp.Compare(b.Entered, a.Entered), cmp.Compare(b.Calls+b.Waiting, a.Calls+a.Waiting), cmp.Compare(b.Kept, a.Kept))
	})
	return all[:min(len(all), busiest)]
}

func (t *report) allOperators() {
	all := make([]int, len(t.s.Operators))
	for i := range all {
		all[i] = i
	}
	t.operators(all)
}

func (t *report) operators(all []int) {
	t.row("operator", "name", "location", "in", "kept", "bytes", "calls", "calls wait", "timers", "made at")
	for _, i := range all {
		o, of := t.graph.Operators[i], t.s.Operators[i]
		in := "-"
		if t.s.Counted {
			in = strconv.FormatUint(of.Entered, 10)
		}
		t.row(fmt.Sprintf("%s#%d", o.Name, i), cmp.Or(o.Label, o.Port, "-"), t.place(o.Location), in, of.Kept, of.Bytes, of.Calls, of.Waiting, of.Timers, o.Pos)
	}
}

// place returns the name of a location.
func (t *report) place(location int) string {
	if location < 0 || location >= len(t.graph.Locations) {
		return "-"
	}
	return t.graph.Locations[location]
}

// operatorsAndReaders prints the graph: each operator with those that read it.
func (t *report) operatorsAndReaders() {
	readers := make(map[int][]string)
	for _, e := range t.graph.Edges {
		readers[e.From] = append(readers[e.From], "#"+strconv.Itoa(e.To))
	}
	t.row("operator", "name", "location", "read by", "made at", "reason or proof")
	for i, o := range t.graph.Operators {
		t.row(fmt.Sprintf("%s#%d", o.Name, i), cmp.Or(o.Label, o.Port, "-"), t.place(o.Location), cmp.Or(strings.Join(readers[i], " "), "-"), o.Pos, cmp.Or(o.Why, o.Proof, "-"))
	}
}
