// Package figures defines the metrics of a flow for both Prometheus and OpenTelemetry: their names, their
// units, and how to compute them from an [inspect.Snapshot].
//
// A [Family] is a metric. A [Source] takes snapshots of a flow and returns the figures of all families.
// Start reading at the table of families.
package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/inspect"
)

// The parts of a snapshot, under the names in the table.
type (
	at   = inspect.Location
	op   = inspect.Operator
	out  = inspect.Output
	part = inspect.Partition
)

const runs = string(durable.Running)

// Families returns all metrics.
func Families() []Family { return slices.Clone(families) }

// Prometheus returns the name of a metric in Prometheus: with its unit, and with _total if it is a counter.
func (f *Family) Prometheus() string {
	name := "millrace_" + strings.ReplaceAll(f.Name, ".", "_")
	switch f.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	}
	if f.Kind == Counter {
		name += "_total"
	}
	return name
}

// A Figure is a value of a metric.
type Figure struct {
	Family int // index in [Families]
	Value  float64
	Labels []string // the values of [Family].Labels
}

// A Source returns the figures of a flow. Any number of goroutines may call its methods.
type Source struct {
	app   inspect.App
	began time.Time

	// A started flow gets no more operators, so all labels are known.
	graph     dataflow.Graph
	locations []string   // by index in the graph
	operators [][]string // the values of the labels of an operator, by index in the graph
	shown     []int      // operators that have figures
	cuts      []cut

	mu       sync.Mutex
	counters map[string]*counter // by family and labels
}

// A cut is a slice: one for each location and each place at which slices are made.
type cut struct {
	location, number int
	pos              string
}

// A counter continues to grow when the figures of a flow decrease, because a partition that another process
// has taken over is no longer in the sum.
type counter struct{ last, sum float64 }

// A taken is a snapshot of a source.
type taken struct {
	inspect.Snapshot
	*Source
}

// New returns a source of the figures of app. It panics if app is not a running flow.
func New(app inspect.App) *Source {
	s := &Source{app: app, began: inspect.Take(app).At, graph: app.Graph(), counters: make(map[string]*counter)}
	for i, name := range s.graph.Locations {
		name = valid(name)
		if slices.Contains(s.locations, name) { // two types with one name, from two packages
			name = fmt.Sprintf("%s#%d", name, i)
		}
		s.locations = append(s.locations, name)
	}
	for i, o := range s.graph.Operators {
		s.operators = append(s.operators, []string{s.locations[o.Location], operator(i, &o), valid(o.Port)})
		if o.Label != "" || o.Port != "" || o.Keeps || o.Why != "" || o.Proof != "" {
			s.shown = append(s.shown, i)
		}
	}
	for _, c := range s.graph.Slices {
		number := 0
		known := false
		for _, other := range s.cuts {
			if other.location == c.Location {
				number++
				known = known || other.pos == c.Pos
			}
		}
		if !known {
			s.cuts = append(s.cuts, cut{c.Location, number, c.Pos})
		}
	}
	return s
}

// operator returns the name of an operator. It does not contain the place in the source, because then each
// edit of the program would start new series.
func operator(i int, o *dataflow.GraphOperator) string {
	if o.Label != "" {
		return o.Label
	}
	return fmt.Sprintf("%s#%d", o.Name, i)
}

// Flow returns the value of the label flow for a flow with this name.
func Flow(name string) string { return cmp.Or(valid(name), "flow") }

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Take returns the figures of one snapshot. It takes as long as [inspect.Take].
func (s *Source) Take() (all []Figure) {
	s.mu.Lock()
	defer s.mu.Unlock() // held until the counters have seen the snapshot, so that an older snapshot comes first
	t := &taken{inspect.Take(s.app), s}
	for i := range families {
		f := &families[i]
		f.of(t, func(value float64, labels ...string) {
			if f.Kind == Counter {
				value = s.count(f.Name+"\x00"+strings.Join(labels, "\x00"), value)
			}
			all = append(all, Figure{i, value, labels})
		})
	}
	return all
}

// count returns the value of a counter whose current figure is value.
func (s *Source) count(key string, value float64) float64 {
	c := s.counters[key]
	if c == nil {
		c = new(counter)
		s.counters[key] = c
	}
	c.sum += max(0, value-c.last)
	c.last = value
	return c.sum
}
