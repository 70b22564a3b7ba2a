// Package prominspect exports the figures of a running flow as metrics of Prometheus. [Collector] is its only function;
// promhttp, of client_golang, serves the metrics.
//
//	registry.MustRegister(prominspect.Collector(app, prominspect.Options{Name: "votes"}))
//	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// A scrape takes one [inspect.Snapshot], so all figures of a location are from the same moment between two steps. It takes at
// most 10 ms. For a location in a long step it returns the figures from before the step, and millrace_scrape_stale_seconds says
// how old they are.
//
// # Metrics
//
// All have the label flow. Of the flow, and of each location, with the label location:
//
//	millrace_flow_running, _flow_failed    1 or 0
//	millrace_location_running              0 when it, or one of its partitions here, is stopped or has ended
//	millrace_location_stopped_seconds      how long, 0 while all run
//	millrace_steps_total, _records_total   steps, and the records that they took
//	millrace_queue_records                 records that wait for a step, of
//	millrace_queue_limit_records           as many before inputs block, and
//	millrace_queue_senders                 callers that wait for room
//	millrace_scrape_stale_seconds          0 if the figures are new
//	millrace_slice_runs_total              also with the label slice: its number at the location
//
// Of operators, with the labels location, operator and port. Operator is the name given with dataflow.Named, or otherwise
// function and number in the graph, such as keyedstream.Scan#26. Port is empty if the operator is not a port:
//
//	millrace_operator_records_total        what came to it; none without dataflow.Options.Count
//	millrace_operator_keys                 keys that it remembers, and
//	millrace_operator_state_bytes          their memory
//	millrace_operator_calls_running, _operator_calls_waiting
//	millrace_operator_answers_dropped_total
//	millrace_operator_timers
//	millrace_output_records_total          what the output was given
//	millrace_output_waiting_records        what nobody has read, and
//	millrace_output_limit_records          with how much of it the location still runs
//
// To keep the number of series small in a large flow, not all operators have these metrics. Operators that are ports, remember
// something, or have a name, a reason or a proof have millrace_operator_records_total. Of these, only those that remember
// something have the other millrace_operator metrics.
//
// Of partitions of a durable flow, with the labels location and partition:
//
//	millrace_partition_running             1 if this process runs it
//	millrace_partition_lag_records, _partition_lag_size_bytes
//	millrace_partition_quarantined
//
// A counter never decreases while its process runs. When a partition moves to another process, the counters of its location stop
// increasing. For figures about the log of a durable flow, see package monitor.
package prominspect

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/dataflow/inspect/internal/figures"
)

// Options are the optional settings of [Collector].
type Options struct {
	// Name is the label flow of all metrics, which distinguishes the flows of a process. Empty means "flow".
	Name string
}

// Collector returns the metrics of app, as the package comment describes. Flows in one registry need different names. It panics
// if app is not a running flow.
func Collector(app inspect.App, o Options) prometheus.Collector {
	if app == nil {
		panic("prominspect: Collector needs a flow: what dataflow.Start or durable.Start returned")
	}
	c := &collector{source: figures.New(app)}
	flow := prometheus.Labels{"flow": figures.Flow(o.Name)}
	for _, f := range figures.Families() {
		c.metrics = append(c.metrics, metric{prometheus.NewDesc(f.Prometheus(), f.Help, f.Labels, flow), kindOf(f.Kind)})
	}
	return c
}

// A collector collects the figures of a flow.
type collector struct {
	source  *figures.Source
	metrics []metric // by family
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func kindOf(k figures.Kind) prometheus.ValueType {
	if k == figures.Counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range c.metrics {
		to <- m.desc
	}
}

// Collect sends the figures of one snapshot.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, f := range c.source.Take() {
		m := c.metrics[f.Family]
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, f.Value, f.Labels...)
	}
}
