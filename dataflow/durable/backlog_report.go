package durable

import (
	"context"
	"encoding/binary"
	"time"
)

// A backlogReport is a report of the owner of a partition to the processes that send to it.
type backlogReport struct {
	upTo, taken uint64 // positions of the last message that it has read, and of the last one taken
	lag         Lag    // the records between them
	stopped     bool   // it takes nothing until somebody reads its outputs
}

const backlogReportVersion = 1

func (w backlogReport) encode() []byte {
	dst := []byte{backlogReportVersion, 0}
	if w.stopped {
		dst[1] = 1
	}
	for _, x := range [...]uint64{w.upTo, w.taken, uint64(w.lag.Records), uint64(w.lag.Bytes)} {
		dst = binary.AppendUvarint(dst, x)
	}
	return dst
}

// decodeBacklogReport is the inverse of encode. A report of another version is ignored.
func decodeBacklogReport(data []byte) (w backlogReport, ok bool) {
	r := reader{data: data}
	version := r.byte()
	w.stopped = r.byte() == 1
	w.upTo, w.taken = r.uint(), r.uint()
	w.lag = Lag{int(r.uint()), int(r.uint())}
	return w, version == backlogReportVersion && !r.bad
}

// announceBacklog reports to other processes what waits in the partition, until ctx ends: at once when a quarter of
// the bound is crossed or the partition stops, and every reportEvery while something waits or has come. It has a
// goroutine of its own, since a step may take long.
func (o *owner) announceBacklog(ctx context.Context) {
	pg := o.gateway.partitions[o.partition]
	each := time.NewTicker(reportEvery)
	defer each.Stop()
	for {
		select {
		case <-pg.backlog.reportNow:
		case <-each.C:
		case <-ctx.Done():
			return
		}
		if w, ok := pg.nextReport(); ok {
			_ = o.shared.Announce(o.partition, w.encode()) // a process that misses it sends less
		}
	}
}

// nextReport returns the next report, if there is something to report.
func (pg *partitionGateway) nextReport() (backlogReport, bool) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	b := &pg.backlog
	r := backlogReport{b.upTo, pg.taken, b.known, pg.shut != nil}
	if r == b.reported && r.lag == (Lag{}) && !r.stopped {
		return r, false
	}
	b.reported, b.reportedAt = r, time.Now()
	return r, true
}

// receiveReport records a report of the owner of the partition. It ignores the report if this process owns the partition,
// or if records were taken further in an earlier report: then it is from an owner that has been replaced.
func (pg *partitionGateway) receiveReport(is backlogReport) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	b := &pg.backlog
	if pg.owned || is.taken < b.taken {
		return
	}
	b.known, b.upTo, b.stopped, b.taken, b.heard = is.lag, is.upTo, is.stopped, is.taken, time.Now()
	b.reach(is.upTo)
}
