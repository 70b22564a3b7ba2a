package durable

import (
	"sync/atomic"
	"time"
)

// Metrics count what this process has done so far.
type Metrics struct {
	Records   uint64 // taken by steps
	Steps     uint64 // committed
	Snapshots uint64 // made durable
	Restores  uint64 // of a partition that ran: another owner had committed or saved, a commit's answer was lost, or a step had no space
	Replayed  uint64 // steps that were replayed

	Quarantined uint64 // records that the program could not handle

	// WrongClocks is how often a partition was restored while the clock of the system was behind
	// the partition's by more than a second, or ahead by more than [Options].MaxGap.
	WrongClocks uint64

	Fenced  uint64 // commits that were refused because another owner had committed
	Unknown uint64 // commits whose answer was lost
	NoRoom  uint64 // writes that the log refused for lack of space; each was retried

	// How long successful appends, commits and snapshots took in the log.
	Append, Commit, Save Durations

	LastRestore      time.Duration // how long it took
	LastSnapshot     time.Duration // the longest time that steps waited for it at a stretch
	LastSnapshotSize int           // in bytes; only what had changed
}

type metrics struct {
	records, steps, snapshots, restores, replayed, quarantined, wrongClocks atomic.Uint64
	restore, stopped, size                                                  atomic.Int64
}

func (m *metrics) restored(d time.Duration) { m.restore.Store(int64(d)) }

func (m *metrics) cut(stopped time.Duration, size int) {
	m.stopped.Store(int64(stopped))
	m.size.Store(int64(size))
}

// Metrics returns what this process has done so far. The figures may be from slightly different moments.
func (a *App[P]) Metrics() Metrics { return a.made().figures() }

func (c *core) figures() Metrics {
	m, log := &c.metrics, c.measured
	return Metrics{
		Records: m.records.Load(), Steps: m.steps.Load(), Snapshots: m.snapshots.Load(),
		Restores: m.restores.Load(), Replayed: m.replayed.Load(), Quarantined: m.quarantined.Load(), WrongClocks: m.wrongClocks.Load(),
		Fenced: log.fenced.Load(), Unknown: log.unknown.Load(), NoRoom: log.full.Load(),
		Append: log.appends.durations(), Commit: log.commits.durations(), Save: log.saves.durations(),
		LastRestore: time.Duration(m.restore.Load()), LastSnapshot: time.Duration(m.stopped.Load()),
		LastSnapshotSize: int(m.size.Load()),
	}
}
