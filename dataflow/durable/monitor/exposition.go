package monitor

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

const prefix = "millrace_durable_"

// An exposition writes metrics in the text format of Prometheus, version 0.0.4.
type exposition struct{ w *bytes.Buffer }

// health writes everything.
func (e exposition) health(h *durable.Health) {
	e.partitions(h)
	e.process(h)
}

// family begins a metric.
func (e exposition) family(name, kind, help string) {
	fmt.Fprintf(e.w, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, kind)
}

// sample writes a value. Labels are what labels returns, or empty.
func (e exposition) sample(name, labels string, value float64) {
	e.w.WriteString(prefix)
	e.w.WriteString(name)
	e.w.WriteString(labels)
	e.w.WriteByte(' ')
	e.w.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	e.w.WriteByte('\n')
}

// escaped makes a text part of a label.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels returns pairs of a name and a value.
func labels(pairs ...string) string {
	all := make([]string, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pairs[i]+`="`+escaped.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD"))+`"`)
	}
	return "{" + strings.Join(all, ",") + "}"
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// A perPartition is a metric of each partition. It says nothing of one for which ok is false.
type perPartition struct {
	name, help string
	of         func(p *durable.PartitionStatus) (value float64, ok bool)
}

// owned is the value of a metric that only the owner of a partition knows.
func owned(of func(p *durable.PartitionStatus) float64) func(*durable.PartitionStatus) (float64, bool) {
	return func(p *durable.PartitionStatus) (float64, bool) { return of(p), p.Owned }
}

// at is the value of a metric that is a time, which may not be known.
func at(of func(p *durable.PartitionStatus) time.Time) func(*durable.PartitionStatus) (float64, bool) {
	return func(p *durable.PartitionStatus) (float64, bool) {
		t := of(p)
		return float64(t.UnixMilli()) / 1000, !t.IsZero()
	}
}

var perPartitions = []perPartition{
	{"lag_records", "Records that are durable and that no step has taken.", func(p *durable.PartitionStatus) (float64, bool) { return float64(p.Lag.Records), true }},
	{"lag_bytes", "Bytes of the records that are durable and that no step has taken.", func(p *durable.PartitionStatus) (float64, bool) { return float64(p.Lag.Bytes), true }},
	{"lag_seconds", "How long the oldest record waits that no step has taken.", owned(func(p *durable.PartitionStatus) float64 { return p.Waiting.Seconds() })},
	{"last_commit_timestamp_seconds", "When this process made a step durable last.", at(func(p *durable.PartitionStatus) time.Time { return p.Committed })},
	{"last_snapshot_timestamp_seconds", "When this process made a snapshot durable last.", at(func(p *durable.PartitionStatus) time.Time { return p.Saved })},
	{"clock_offset_seconds", "How far the time of the partition is ahead of the system's clock.", owned(func(p *durable.PartitionStatus) float64 { return p.Clock.Seconds() })},
	{"quarantine", "Records in the quarantine.", owned(func(p *durable.PartitionStatus) float64 { return float64(p.Quarantined) })},
	{"sources", "Senders, inputs and keys whose last number is remembered.", owned(func(p *durable.PartitionStatus) float64 { return float64(p.Sources) })},
	{"calls", "Asynchronous calls that run.", owned(func(p *durable.PartitionStatus) float64 { return float64(p.Calls) })},
	{"timers", "Timers that are set.", owned(func(p *durable.PartitionStatus) float64 { return float64(p.Timers) })},
}

func (e exposition) partitions(h *durable.Health) {
	of := make([][]string, len(h.Partitions))
	for i := range h.Partitions {
		of[i] = []string{"partition", strconv.Itoa(h.Partitions[i].Partition), "location", h.Partitions[i].Name}
	}
	e.family("partition_state", "gauge", "1 for the state that the partition has in this process.")
	for i := range h.Partitions {
		for _, state := range durable.PartitionStates() {
			e.sample("partition_state", labels(append(of[i][:4:4], "state", string(state))...), one(h.Partitions[i].State == state))
		}
	}
	for _, m := range perPartitions {
		e.family(m.name, "gauge", m.help)
		for i := range h.Partitions {
			if value, ok := m.of(&h.Partitions[i]); ok {
				e.sample(m.name, labels(of[i]...), value)
			}
		}
	}
}

func (e exposition) process(h *durable.Health) {
	m := &h.Metrics
	ownedHere := 0
	for i := range h.Partitions {
		if h.Partitions[i].Owned {
			ownedHere++
		}
	}
	e.metrics([]metric{
		{"live", "gauge", "0 if the flow has ended in this process.", one(h.Live() == nil)},
		{"ready", "gauge", "0 if what is sent may wait long or be refused.", one(h.Ready() == nil)},
		{"log_up", "gauge", "0 while the log takes nothing.", one(h.Log == nil && !h.Ended)},
		{"witness_up", "gauge", "0 while the witness does not know of all steps; 1 if there is none.", one(h.Witness == nil)},
		{"partitions_owned", "gauge", "Partitions whose steps this process makes.", float64(ownedHere)},
		{"records_total", "counter", "Records that steps of this process took.", float64(m.Records)},
		{"steps_total", "counter", "Steps that this process committed.", float64(m.Steps)},
		{"snapshots_total", "counter", "Snapshots that this process made durable.", float64(m.Snapshots)},
		{"restores_total", "counter", "Partitions restored because somebody else had committed, or the answer of a commit was lost.", float64(m.Restores)},
		{"replayed_steps_total", "counter", "Steps that were made again.", float64(m.Replayed)},
		{"quarantined_total", "counter", "Records that the program could not handle.", float64(m.Quarantined)},
		{"fenced_total", "counter", "Commits that were refused because somebody else had committed.", float64(m.Fenced)},
		{"unknown_total", "counter", "Commits whose answer was lost.", float64(m.Unknown)},
		{"no_room_total", "counter", "Writes that the log refused for lack of room.", float64(m.NoRoom)},
		{"wrong_clocks_total", "counter", "Partitions restored while the system's clock was behind them, or ahead by more than MaxGap.", float64(m.WrongClocks)},
		{"restore_seconds", "gauge", "What the last restore of a partition took.", m.LastRestore.Seconds()},
		{"snapshot_pause_seconds", "gauge", "How long steps waited for the last snapshot.", m.LastSnapshot.Seconds()},
		{"snapshot_bytes", "gauge", "Size of the last snapshot.", float64(m.LastSnapshotSize)},
	})
	e.whereKnown(h)
	e.histogram("append_seconds", "What the log took to make records durable.", &m.Append)
	e.histogram("commit_seconds", "What the log took to make steps durable.", &m.Commit)
	e.histogram("snapshot_seconds", "What the log took to make snapshots durable.", &m.Save)
}

// whereKnown writes what not every log says.
func (e exposition) whereKnown(h *durable.Health) {
	if h.Members != nil {
		e.metrics([]metric{{"members", "gauge", "Processes that share the partitions, as this one sees it.", float64(len(h.Members))}})
	}
	if h.Measured.IsZero() {
		return
	}
	s := &h.Size
	e.metrics([]metric{
		{"log_bytes", "gauge", "What the log takes on disk, of one replica.", float64(s.Bytes)},
		{"log_kept_bytes", "gauge", "What the log keeps because it may be needed.", float64(s.Kept)},
		{"log_measured_timestamp_seconds", "gauge", "When the log was asked what it takes.", float64(h.Measured.UnixMilli()) / 1000},
	})
	if s.MaxBytes > 0 {
		e.metrics([]metric{{"log_max_bytes", "gauge", "What the log keeps of what came in at most.", float64(s.MaxBytes)}})
	}
	if s.Disk > 0 {
		e.metrics([]metric{
			{"disk_free_bytes", "gauge", "What may be written to the file system of the log.", float64(s.Free)},
			{"disk_bytes", "gauge", "Size of the file system of the log.", float64(s.Disk)},
		})
	}
}

// A metric is one of the process.
type metric struct {
	name, kind, help string
	value            float64
}

func (e exposition) metrics(all []metric) {
	for _, m := range all {
		e.family(m.name, m.kind, m.help)
		e.sample(m.name, "", m.value)
	}
}

func (e exposition) histogram(name, help string, d *durable.Durations) {
	e.family(name, "histogram", help)
	for _, c := range d.Classes {
		e.sample(name+"_bucket", labels("le", strconv.FormatFloat(c.Bound.Seconds(), 'g', -1, 64)), float64(c.Count))
	}
	e.sample(name+"_bucket", labels("le", "+Inf"), float64(d.Count))
	e.sample(name+"_sum", "", d.Sum.Seconds())
	e.sample(name+"_count", "", float64(d.Count))
}
