package connect

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A SplitStatus says how far a split was read. Counts are those of this process.
type SplitStatus struct {
	Split   Split
	Assumed dataflow.NonDet // why all records of a key are in one split, as given to [ByKey]

	Reading bool  // by this process, now
	Ended   bool  // to its end, or with Err
	Err     error // why it ended, or why it is tried again; nil if all is well

	Position dataflow.Position // everything up to it was read and sent
	Floor    dataflow.Position // everything up to it is known to be durable
	Written  time.Time         // when the record at Position was written, if the source says so
	Behind   int64             // records that wait after Position; -1 if not known

	Records uint64        // sent, including those that the flow had and dropped
	Bad     uint64        // dead letters
	Blocked time.Duration // time spent sending: the flow is slow
	Waited  time.Duration // time spent waiting for the source
}

// Status returns how far each split was read, ordered by name. If the last look for splits has failed, the first one is empty, except
// for its Err.
func (p *Pumps) Status() []SplitStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []SplitStatus
	for _, m := range p.splits {
		m.mu.Lock()
		all = append(all, m.status)
		m.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b SplitStatus) int {
		if c := strings.Compare(a.Split.String(), b.Split.String()); c != 0 {
			return c
		}
		return strings.Compare(a.Split.ID, b.Split.ID)
	})
	return all
}

// A meter is the status of a split.
type meter struct {
	mu     sync.Mutex
	status SplitStatus
}

// meter returns the meter of a split.
func (p *Pumps) meter(s Split) *meter {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.splits[s.ID]
	if m == nil {
		m = &meter{status: SplitStatus{Split: s, Assumed: p.assumed, Behind: -1}}
		p.splits[s.ID] = m
	}
	return m
}

// looked notes how a look for splits has ended, as the status of a split without an ID.
func (p *Pumps) looked(err error) {
	if err != nil {
		p.meter(Split{}).failed(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.splits, "")
}

func (m *meter) change(f func(s *SplitStatus)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.status)
}

func (m *meter) ended() (over bool) {
	m.change(func(s *SplitStatus) { over = s.Ended })
	return over
}

func (m *meter) opened(at dataflow.Position) {
	m.change(func(s *SplitStatus) { s.Reading, s.Position, s.Floor = true, at, at })
}

func (m *meter) counted(n int, last dataflow.Position, written time.Time, behind int64, blocked time.Duration) {
	m.change(func(s *SplitStatus) {
		s.Records += uint64(n)
		s.Position, s.Written, s.Behind, s.Err = last, written, behind, nil
		s.Blocked += blocked
	})
}

func (m *meter) kept(at dataflow.Position) { m.change(func(s *SplitStatus) { s.Floor = at }) }
func (m *meter) poisoned(n int)            { m.change(func(s *SplitStatus) { s.Bad += uint64(n) }) }
func (m *meter) waited(d time.Duration)    { m.change(func(s *SplitStatus) { s.Waited += d }) }
func (m *meter) failed(err error)          { m.change(func(s *SplitStatus) { s.Err = err }) }

// recovers clears an earlier error once the split has been read for a while without another one, even if no record came. The
// caller calls stop when it stops reading.
func (m *meter) recovers() (stop func()) {
	failed := false
	m.change(func(s *SplitStatus) { failed = s.Err != nil })
	if !failed {
		return func() {}
	}
	cleared := make(chan struct{})
	timer := time.AfterFunc(longestPause, func() {
		m.failed(nil)
		close(cleared)
	})
	return func() {
		if !timer.Stop() {
			<-cleared // it must not clear the next error
		}
	}
}

func (m *meter) over(err error, ended bool) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	m.change(func(s *SplitStatus) { s.Reading, s.Ended, s.Err = false, ended, err })
}

// A LaneStatus says how far a lane was written by this process.
type LaneStatus struct {
	Partition int
	Number    uint64        // the sink contains the elements up to this one
	Elements  uint64        // written
	Writes    uint64        // batches written
	Writing   time.Duration // total time of the writes
	Opened    uint64        // how often
	Fenced    uint64        // how often another writer had taken over
	Err       error         // why it is tried again; nil if all is well
}

// Status returns how far each lane was written, ordered by partition. It includes the partitions that this process owned at
// some time.
func (d *Drains) Status() []LaneStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []LaneStatus
	for _, p := range slices.Sorted(maps.Keys(d.lanes)) {
		m := d.lanes[p]
		m.mu.Lock()
		all = append(all, m.status)
		m.mu.Unlock()
	}
	return all
}

// A laneMeter is the status of a lane.
type laneMeter struct {
	mu     sync.Mutex
	status LaneStatus
}

func (d *Drains) meter(partition int) *laneMeter {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := &laneMeter{status: LaneStatus{Partition: partition}}
	d.lanes[partition] = m
	return m
}

func (m *laneMeter) opened(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Opened++
	m.status.Number = last
}

func (m *laneMeter) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Err = err
	if errors.Is(err, ErrFenced) {
		m.status.Fenced++
	}
}

// written notes that nothing is left to write.
func (m *laneMeter) written() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Err = nil
}

func (m *laneMeter) wrote(n int, last uint64, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.status
	s.Number, s.Err = last, nil
	s.Elements += uint64(n)
	s.Writes++
	s.Writing += took
}
