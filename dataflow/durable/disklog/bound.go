package disklog

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// overhead is about how many bytes a message, a step or a piece takes in addition to its data:
// keys, checksums, tallies and what pebble adds.
const overhead = 64

// admit counts bytes that are added, or returns an error if they cannot be.
func (l *Log) admit(p journal.Purpose, size int64) error {
	if err := l.bound.Add(p, size); err != nil {
		return fmt.Errorf("%w in %s", err, l.opts.dir)
	}
	return nil
}

// Room returns how much is kept for all partitions, and MaxBytes. It counts the bytes that were
// given to the log. The package comment describes what else the files contain.
func (l *Log) Room(ctx context.Context) (journal.Room, error) {
	if err := l.ready(ctx, 0); err != nil {
		return journal.Room{}, err
	}
	return l.bound.Room(), nil
}

// kept returns the bytes that a partition keeps, without the pieces of its state.
func (s *state) kept() int64 { return s.history() + int64(s.snapshot.size) }

// history returns the bytes of the records and steps of a partition.
func (s *state) history() int64 {
	steps := total{count: s.steps.count, bytes: s.steps.bytes}
	return sizeBetween(s.purged, total{count: s.records.count, bytes: s.records.bytes}) + sizeBetween(s.stepGone, steps)
}

// sizeBetween returns the bytes between two totals, with the overhead.
func sizeBetween(a, b total) int64 { return int64(b.bytes-a.bytes) + overhead*int64(b.count-a.count) }

// A keptPiece is the number of a piece of a state, and the bytes that it takes.
type keptPiece struct {
	number uint64
	size   int64
}

// forget records that the pieces with lower numbers are gone.
func (p *partition) forget(before uint64) {
	p.mu.Lock()
	n, gone := 0, int64(0)
	for _, x := range p.pieces {
		if x.number < before {
			gone += x.size
			continue
		}
		p.pieces[n] = x
		n++
	}
	p.pieces, p.pieceBytes = p.pieces[:n], p.pieceBytes-gone
	p.mu.Unlock()
	p.log.bound.Free(gone)
}

// loadPieces finds out how large the pieces of the state are when the log is opened. It
// reads the pieces themselves only if they were written by a version of the program
// that did not store their size.
func (p *partition) loadPieces() error {
	noted := ^uint64(0)
	sizes := between(kindPieceSize, p.number, 0, ^uint64(0))
	if err := p.log.each(sizes, func(it *pebble.Iterator) error {
		number := numberOf(it.Key())
		noted = min(noted, number)
		return decodeAt(it, func(_ uint64, d *decoder) { p.found(number, int64(d.number())) })
	}); err != nil || noted == 0 {
		return err
	}
	return p.log.each(between(kindStatePiece, p.number, 0, noted-1), func(it *pebble.Iterator) error {
		value, err := it.ValueAndErr()
		p.found(numberOf(it.Key()), int64(len(value)-sumSize))
		return err
	})
}

func (p *partition) found(number uint64, size int64) {
	if n := len(p.pieces); n > 0 && p.pieces[n-1].number == number { // another part of the same piece
		p.pieces[n-1].size += size
		p.pieceBytes += size
		return
	}
	p.pieces, p.pieceBytes = append(p.pieces, keptPiece{number, size + overhead}), p.pieceBytes+size+overhead
}

// each calls do with each value of a range.
func (l *Log) each(o *pebble.IterOptions, do func(*pebble.Iterator) error) error {
	it, err := l.db.NewIter(o)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		err = do(it)
	}
	return errors.Join(err, it.Error(), it.Close())
}
