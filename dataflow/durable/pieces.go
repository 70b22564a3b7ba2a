package durable

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// The state of a partition is stored in pieces, which are written and deleted in runs, see [logdriven.Cutter].
// A snapshot names the runs that hold the state.
//
//	piece  frame, tag, run, index in the run, 1 if the next piece continues this one, content
//
// Two processes that both believe to own the partition may write pieces at the same time: the tag of a run says
// whose it is. A log may have a piece twice: its index shows that.

// pieceVersion is the version of the frame of a piece.
const pieceVersion = 1

// pieceRoom is how many bytes of a state fit into a piece.
const pieceRoom = journal.MaxPiece - 64

// A run is a group of pieces that are written and deleted together.
type run struct {
	number, tag uint64
	first, last uint64 // numbers of its pieces in the log
	count       uint64
	bytes       uint64
	sum         uint32 // checksum of all pieces
}

func (r *run) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, r.number)
	dst = binary.LittleEndian.AppendUint64(dst, r.tag)
	dst = binary.AppendUvarint(dst, r.first)
	dst = binary.AppendUvarint(dst, r.last-r.first)
	dst = binary.AppendUvarint(dst, r.count)
	dst = binary.AppendUvarint(dst, r.bytes)
	return binary.LittleEndian.AppendUint32(dst, r.sum)
}

func (r *run) decode(from *reader) {
	r.number = from.uint()
	if b := from.skip(8); b != nil {
		r.tag = binary.LittleEndian.Uint64(b)
	}
	r.first = from.uint()
	r.last = r.first + from.uint()
	r.count, r.bytes = from.uint(), from.uint()
	if b := from.skip(4); b != nil {
		r.sum = binary.LittleEndian.Uint32(b)
	}
}

// A stored is the durable part of the state of a partition. The goroutine of a cut in progress has it; between
// cuts the owner does.
//
// A snapshot is saved only in the place of the one that its owner knows, so everything that it names exists:
// runs of that snapshot, none of which is deleted before another snapshot replaces it, and pieces saved since
// then.
type stored struct {
	at   uint64 // fence of the latest snapshot in the log
	tag  uint64 // of the runs that this owner writes
	runs []run  // oldest first
	last lastSnapshot
}

// A lastSnapshot is what must be known of a snapshot when the next one is made.
type lastSnapshot struct {
	data         []byte // nil if there is none
	fence, taken uint64
	first        uint64 // number of its first piece
}

func lastOf(data []byte, s *snapshot) lastSnapshot {
	first := ^uint64(0)
	for _, r := range s.runs {
		first = min(first, r.first)
	}
	return lastSnapshot{data, s.fence, s.taken, first}
}

// persistCut makes the pieces of a cut durable, and then the snapshot that names them. Then it deletes the history
// before the previous snapshot, see purge: that one must stay usable.
func (o *owner) persistCut(c *cut) error {
	k := &o.stored
	for {
		pieces, err := c.next()
		if err != nil {
			return err
		}
		for _, p := range pieces {
			err := k.keepPiece(o.of, p, func(data []byte) (uint64, error) { return o.savePiece(c.ctx, data) })
			if err != nil {
				return err
			}
		}
		if len(pieces) == 0 {
			break
		}
	}
	runs := slices.DeleteFunc(slices.Clone(k.runs), func(r run) bool { return r.number < c.at.oldest })
	c.at.runs = runs
	data := c.at.encode(o.of)
	if err := o.retry(c.ctx, "a snapshot", func() error {
		return o.log.SaveSnapshot(c.ctx, o.partition, k.at, c.at.fence, both(data, k.last.data))
	}); err != nil {
		return err
	}
	o.metrics.snapshots.Add(1)
	before := k.last
	k.at, k.runs, k.last = c.at.fence, runs, lastOf(data, &c.at)
	o.gateway.partitions[o.partition].saved.Store(k.bytes())
	if before.data == nil {
		return nil // the beginning of the history can replace this snapshot
	}
	if err := o.log.PurgePieces(c.ctx, o.partition, min(before.first, k.last.first)); err != nil {
		return err
	}
	return o.purge(c.ctx, before, c.at.now)
}

// bytes returns the size of all runs.
func (k *stored) bytes() (n int64) {
	for i := range k.runs {
		n += int64(k.runs[i].bytes)
	}
	return n
}

