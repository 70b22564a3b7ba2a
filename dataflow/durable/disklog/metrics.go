package disklog

import "sync/atomic"

// Metrics count what a log has done since it was opened.
type Metrics struct {
	Records, Messages uint64 // appended; their ratio says how well appends share a message
	Steps             uint64 // committed
	Fenced            uint64 // commits that were refused because another owner committed first
	Snapshots         uint64 // saved
	Syncs             uint64 // syncs of the disk, each for everything that arrived during the previous one
}

type counters struct {
	records, messages, steps, fenced, snapshots, syncs atomic.Uint64
}

// Metrics returns the current counters.
func (l *Log) Metrics() Metrics {
	c := &l.counters
	return Metrics{
		Records: c.records.Load(), Messages: c.messages.Load(), Steps: c.steps.Load(),
		Fenced: c.fenced.Load(), Snapshots: c.snapshots.Load(), Syncs: c.syncs.Load(),
	}
}
