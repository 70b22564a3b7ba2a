package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A sender appends what a partition gives for other locations to their partitions, in order, and then notes
// in the history of its own partition what it has sent. It belongs to one term of an owner. What waits here is
// part of the partition's state, and bounded with it.
//
// It sends what is committed and not known to be sent, from the first element on, in batches, and none before
// the previous one is durable. Several owners may send at the same time without knowing what the others sent.
// But each sends in this order, so a partition gets each record after all earlier records of the same edge, and
// takes it once.
type sender struct {
	*core
	partition int

	mu      sync.Mutex
	waiting []engine.Moved
	more    chan struct{} // of capacity 1: there is something to send
}

// sendBytes bounds the records that are sent to a partition at once.
const sendBytes = 256 << 10

// sentRoom is the room that a record has for what it says of a sent element: where it comes from and for which operator it is.
const sentRoom = 1 << 10

// mostSent returns how many bytes a sent element may have, or 0 if that is not known.
func mostSent(l journal.Log) int {
	most := journal.MaxRecord(l)
	return max(most-sentRoom, most/2)
}

func newSender(c *core, partition int) *sender {
	return &sender{core: c, partition: partition, more: make(chan struct{}, 1)}
}

// add queues elements to be sent. It does not wait.
func (s *sender) add(ms []engine.Moved) {
	if len(ms) == 0 {
		return
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, ms...)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// run sends until ctx ends. It returns an error if something can never be sent.
func (s *sender) run(ctx context.Context) error {
	for {
		select {
		case <-s.more:
		case <-ctx.Done():
			return nil
		}
		s.mu.Lock()
		all := s.waiting
		s.waiting = nil
		s.mu.Unlock()
		for len(all) > 0 {
			n, bytes := 0, 0
			for n < len(all) && (n == 0 || bytes < sendBytes) {
				bytes += len(all[n].Record.Key) + len(all[n].Record.Value)
				n++
			}
			if err := s.send(ctx, all[:n]); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return fmt.Errorf("what was moved to another location could not be kept: %w", err)
			}
			all = all[n:]
		}
	}
}

// send makes elements durable at their destinations, and then notes that in the history of this partition.
func (s *sender) send(ctx context.Context, ms []engine.Moved) error {
	type batch struct {
		to      int
		within  bool
		records [][]byte
		last    int32 // the edge of the last record if that is for all partitions, else -1
	}
	var batches []*batch
	by := make(map[int]*batch)
	sent := make(map[int32]codec.Record) // by link
	var links []int32
	for i := range ms {
		m := &ms[i]
		r := m.Record
		r.Source = linkSource(s.partition, m.ID)
		first, n := s.layout.all(m.Location)
		switch {
		case m.All:
			r.ToAll()
		case len(r.Key) > 0:
			first, n = s.ofStored(m.Location, r.Op, r.Key), 1
		default:
			first, n = s.ofRecord(m.Location, &r), 1
		}
		for to := first; to < first+n; to++ {
			b := by[to]
			if b == nil {
				b = &batch{to: to, within: m.Within, last: -1}
				by[to] = b
				batches = append(batches, b)
			}
			if m.All && b.last == m.Link { // the receiver sees nothing between the two
				b.records = b.records[:len(b.records)-1]
			}
			b.records = append(b.records, s.gateway.encode(nil, to, r))
			if b.last = -1; m.All {
				b.last = m.Link
			}
		}
		if _, ok := sent[m.Link]; !ok {
			links = append(links, m.Link)
		}
		sent[m.Link] = logdriven.SentRecord(m.Link, m.ID, r.Number)
	}
	for _, b := range batches {
		// Waiting for space within a cycle of locations could be waiting for oneself.
		if !b.within {
			if err := s.gateway.partitions[b.to].room(ctx, s.facade, s.done); err != nil {
				return err
			}
		}
		if err := s.persist(ctx, b.to, b.records); err != nil {
			return err
		}
	}
	var reads [][]byte
	for _, link := range links {
		r := sent[link]
		reads = append(reads, r.Encode(nil))
	}
	return s.persist(ctx, s.partition, reads)
}

// linkSource returns the source of the records of an edge. It stays the same throughout a history, even when
// the program changes: the partitions of a log are fixed, and the state says which edge is which.
func linkSource(partition int, link uint64) string {
	return fmt.Sprintf(codec.EdgeSource+" %d of partition %d", link, partition)
}

// persist makes records durable, retrying as often as necessary: a repeat is recognized.
func (c *core) persist(ctx context.Context, partition int, records [][]byte) error {
	waits := c.waiter("a record for a location", partition)
	defer waits.end()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		_, err := c.append(ctx, partition, records...)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, journal.ErrClosed):
			return err
		case errors.Is(err, journal.ErrTooLarge):
			if len(records) == 1 {
				return err
			}
			half := len(records) / 2
			if err := c.persist(ctx, partition, records[:half]); err != nil {
				return err
			}
			records, wait = records[half:], firstWait
			continue
		}
		waits.failed("waits to be kept", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answer stores the answer of an asynchronous call. It retries until the answer is stored; storing it twice is
// harmless, since only the first one counts.
func (o *owner) answer(r codec.Record) error {
	r.Op, _ = o.program.numbers.Number(r.Op) // the history's operator asked for it
	record := r.Encode(nil)
	waits := o.waiter("an answer", o.partition)
	defer waits.end()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		_, err := o.append(o.ctx, o.partition, record)
		switch {
		case err == nil || o.ctx.Err() != nil:
			return err
		case errors.Is(err, journal.ErrTooLarge), errors.Is(err, journal.ErrClosed):
			return fmt.Errorf("durable: an answer could not be kept: %w", err)
		}
		waits.failed("waits to be kept", err)
		select {
		case <-time.After(wait):
		case <-o.ctx.Done():
			return context.Cause(o.ctx)
		}
	}
}
