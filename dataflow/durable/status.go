package durable

import (
	"context"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// A PartitionStatus says what a partition of a durable flow has done and what waits there.
//
// Counts begin when this process restored the partition, and include the steps that it replayed. Given of a
// stream counts from the beginning of the history. Unread follows the history, in which readers record every 20
// ms what they have read. Queued and Senders are zero, since records wait in the log.
//
// In a process that does not own the partition, the figures are those of the last time it did, with Ended set,
// or all zero except Name.
type PartitionStatus struct {
	dataflow.LocationStatus

	Partition int    // number, over all locations
	Location  int    // index in [dataflow.Graph].Locations
	Owned     bool   // this process makes its steps now
	Owner     string // member that owns it, as [Options].Member; empty if no process shares the flow, or none owns it

	Stopped error // a [*PartitionError]: why the partition, which this process owns, has stopped; nil while it runs

	// Refused is why this process gave the partition back since it joined: its program cannot run the history,
	// so the error is an [ErrChanged] or an [ErrDiverged]. It is nil if the process did not give it back, or
	// has run the partition since. Another process runs the partition, unless all refuse it: then one of them
	// owns it, and it is Stopped there.
	Refused error

	State PartitionState // summary of the other fields

	// Lag is the durable records that no step has taken. In the process that owns the partition it is exact for
	// the records that the process has read; in others it is the owner's latest report.
	Lag Lag
	// Waiting is how long ago the owner read the oldest record in Lag, to a tenth of a second. It is zero in
	// other processes.
	Waiting time.Duration

	// Clock is how far the time of the partition, which its steps and timers use, is ahead of [Options].Now;
	// negative if it is behind. Partitions of a running process do not follow changes of the system clock, so a
	// jump of that clock shows here. It is zero in other processes.
	Clock time.Duration

	Committed time.Time // when this process last made a step durable; zero if it did not
	Saved     time.Time // when this process last made a snapshot durable; zero if it did not

	Quarantined int // letters in the quarantine, as [App.Quarantine] lists them
	Sources     int // senders, inputs and keys whose last number is remembered

	// Diverged is the first of the latest steps whose recorded outputs were kept although the program gave a
	// different result in a replay; see [KeepRecorded]. It is zero if there were none.
	Diverged uint64

	Version  string // of the program that made the last step, as [Options].Version
	Step     uint64 // number of the last durable step of the history
	Position uint64 // position in the log of the last message that the steps took
}

// reports are the means by which the owner of a partition reports its status. The mu of the partitionGateway guards them.
type reports struct {
	wanted           chan struct{}            // signals the owner; of capacity 1
	asked            chan struct{}            // closed when the owner has reported
	betweenSteps     []func(*engine.Location) // functions that the owner calls before it reports
	answers          bool                     // an owner runs here and will report
	report           PartitionStatus
	untaken          map[string]int  // by output: number of entries at which the next warning is logged
	reportedBlocking map[string]bool // positions of operators already reported as blocking the partition
}

// Status returns what each partition has done and what waits there. It may be called at any time, even after
// the flow has ended.
//
// The owner of a partition copies the figures between two steps. Status waits at most 10 ms for all partitions
// together. If a function takes longer, or a step waits for space in the log, it returns the figures copied
// last, with Stale set. A partition that is being restored is not Owned.
func (a *App[P]) Status() []PartitionStatus { return a.made().status() }

func (c *core) status() []PartitionStatus {
	asked := make([]<-chan struct{}, len(c.gateway.partitions))
	for p, pg := range c.gateway.partitions {
		asked[p] = pg.ask(nil)
	}
	timeout := time.NewTimer(engine.Patience)
	defer timeout.Stop()
	for _, answered := range asked {
		if answered == nil {
			continue
		}
		select {
		case <-answered:
			continue
		case <-timeout.C:
		}
		break
	}
	all := make([]PartitionStatus, len(asked))
	for p, pg := range c.gateway.partitions {
		all[p] = pg.status(asked[p], c.ending.Load())
		all[p].Partition = p
		last := &c.measured.partitions[p]
		all[p].Committed, all[p].Saved = since(&last.committed), since(&last.saved)
		location, _ := c.layout.place(p)
		all[p].Name, all[p].Location = c.facade.Location(location), location
		if c.peers != nil && c.peers.member != nil {
			all[p].Owner, _ = c.peers.member.Owner(p)
		}
	}
	return all
}

// ask has the owner report, after calling look if it is not nil. It returns a channel that is closed then, or
// nil if there is no owner here.
func (pg *partitionGateway) ask(look func(*engine.Location)) <-chan struct{} {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if !pg.answers {
		return nil
	}
	if look != nil {
		pg.betweenSteps = append(pg.betweenSteps, look)
	}
	if pg.asked == nil {
		pg.asked = make(chan struct{})
		select {
		case pg.wanted <- struct{}{}:
		default:
		}
	}
	return pg.asked
}

// status returns the owner's latest report; asked is the result of ask.
func (pg *partitionGateway) status(asked <-chan struct{}, ended bool) PartitionStatus {
	stale := false
	if asked != nil {
		select {
		case <-asked:
		default:
			stale = true
		}
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	s := pg.report
	s.Stale, s.Owned = stale, (pg.answers || pg.runs.Err() != nil) && pg.owned
	s.Stopped, s.Refused = context.Cause(pg.runs), pg.gaveBack
	s.State = pg.state(ended, pg.answers && pg.owned)
	if s.Lag = pg.backlog.lag(); s.Owned {
		s.Waiting = pg.backlog.waiting()
	} else {
		s.Clock = 0
	}
	s.Quarantined = len(pg.letters)
	if s.Blocked != nil {
		s.Since = pg.since
	}
	return s
}

// report reports the status of the partition, between two steps. If more is false it is the last report of this
// owner, and later requests get no answer.
func (o *owner) report(more bool) {
	st := o.executor.Status()
	s := PartitionStatus{LocationStatus: o.executor.Report(&st).(dataflow.LocationStatus), Step: o.fence, Position: o.last.taken, Diverged: o.last.diverged, Version: o.last.version, Sources: o.executor.Sources()}
	if o.clock != nil {
		s.Clock = o.clockOffset()
	}
	s.Ended = !more
	pg := o.gateway.partitions[o.partition]
	pg.mu.Lock()
	defer pg.mu.Unlock()
	pg.report, pg.answers = s, more
	for _, look := range pg.betweenSteps {
		look(o.executor.Location())
	}
	pg.betweenSteps = nil
	if pg.asked != nil {
		close(pg.asked)
		pg.asked = nil
	}
}

// Stopped returns why one of the location's partitions here takes nothing, or nil.
func (g *gateway) Stopped(location int) *engine.Blocked {
	for p := g.layout.first[location]; p < g.layout.first[location+1]; p++ {
		pg := g.partitions[p]
		pg.mu.Lock()
		full := pg.full
		pg.mu.Unlock()
		if full != nil {
			return full
		}
	}
	return nil
}

// stop notes, with mu held, why the partition takes no more, or with nil that it does. It reports whether the
// partition has stopped just now.
func (pg *partitionGateway) stop(full *engine.Blocked) (stopped bool) {
	pg.full = full
	switch {
	case full != nil && pg.shut == nil:
		pg.shut, pg.since, stopped = make(chan struct{}), time.Now(), true
		signal(pg.backlog.reportNow)
	case full == nil && pg.shut != nil:
		close(pg.shut)
		pg.shut = nil
		signal(pg.backlog.reportNow)
	}
	return stopped
}

// called notes that the partition takes no more, if the asynchronous calls that have just begun cause that.
func (o *owner) called() {
	full := o.executor.Stopped()
	if full == nil || !full.Calls {
		return
	}
	pg := o.gateway.partitions[o.partition]
	pg.mu.Lock()
	stopped := pg.stop(full)
	pg.mu.Unlock()
	if stopped {
		o.warn(o.partition)
	}
}

// warn reports a partition that has just stopped, if it is still stopped after a second. Unread elements are
// left out: the ports report those.
func (c *core) warn(partition int) {
	pg := c.gateway.partitions[partition]
	pg.mu.Lock()
	since := pg.since
	pg.mu.Unlock()
	time.AfterFunc(patience, func() {
		pg.mu.Lock()
		defer pg.mu.Unlock()
		if pg.full == nil || !pg.since.Equal(since) || c.ctx.Err() != nil {
			return
		}
		e := c.facade.BlockedError(pg.full, nil).(*dataflow.BlockedError)
		if place := e.Op + e.Pos; (e.Calls || e.Port == "") && !pg.reportedBlocking[place] {
			if pg.reportedBlocking == nil {
				pg.reportedBlocking = make(map[string]bool)
			}
			pg.reportedBlocking[place] = true
			go c.opts.Flow.OnBlocked(e)
		}
	})
}
