package figures_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect/internal/figures"
)

// A made is a flow with an invented status.
type made struct {
	graph  dataflow.Graph
	status []dataflow.LocationStatus
}

func (m *made) Graph() dataflow.Graph             { return m.graph }
func (m *made) Done() <-chan struct{}             { return nil }
func (m *made) Err() error                        { return nil }
func (m *made) Status() []dataflow.LocationStatus { return m.status }

// value returns a figure by the name of its family and its labels.
func value(s *figures.Source, name string, labels ...string) float64 {
	families := figures.Families()
	for _, f := range s.Take() {
		if families[f.Family].Name == name && slices.Equal(f.Labels, labels) {
			return f.Value
		}
	}
	return -1
}

// TestCountersGoOn has a flow whose counts decrease, as those of a durable location do when another process
// takes over one of its partitions. The counter must not decrease, and later increases are added.
func TestCountersGoOn(t *testing.T) {
	m := &made{dataflow.Graph{Locations: []string{"hall"}}, []dataflow.LocationStatus{{Name: "hall"}}}
	s := figures.New(m)
	for _, step := range []struct {
		steps uint64
		want  float64
	}{{10, 10}, {15, 15}, {3, 15}, {4, 16}, {0, 16}, {20, 36}} {
		m.status[0].Steps = step.steps
		if n := value(s, "steps", "hall"); n != step.want {
			t.Errorf("with %d steps the counter is %v, want %v", step.steps, n, step.want)
		}
	}
	if n := value(figures.New(m), "steps", "hall"); n != 20 {
		t.Errorf("another source begins at %v", n)
	}
}

// TestNeverCopied has a location that stays in its first step. Its figures are as old as the source.
func TestNeverCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &made{dataflow.Graph{Locations: []string{"hall"}}, []dataflow.LocationStatus{{Name: "hall", Stale: true}}}
		s := figures.New(m)
		time.Sleep(time.Minute)
		if age := value(s, "scrape.stale", "hall"); age != 60 {
			t.Errorf("the figures are %v s old", age)
		}
	})
}

// TestLabels checks names that occur twice or are not valid UTF-8, and operators without figures.
func TestLabels(t *testing.T) {
	m := &made{
		dataflow.Graph{
			Locations: []string{"hall", "hall"},
			Slices:    []dataflow.GraphSlice{{Location: 1, Pos: "a.go:1"}, {Location: 1, Pos: "a.go:2"}, {Location: 1, Pos: "a.go:1"}},
			Operators: []dataflow.GraphOperator{
				{Name: "dataflow.Input", Port: "\xff"},
				{Name: "dataflow.Map", Pos: "a.go:3"},
				{Name: "keyedstream.Scan", Keeps: true, Location: 1},
				{Name: "keyedstream.Fold", Label: "sum", Keeps: true, Location: 1},
			},
		},
		[]dataflow.LocationStatus{
			{Name: "hall", Counted: true, Operators: []dataflow.OperatorStatus{{Entered: 1}, {Entered: 1}}, Outputs: []dataflow.OutputStatus{{Operator: 1, Unread: 3}}},
			{Name: "hall", Counted: true, Operators: []dataflow.OperatorStatus{{Entered: 2}, {Kept: 7}}, Slices: []dataflow.SliceStatus{{Pos: "a.go:1", Runs: 5}, {Pos: "a.go:2", Runs: 6}}},
		},
	}
	s := figures.New(m)
	families := figures.Families()
	seen := make(map[string]bool)
	for _, f := range s.Take() {
		all := families[f.Family].Name + " " + strings.Join(f.Labels, ",")
		if seen[all] || len(f.Labels) != len(families[f.Family].Labels) || strings.Contains(all, ".go") {
			t.Errorf("labels %q of %q", f.Labels, families[f.Family].Name)
		}
		seen[all] = true
	}
	for _, name := range []string{"operator.records hall,dataflow.Input#0,\uFFFD", "operator.records hall#1,keyedstream.Scan#2,", "operator.keys hall#1,sum,", "slice.runs hall#1,1"} {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
	for _, name := range []string{"operator.records hall,dataflow.Map#1,", "operator.keys hall,dataflow.Input#0,\uFFFD", "slice.runs hall#1,2"} {
		if seen[name] {
			t.Errorf("there is %s", name)
		}
	}
	if value(s, "output.waiting.records", "hall", "dataflow.Map#1", "") != 3 || value(s, "output.limit.records", "hall", "dataflow.Map#1", "") != -1 {
		t.Error("an output that stops nothing has a limit, or nothing waits there")
	}
	if n := value(s, "operator.keys", "hall#1", "sum", ""); n != 7 {
		t.Errorf("sum has %v keys", n)
	}
}

// TestNames checks that the Prometheus names follow from the OpenTelemetry names, and that no name is a
// prefix of another.
func TestNames(t *testing.T) {
	all := figures.Families()
	for i, f := range all {
		for j, other := range all {
			if i != j && (f.Prometheus() == other.Prometheus() || strings.HasPrefix(other.Name, f.Name+".")) {
				t.Errorf("%s and %s", f.Name, other.Name)
			}
		}
	}
	for _, c := range []struct{ name, want string }{
		{"operator.records", "millrace_operator_records_total"}, {"scrape.stale", "millrace_scrape_stale_seconds"},
		{"operator.state", "millrace_operator_state_bytes"}, {"queue.records", "millrace_queue_records"},
	} {
		if i := slices.IndexFunc(all, func(f figures.Family) bool { return f.Name == c.name }); i < 0 || all[i].Prometheus() != c.want {
			t.Errorf("%s is not %s", c.name, c.want)
		}
	}
}
