package monitor

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/dataflow/durable"
)

// Collector returns the metrics of flow, as the package comment lists them, for a registry of a program that
// serves its own metrics. A scrape takes 10 ms at most. A registry accepts the collector of one flow; for
// another one add a prefix or labels, see prometheus.WrapRegistererWith. It panics if flow is nil.
func Collector(flow Flow) prometheus.Collector {
	if flow == nil {
		panic("monitor: Collector needs a flow: what durable.Start returned")
	}
	return &collector{flow}
}

// A collector collects the figures of a flow.
type collector struct{ flow Flow }

// Describe describes all metrics that there may be.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	to <- stateDesc
	for i := range perPartitions {
		to <- perPartitions[i].desc
	}
	for i := range ofProcess {
		to <- ofProcess[i].desc
	}
	for i := range histograms {
		to <- histograms[i].desc
	}
}

// Collect collects the figures of one [durable.Health].
func (c *collector) Collect(to chan<- prometheus.Metric) {
	h := c.flow.Health()
	for i := range h.Partitions {
		collectPartition(to, &h.Partitions[i])
	}
	for i := range ofProcess {
		if m := &ofProcess[i]; m.known == nil || m.known(&h) {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(&h))
		}
	}
	for i := range histograms {
		d := histograms[i].of(&h.Metrics)
		classes := make(map[float64]uint64, len(d.Classes))
		for _, class := range d.Classes {
			classes[class.Bound.Seconds()] = class.Count
		}
		to <- prometheus.MustNewConstHistogram(histograms[i].desc, d.Count, d.Sum.Seconds(), classes)
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("millrace_durable_"+name, help, labels, nil)
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// A perPartition is a metric of each partition for which it is known.
type perPartition struct {
	desc  *prometheus.Desc
	known func(p *durable.PartitionStatus) bool // nil if it always is
	of    func(p *durable.PartitionStatus) float64
}

func partition(name, help string, known func(*durable.PartitionStatus) bool, of func(p *durable.PartitionStatus) float64) perPartition {
	return perPartition{desc(name, help, "partition", "location"), known, of}
}

// owned reports whether the metrics that only the owner of a partition knows are known.
func owned(p *durable.PartitionStatus) bool { return p.Owned }

var stateDesc = desc("partition_state", "1 for the state that the partition has in this process.", "partition", "location", "state")

var perPartitions = []perPartition{
	partition("lag_records", "Records that are durable and that no step has taken.", nil, func(p *durable.PartitionStatus) float64 { return float64(p.Lag.Records) }),
	partition("lag_bytes", "Bytes of the records that are durable and that no step has taken.", nil, func(p *durable.PartitionStatus) float64 { return float64(p.Lag.Bytes) }),
	partition("lag_seconds", "How long the oldest record waits that no step has taken.", owned, func(p *durable.PartitionStatus) float64 { return p.Waiting.Seconds() }),
	partition("last_commit_timestamp_seconds", "When this process made a step durable last.",
		func(p *durable.PartitionStatus) bool { return !p.Committed.IsZero() }, func(p *durable.PartitionStatus) float64 { return seconds(p.Committed) }),
	partition("last_snapshot_timestamp_seconds", "When this process made a snapshot durable last.",
		func(p *durable.PartitionStatus) bool { return !p.Saved.IsZero() }, func(p *durable.PartitionStatus) float64 { return seconds(p.Saved) }),
	partition("clock_offset_seconds", "How far the time of the partition is ahead of the system's clock.", owned, func(p *durable.PartitionStatus) float64 { return p.Clock.Seconds() }),
	partition("quarantine", "Records in the quarantine.", owned, func(p *durable.PartitionStatus) float64 { return float64(p.Quarantined) }),
	partition("sources", "Senders, inputs and keys whose last number is remembered.", owned, func(p *durable.PartitionStatus) float64 { return float64(p.Sources) }),
	partition("calls", "Asynchronous calls that run.", owned, func(p *durable.PartitionStatus) float64 { return float64(p.Calls) }),
	partition("timers", "Timers that are set.", owned, func(p *durable.PartitionStatus) float64 { return float64(p.Timers) }),
}

func collectPartition(to chan<- prometheus.Metric, p *durable.PartitionStatus) {
	number, name := strconv.Itoa(p.Partition), strings.ToValidUTF8(p.Name, "\uFFFD")
	for _, state := range durable.PartitionStates() {
		to <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, one(p.State == state), number, name, string(state))
	}
	for i := range perPartitions {
		if m := &perPartitions[i]; m.known == nil || m.known(p) {
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, m.of(p), number, name)
		}
	}
}
