package monitor

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace/millrace/dataflow/durable"
)

// A perProcess is a metric of the process, given when it is known.
type perProcess struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	known func(h *durable.Health) bool // nil if it always is
	of    func(h *durable.Health) float64
}

func gauge(name, help string, known func(*durable.Health) bool, of func(h *durable.Health) float64) perProcess {
	return perProcess{desc(name, help), prometheus.GaugeValue, known, of}
}

func counter(name, help string, of func(m *durable.Metrics) uint64) perProcess {
	return perProcess{desc(name, help), prometheus.CounterValue, nil, func(h *durable.Health) float64 { return float64(of(&h.Metrics)) }}
}

// shared, sized, bounded and onDisk report which figures are known. Not every log reports all of them.
func shared(h *durable.Health) bool  { return h.Members != nil }
func sized(h *durable.Health) bool   { return !h.Measured.IsZero() }
func bounded(h *durable.Health) bool { return sized(h) && h.Size.MaxBytes > 0 }
func onDisk(h *durable.Health) bool  { return sized(h) && h.Size.Disk > 0 }

var ofProcess = []perProcess{
	gauge("live", "0 if the flow has ended in this process.", nil, func(h *durable.Health) float64 { return one(h.Live() == nil) }),
	gauge("ready", "0 if what is sent may wait long or be refused.", nil, func(h *durable.Health) float64 { return one(h.Ready() == nil) }),
	gauge("log_up", "0 while the log takes nothing.", nil, func(h *durable.Health) float64 { return one(h.Log == nil && !h.Ended) }),
	gauge("witness_up", "0 while the witness does not know of all steps; 1 if there is none.", nil, func(h *durable.Health) float64 { return one(h.Witness == nil) }),
	gauge("partitions_owned", "Partitions whose steps this process makes.", nil, ownedHere),
	counter("records_total", "Records that steps of this process took.", func(m *durable.Metrics) uint64 { return m.Records }),
	counter("steps_total", "Steps that this process committed.", func(m *durable.Metrics) uint64 { return m.Steps }),
	counter("snapshots_total", "Snapshots that this process made durable.", func(m *durable.Metrics) uint64 { return m.Snapshots }),
	counter("restores_total", "Partitions restored because somebody else had committed, or the answer of a commit was lost.", func(m *durable.Metrics) uint64 { return m.Restores }),
	counter("replayed_steps_total", "Steps that were made again.", func(m *durable.Metrics) uint64 { return m.Replayed }),
	counter("quarantined_total", "Records that the program could not handle.", func(m *durable.Metrics) uint64 { return m.Quarantined }),
	counter("fenced_total", "Commits that were refused because somebody else had committed.", func(m *durable.Metrics) uint64 { return m.Fenced }),
	counter("unknown_total", "Commits whose answer was lost.", func(m *durable.Metrics) uint64 { return m.Unknown }),
	counter("no_room_total", "Writes that the log refused for lack of room.", func(m *durable.Metrics) uint64 { return m.NoRoom }),
	counter("wrong_clocks_total", "Partitions restored while the system's clock was behind them, or ahead by more than MaxGap.", func(m *durable.Metrics) uint64 { return m.WrongClocks }),
	gauge("restore_seconds", "What the last restore of a partition took.", nil, func(h *durable.Health) float64 { return h.Metrics.LastRestore.Seconds() }),
	gauge("snapshot_pause_seconds", "How long steps waited for the last snapshot.", nil, func(h *durable.Health) float64 { return h.Metrics.LastSnapshot.Seconds() }),
	gauge("snapshot_bytes", "Size of the last snapshot.", nil, func(h *durable.Health) float64 { return float64(h.Metrics.LastSnapshotSize) }),

	gauge("members", "Processes that share the partitions, as this one sees it.", shared, func(h *durable.Health) float64 { return float64(len(h.Members)) }),
	gauge("log_bytes", "What the log takes on disk, of one replica.", sized, func(h *durable.Health) float64 { return float64(h.Size.Bytes) }),
	gauge("log_kept_bytes", "What the log keeps because it may be needed.", sized, func(h *durable.Health) float64 { return float64(h.Size.Kept) }),
	gauge("log_measured_timestamp_seconds", "When the log was asked what it takes.", sized, func(h *durable.Health) float64 { return seconds(h.Measured) }),
	gauge("log_max_bytes", "What the log keeps of what came in at most.", bounded, func(h *durable.Health) float64 { return float64(h.Size.MaxBytes) }),
	gauge("disk_free_bytes", "What may be written to the file system of the log.", onDisk, func(h *durable.Health) float64 { return float64(h.Size.Free) }),
	gauge("disk_bytes", "Size of the file system of the log.", onDisk, func(h *durable.Health) float64 { return float64(h.Size.Disk) }),
}

func ownedHere(h *durable.Health) (n float64) {
	for i := range h.Partitions {
		n += one(h.Partitions[i].Owned)
	}
	return n
}

// histograms are the durations of operations of the log.
var histograms = []struct {
	desc *prometheus.Desc
	of   func(m *durable.Metrics) *durable.Durations
}{
	{desc("append_seconds", "What the log took to make records durable."), func(m *durable.Metrics) *durable.Durations { return &m.Append }},
	{desc("commit_seconds", "What the log took to make steps durable."), func(m *durable.Metrics) *durable.Durations { return &m.Commit }},
	{desc("snapshot_seconds", "What the log took to make snapshots durable."), func(m *durable.Metrics) *durable.Durations { return &m.Save }},
}
