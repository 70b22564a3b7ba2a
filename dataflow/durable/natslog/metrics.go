package natslog

import "sync/atomic"

// Metrics count what a log has done since it was opened.
type Metrics struct {
	Records, Messages uint64 // appended; their ratio says how well appends share a message
	Retries           uint64 // of messages that were not sent or not answered
	Steps             uint64 // committed
	Fenced            uint64 // commits that were refused because another owner committed first
	Unknown           uint64 // commits whose answer was lost
	Snapshots         uint64 // saved
	Restores          uint64
	Resets            uint64 // readers that had to start again after a gap or a lost server
}

type counters struct {
	records, messages, retries, steps, fenced, unknown, snapshots, restores, resets atomic.Uint64
}

// Metrics returns the current counters.
func (l *Log) Metrics() Metrics {
	c := &l.counters
	return Metrics{
		Records: c.records.Load(), Messages: c.messages.Load(), Retries: c.retries.Load(),
		Steps: c.steps.Load(), Fenced: c.fenced.Load(), Unknown: c.unknown.Load(),
		Snapshots: c.snapshots.Load(), Restores: c.restores.Load(), Resets: c.resets.Load(),
	}
}
