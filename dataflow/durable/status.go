package durable

import (
	"context"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// A PartitionStatus is what a partition of a durable flow has done and what waits there.
//
// Counts begin when this process restored the partition and include the steps that were made
// again for that; Given of a stream begins with the history. Unread is what the history knows:
// readers say every 20 ms what they have read. Queued and Senders are zero, since what waits
// for a step is in the log.
//
// In a process that does not own the partition the figures are those of when it did so last,
// with Ended set, or all zero but Name.
type PartitionStatus struct {
	dataflow.LocationStatus

	Partition int    // number, over all locations
	Location  int    // index in [dataflow.Graph].Locations
	Owned     bool   // this process makes its steps now
	Owner     string // member that owns it, as [Options].Member; empty if no process shares the flow, or none owns it

	Stopped error // why the partition, which this process owns, has stopped: a [*PartitionError]; nil while it runs

	// Refused is why this process gave the partition back since it joined: its program cannot run what
	// the history has, so the error is an [ErrChanged] or an [ErrDiverged]. It is nil if it did not, or if
	// it has run the partition since. Another process runs it, unless all refuse it: then one of them owns
	// it, and it is Stopped there.
	Refused error

	State PartitionState // all of this in one word

	// Lag is what is durable and no step has taken. In the process that owns the partition it is
	// exact for what that has read; in others it is what the owner said last.
	Lag Lag
	// Waiting is how long the oldest of that has waited since the owner read it, to a tenth of
	// a second. It is zero in other processes.
	Waiting time.Duration

	// Clock is how far the time of the partition, which its steps and timers have, is ahead of
	// [Options].Now; it is negative if it is behind. While a process runs, its partitions do not
	// follow changes of the system's clock, so one that jumps is seen here. It is zero in other
	// processes.
	Clock time.Duration

	Committed time.Time // when this process made a step durable last; zero if it did not
	Saved     time.Time // when this process made a snapshot durable last; zero if it did not

	Quarantined int // letters in the quarantine, as [App.Quarantine] lists them
	Sources     int // senders, inputs and keys whose last number is remembered

	// Diverged is the first of the latest steps of which what was recorded stands, although the
	// program made something else of them; see [KeepRecorded]. Zero if there were none.
	Diverged uint64

	Version  string // of the program that made the last step, as [Options].Version
	Step     uint64 // how many steps the history has, all of them durable
	Position uint64 // position in the log of the last message that they took
}

// reports are how a doorway has the owner of its partition report its status. They are
// guarded by the doorway's mu.
type reports struct {
	wanted  chan struct{}            // tells the owner; of capacity 1
	asked   chan struct{}            // closed when the owner has reported
	looks   []func(*engine.Location) // called by the owner before
	answers bool                     // there is an owner that does
	report  PartitionStatus
	untaken map[string]int  // by output: how many entries the logger hears of next
	told    map[string]bool // places of operators of which somebody was told that they stop the partition
}

// Status returns what each partition has done and what waits there. It may be called at any
// time, also when the flow has ended.
//
// The figures are copied by the owner of a partition between two steps. Status waits 10 ms
// for that at most, for all partitions together, and then returns those that were copied
// last, with Stale set: a function takes long, or a step waits for room in the log. While a
// partition is restored it is not Owned.
func (a *App[P]) Status() []PartitionStatus {
	c := a.made()
	asked := make([]<-chan struct{}, len(c.door.partitions))
	for p, way := range c.door.partitions {
		asked[p] = way.ask(nil)
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
	for p, way := range c.door.partitions {
		all[p] = way.status(asked[p], c.ending.Load())
		all[p].Partition = p
		last := &c.measured.partitions[p]
		all[p].Committed, all[p].Saved = since(&last.committed), since(&last.saved)
		site, _ := c.layout.place(p)
		all[p].Name, all[p].Location = c.facade.Location(site), site
		if c.peers != nil && c.peers.member != nil {
			all[p].Owner, _ = c.peers.member.Owner(p)
		}
	}
	return all
}

// ask has the owner report, and call look if it is not nil, and returns a channel that is closed then, or nil if
// there is no owner here.
func (w *doorway) ask(look func(*engine.Location)) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answers {
		return nil
	}
	if look != nil {
		w.looks = append(w.looks, look)
	}
	if w.asked == nil {
		w.asked = make(chan struct{})
		select {
		case w.wanted <- struct{}{}:
		default:
		}
	}
	return w.asked
}

// status returns what the owner reported last, after it was asked.
func (w *doorway) status(asked <-chan struct{}, ended bool) PartitionStatus {
	stale := false
	if asked != nil {
		select {
		case <-asked:
		default:
			stale = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.report
	s.Stale, s.Owned = stale, (w.answers || w.runs.Err() != nil) && w.owned
	s.Stopped, s.Refused = context.Cause(w.runs), w.gaveBack
	s.State = w.state(ended, w.answers && w.owned)
	if s.Lag = w.backlog.lag(); s.Owned {
		s.Waiting = w.backlog.waiting()
	} else {
		s.Clock = 0
	}
	s.Quarantined = len(w.letters)
	if s.Blocked != nil {
		s.Since = w.since
	}
	return s
}

// report says how the partition is, between two steps. If it is the last report of this
// owner, nobody answers after it.
func (o *owner) report(more bool) {
	st := o.leader.Status()
	s := PartitionStatus{LocationStatus: o.leader.Report(&st).(dataflow.LocationStatus), Step: o.fence, Position: o.last.taken, Diverged: o.last.diverged, Version: o.last.version, Sources: o.leader.Sources()}
	if o.clock != nil {
		s.Clock = o.clockOffset()
	}
	s.Ended = !more
	way := o.door.partitions[o.partition]
	way.mu.Lock()
	defer way.mu.Unlock()
	way.report, way.answers = s, more
	for _, look := range way.looks {
		look(o.leader.Location())
	}
	way.looks = nil
	if way.asked != nil {
		close(way.asked)
		way.asked = nil
	}
}

// Stopped returns why a location takes nothing, if one of its partitions here does not.
func (d *door) Stopped(site int) *engine.Blocked {
	for p := d.layout.first[site]; p < d.layout.first[site+1]; p++ {
		way := d.partitions[p]
		way.mu.Lock()
		full := way.full
		way.mu.Unlock()
		if full != nil {
			return full
		}
	}
	return nil
}

// stop notes, with mu held, why the partition takes no more, or that it does. It reports
// whether it has stopped now.
func (w *doorway) stop(full *engine.Blocked) (stopped bool) {
	w.full = full
	switch {
	case full != nil && w.shut == nil:
		w.shut, w.since, stopped = make(chan struct{}), time.Now(), true
		signal(w.backlog.tell)
	case full == nil && w.shut != nil:
		close(w.shut)
		w.shut = nil
		signal(w.backlog.tell)
	}
	return stopped
}

// called notes that the partition takes no more, if that follows from the calls that have
// just begun.
func (o *owner) called() {
	full := o.leader.Stopped()
	if full == nil || !full.Calls {
		return
	}
	way := o.door.partitions[o.partition]
	way.mu.Lock()
	stopped := way.stop(full)
	way.mu.Unlock()
	if stopped {
		o.warn(o.partition)
	}
}

// warn has somebody told of a partition that has just stopped, if that lasts for a second
// and no port knows of it: the ports tell of the elements that nobody reads.
func (c *core) warn(partition int) {
	way := c.door.partitions[partition]
	way.mu.Lock()
	since := way.since
	way.mu.Unlock()
	time.AfterFunc(patience, func() {
		way.mu.Lock()
		defer way.mu.Unlock()
		if way.full == nil || !way.since.Equal(since) || c.ctx.Err() != nil {
			return
		}
		e := c.facade.BlockedError(way.full, nil).(*dataflow.BlockedError)
		if place := e.Op + e.Pos; (e.Calls || e.Port == "") && !way.told[place] {
			if way.told == nil {
				way.told = make(map[string]bool)
			}
			way.told[place] = true
			go c.opts.Flow.OnBlocked(e)
		}
	})
}
