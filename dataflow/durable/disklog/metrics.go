package disklog

import "sync/atomic"

// Metrics count what a log has done since it was opened.
type Metrics struct {
	Records, Messages uint64 // that were appended; their ratio is how well appends share a message
	Steps             uint64 // that were committed
	Fenced            uint64 // commits that were refused because somebody else was first
	Snapshots         uint64 // that were saved
	Syncs             uint64 // of the disk, each for all that came while the one before was under way
}

type counters struct {
	records, messages, steps, fenced, snapshots, syncs atomic.Uint64
}

// Metrics returns the counters as they are now.
func (l *Log) Metrics() Metrics {
	c := &l.counters
	return Metrics{
		Records: c.records.Load(), Messages: c.messages.Load(), Steps: c.steps.Load(),
		Fenced: c.fenced.Load(), Snapshots: c.snapshots.Load(), Syncs: c.syncs.Load(),
	}
}
