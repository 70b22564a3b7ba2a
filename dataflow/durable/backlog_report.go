package durable

import (
	"context"
	"encoding/binary"
	"time"
)

// A word is a report of the owner of a partition to the processes that send to it.
type word struct {
	upTo, taken uint64 // positions of the last message that it has read, and of the last one taken
	lag         Lag    // the records between them
	stopped     bool   // it takes nothing until somebody reads its outputs
}

const wordVersion = 1

func (w word) encode() []byte {
	dst := []byte{wordVersion, 0}
	if w.stopped {
		dst[1] = 1
	}
	for _, x := range [...]uint64{w.upTo, w.taken, uint64(w.lag.Records), uint64(w.lag.Bytes)} {
		dst = binary.AppendUvarint(dst, x)
	}
	return dst
}

// decodeWord is the inverse of encode. A report of another version is ignored.
func decodeWord(data []byte) (w word, ok bool) {
	r := reader{data: data}
	version := r.byte()
	w.stopped = r.byte() == 1
	w.upTo, w.taken = r.uint(), r.uint()
	w.lag = Lag{int(r.uint()), int(r.uint())}
	return w, version == wordVersion && !r.bad
}

// tellOthers reports to other processes what waits in the partition, until ctx ends: at once when a quarter of
// the bound is crossed or the partition stops, and every sayAll while something waits or has come. It has a
// goroutine of its own, since a step may take long.
func (o *owner) tellOthers(ctx context.Context) {
	way := o.gateway.partitions[o.partition]
	each := time.NewTicker(sayAll)
	defer each.Stop()
	for {
		select {
		case <-way.backlog.tell:
		case <-each.C:
		case <-ctx.Done():
			return
		}
		if w, ok := way.say(); ok {
			_ = o.shared.Announce(o.partition, w.encode()) // a process that misses it sends less
		}
	}
}

// say returns the next report, if there is something to report.
func (w *partitionGateway) say() (word, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.backlog
	is := word{b.upTo, w.taken, b.known, w.shut != nil}
	if is == b.said && is.lag == (Lag{}) && !is.stopped {
		return is, false
	}
	b.said, b.saidAt = is, time.Now()
	return is, true
}

// hear records a report of the owner of the partition. It ignores the report if this process owns the partition,
// or if records were taken further in an earlier report: then it is from an owner that has been replaced.
func (w *partitionGateway) hear(is word) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.backlog
	if w.owned || is.taken < b.taken {
		return
	}
	b.known, b.upTo, b.stopped, b.taken, b.heard = is.lag, is.upTo, is.stopped, is.taken, time.Now()
	b.reach(is.upTo)
}