// keepPiece saves a piece, divided over several pieces of the log if it is large.
func (k *stored) keepPiece(of origin, p logdriven.Piece, save func(data []byte) (number uint64, err error)) error {
	if k.tag == 0 {
		k.tag = rand.Uint64() | 1
	}
	if n := len(k.runs); n == 0 || k.runs[n-1].number != p.Run {
		k.runs = append(k.runs, run{number: p.Run, tag: k.tag})
	}
	r := &k.runs[len(k.runs)-1]
	for rest := p.Data; len(rest) > 0; {
		part := rest[:min(len(rest), pieceRoom)]
		rest = rest[len(part):]
		data := of.begin(make([]byte, 0, len(part)+64), pieceVersion)
		data = binary.LittleEndian.AppendUint64(data, r.tag)
		data = binary.AppendUvarint(data, r.number)
		data = binary.AppendUvarint(data, r.count)
		data = append(data, 0)
		if len(rest) > 0 {
			data[len(data)-1] = 1
		}
		data = of.seal(append(data, part...))
		number, err := save(data)
		if err != nil {
			return err
		}
		if r.count == 0 {
			r.first = number
		}
		r.last, r.count, r.bytes = number, r.count+1, r.bytes+uint64(len(data))
		r.sum = crc32.Update(r.sum, castagnoli, data)
	}
	return nil
}

// savePiece saves a piece, and waits while the log is full.
func (o *owner) savePiece(ctx context.Context, data []byte) (number uint64, err error) {
	err = o.retry(ctx, "a snapshot", func() error {
		number, err = o.log.SavePiece(ctx, o.partition, data)
		return err
	})
	return number, err
}

// readRun returns the contents of a run of a partition's state, in the order and the units in which they were
// written. Damage says why the run is incomplete. That may mean that a newer snapshot was made and the run
// deleted.
func readRun(ctx context.Context, log journal.Log, partition int, of origin, r run) (all [][]byte, damage string, err error) {
	found, err := log.Pieces(ctx, partition, r.first, r.last)
	if err != nil {
		return nil, "", err
	}
	count, sum, goesOn := uint64(0), uint32(0), false
	for _, p := range found {
		in, err := of.open("piece", pieceVersion, p.Data)
		if err != nil {
			return nil, fmt.Sprintf("piece %d of its state: %v", p.Number, err), nil
		}
		d := reader{data: in}
		tag, number, index, more := uint64(0), uint64(0), uint64(0), byte(0)
		if b := d.skip(8); b != nil {
			tag = binary.LittleEndian.Uint64(b)
		}
		number, index, more = d.uint(), d.uint(), d.byte()
		if d.bad {
			return nil, fmt.Sprintf("piece %d of its state is cut short", p.Number), nil
		}
		if tag != r.tag || number != r.number || index < count {
			continue // written by another owner, or a duplicate
		}
		if index > count {
			return nil, fmt.Sprintf("pieces of its state before piece %d are gone", p.Number), nil
		}
		count++
		sum = crc32.Update(sum, castagnoli, p.Data)
		if goesOn {
			all[len(all)-1] = append(all[len(all)-1], d.data...)
		} else {
			all = append(all, slices.Clone(d.data))
		}
		goesOn = more == 1
	}
	if count != r.count || sum != r.sum || goesOn {
		return nil, fmt.Sprintf("its state has %d pieces from %d to %d of which %d are there, or one was replaced", r.count, r.first, r.last, count), nil
	}
	return all, "", nil
}

// both encodes the last two snapshots together: a log stores one value for them.
func both(last, before []byte) []byte {
	dst := binary.AppendUvarint(make([]byte, 0, len(last)+len(before)+binary.MaxVarintLen64), uint64(len(last)))
	return append(append(dst, last...), before...)
}

// lastTwo is the inverse of both.
func lastTwo(data []byte) (last, before []byte, err error) {
	n, k := binary.Uvarint(data)
	if k <= 0 || n > uint64(len(data)-k) {
		return nil, nil, fmt.Errorf("durable: a snapshot is damaged: it is cut short")
	}
	return data[k : k+int(n)], data[k+int(n):], nil
}

// newest returns the last snapshot, or the one before if that cannot be decoded.
func newest(of origin, data []byte) (snapshot, error) {
	last, before, err := lastTwo(data)
	if err != nil {
		return snapshot{}, err
	}
	s, err := decodeSnapshot(of, last)
	if err == nil || len(before) == 0 {
		return s, err
	}
	if s, e := decodeSnapshot(of, before); e == nil {
		return s, nil
	}
	return s, err
}
