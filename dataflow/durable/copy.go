package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// ErrExists says that the destination of a copy has a history already.
var ErrExists = errors.New("durable: there is a history already")

// Copied describes a copy.
type Copied struct {
	Identity   journal.Identity // of the copy; it differs from that of the original
	Partitions []PartitionCheck // the results of [Check] on the copy
	Lost       []*DamagedError  // losses that were accepted, or that were found if Salvage returned an error; see [Salvage]
}

// Copy copies the stored history of a flow to an empty log, which may be of another kind. Use it to make a
// backup, to restore one, or to move a flow from a folder to a cluster. It needs no program. It checks what it
// reads and what it has written as [Check] does.
//
// The copy is the flow as it was at one moment between the call and the return, as if all of its processes had
// been killed then. It contains every record that was acknowledged before the call, either taken once or
// waiting. An element on its way between two locations is in it at one of the two. Elements that were read at
// outputs after that moment come again, and asynchronous calls whose answers came later are repeated. Of each
// partition the copy has the snapshot and what came since, and nothing older.
//
// The copy is a history of its own, with its own identity and positions. A process that knows the original
// cannot continue with the copy in its place: its log returns [ErrDamaged], or its records are refused as those
// of another history. Do not run both.
//
// Copy uses Log, Name and Logger of opts. A log for one process cannot be opened while that process runs; use
// [App.Backup] there. Other processes may run the flow on servers meanwhile. If they make snapshots faster than
// Copy can read all partitions, it gives up after some attempts.
//
// Until the copy is complete, opening it returns [journal.ErrUnfinished]. After an error, remove it. Copy holds
// everything that it copies in memory. It returns [ErrExists] if the destination is not empty, and a
// [*DamagedError] if the history is inconsistent.
func Copy(ctx context.Context, opts Options, to journal.Opener) (Copied, error) {
	if ctx == nil {
		engine.NilContext("durable.Copy")
	}
	opts = opts.withDefaults()
	log, err := openExisting(ctx, &opts)
	if err != nil {
		return Copied{}, err
	}
	made, err := copyLog(ctx, log, &opts, to, read)
	return made, errors.Join(err, log.Close())
}

// Backup is the function [Copy] for a running flow. The flow goes on meanwhile, but makes no snapshots while
// its history is read, so a Stop may have to wait for that.
func (a *App[P]) Backup(ctx context.Context, to journal.Opener) (Copied, error) {
	return a.made().backup(ctx, to)
}

func (c *core) backup(ctx context.Context, to journal.Opener) (Copied, error) {
	if ctx == nil {
		engine.NilContext("durable.App.Backup")
	}
	return copyLog(ctx, c.log, &c.opts, to, read)
}

// A readAll returns what to copy of each partition.
type readAll func(ctx context.Context, from journal.Log, opts *Options) ([]*excerpt, error)

func copyLog(ctx context.Context, from journal.Log, opts *Options, to journal.Opener, read readAll) (made Copied, err error) {
	if to == nil {
		return made, errNoLog
	}
	dest, err := to.Open(ctx, journal.OpenOptions{Name: opts.Name, Partitions: from.Partitions(), Logger: opts.Logger})
	if err != nil {
		return made, fmt.Errorf("durable: %w", err)
	}
	defer func() { err = errors.Join(err, dest.Close()) }()
	target, ok := dest.(journal.Target)
	if !ok {
		return made, fmt.Errorf("durable: %s cannot be copied to: its log is no journal.Target", to)
	}
	if err := nothingIn(ctx, target, to); err != nil {
		return made, err
	}
	if err := target.BeginCopy(ctx); err != nil {
		return made, fmt.Errorf("durable: %w", err)
	}
	all, err := read(ctx, from, opts)
	if err != nil {
		return made, err
	}
	if err := writeAll(ctx, target, all); err != nil {
		return made, fmt.Errorf("durable: the copy to %s is not complete: %w; remove it, and copy again", to, err)
	}
	there := *opts
	there.Log, there.Witness = to, nil // the copy is another history
	made.Identity = target.Identity()
	if made.Partitions, err = checkAll(ctx, target, &there); err != nil {
		return made, fmt.Errorf("durable: the copy is not right: remove it: %w", err)
	}
	if err := target.EndCopy(ctx); err != nil {
		return made, fmt.Errorf("durable: %w", err)
	}
	return made, nil
}

// nothingIn returns an error if a log is not empty.
func nothingIn(ctx context.Context, log journal.Log, at journal.Opener) error {
	for p := range log.Partitions() {
		h, err := log.Restore(ctx, p)
		if err != nil {
			return fmt.Errorf("durable: %w", err)
		}
		if h.Fence != 0 || h.End != 0 {
			return fmt.Errorf("%w: %s has one; copy to an empty place", ErrExists, at)
		}
	}
	return nil
}

// readsAgain is how often everything is read anew because a snapshot was made meanwhile.
const readsAgain = 20

// read returns the history of all partitions as of one moment: up to the last position that exists when it
// begins. This is a consistent cut, because positions grow over all partitions. A record that a step has sent
// to another partition comes after all records that the step and those before it took, so if the record is
// included, so is the step. And the record that notes the sending comes after the sent record, so if the note
// is included, so is the record.
func read(ctx context.Context, from journal.Log, opts *Options) ([]*excerpt, error) {
	return readWith(ctx, from, opts, func(ctx context.Context, in *inspection) (*excerpt, error) {
		x := &excerpt{}
		in.visit = x
		return x, in.run(ctx)
	})
}

// A readPart returns what to copy of the partition that an inspection reads.
type readPart func(context.Context, *inspection) (*excerpt, error)

// readWith is read with a given function for each partition.
func readWith(ctx context.Context, from journal.Log, opts *Options, part readPart) ([]*excerpt, error) {
	if m, ok := from.(*measured); ok {
		if err := m.reading.begin(ctx); err != nil {
			return nil, err
		}
		defer m.reading.end()
	}
	for try := 1; ; try++ {
		all, err := readOnce(ctx, from, opts, part)
		if !errors.Is(err, errAhead) || try == readsAgain || ctx.Err() != nil {
			return all, err
		}
	}
}

func readOnce(ctx context.Context, from journal.Log, opts *Options, part readPart) ([]*excerpt, error) {
	upTo := uint64(0)
	for p := range from.Partitions() {
		h, err := from.Restore(ctx, p)
		for try := 1; errors.Is(err, journal.ErrPurged) && try < restoresBehind && ctx.Err() == nil; try++ {
			pauseBehind(ctx) // a snapshot may just have been made
			h, err = from.Restore(ctx, p)
		}
		if unreadable(err) {
			continue // the second pass finds it again
		}
		if err != nil {
			return nil, fmt.Errorf("durable: partition %d: %w", p, err)
		}
		upTo = max(upTo, h.End, knownIn(inspect(from, opts, p).of, h))
	}
	var all []*excerpt
	for p := range from.Partitions() {
		in := inspect(from, opts, p)
		in.upTo = upTo
		x, err := part(ctx, in)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// knownIn returns the position up to which the readable part of a history knows that records were acknowledged.
// It is beyond the end of the records if some were lost there.
func knownIn(of origin, h *journal.History) (known uint64) {
	if s, err := newest(of, h.Snapshot); err == nil {
		known = s.last
	}
	for _, committed := range h.Steps {
		if s, err := decodeStep(of, committed.Data); err == nil {
			known = max(known, s.last)
		}
	}
	return known
}

// An excerpt is what an inspection has read, in order.
type excerpt struct{ events []event }

// An event is a message, a step or a snapshot.
type event struct {
	message  *message
	fence    uint64 // of the step
	step     *step
	snapshot *snapshot
	state    [][][]byte // the pieces of snapshot, by run
}

func (x *excerpt) restart()           { x.events = nil }
func (x *excerpt) message(m *message) { x.events = append(x.events, event{message: m}) }
func (x *excerpt) step(fence uint64, s *step) {
	x.events = append(x.events, event{fence: fence, step: s})
}
func (x *excerpt) snapshot(s *snapshot, state [][][]byte) {
	x.events = append(x.events, event{snapshot: s, state: state})
}

// writeAll writes all partitions at the same time, so that they share the cost of syncs.
func writeAll(ctx context.Context, log journal.Log, all []*excerpt) error {
	id := log.Identity()
	errs := make([]error, len(all))
	slots := make(chan struct{}, writersAtOnce)
	var writers sync.WaitGroup
	for p, x := range all {
		slots <- struct{}{}
		writers.Go(func() {
			defer func() { <-slots }()
			w := copyWriter{log: log, partition: p, of: origin{[4]byte(id[:4]), p}}
			errs[p] = w.write(ctx, x)
		})
	}
	writers.Wait()
	return errors.Join(errs...)
}

// writersAtOnce is how many partitions are written at the same time.
const writersAtOnce = 16

// A copyWriter writes a partition. It translates everything that depends on places in the log to those of the
// new log: positions, fences, and the digests and links computed over them.
type copyWriter struct {
	log       journal.Log
	partition int
	of        origin

	positions, fences positionMap
	pending           []message // messages that no step has taken
	last              *step     // the previous step; nil before the first
	fence             uint64    // of the previous step
	link              link      // to the previous step
}

func (w *copyWriter) write(ctx context.Context, x *excerpt) (err error) {
	for _, e := range x.events {
		switch {
		case e.message != nil:
			err = w.message(ctx, e.message.position, e.message.floor, e.message.records)
		case e.step != nil:
			err = w.step(ctx, e.fence, *e.step)
		default:
			err = w.snapshot(ctx, *e.snapshot, e.state)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// message writes records, divided over several messages if the log does not accept them in one.
func (w *copyWriter) message(ctx context.Context, was, floor uint64, records [][]byte) error {
	m := journal.Message{Records: [][]byte{w.of.batch(w.fences.of(floor), records)}}
	var err error
	m.Position, err = w.log.Append(ctx, w.partition, m.Records...)
	if half := len(records) / 2; errors.Is(err, journal.ErrTooLarge) && half > 0 {
		if err := w.message(ctx, was, floor, records[:half]); err != nil {
			return err
		}
		return w.message(ctx, was, floor, records[half:])
	}
	if err != nil {
		return err
	}
	framed, err := w.of.message(m)
	if err != nil {
		return err
	}
	w.pending = append(w.pending, framed)
	w.positions.add(was, m.Position)
	return nil
}

// step writes a step. Of the messages that the first step took, only the last still exists.
func (w *copyWriter) step(ctx context.Context, was uint64, s step) error {
	switch {
	case w.last != nil:
		s.fence, s.link = w.fence, w.link
		taken := w.last.inputPosition
		for i := range w.pending {
			taken.take(&w.pending[i])
		}
		s.inputPosition = taken
	default:
		s.fence = 0
		if n := len(w.pending); n > 0 {
			s.taken, s.digest = w.pending[n-1].position, w.pending[n-1].digest
		}
	}
	w.pending = nil
	s.last = max(w.positions.of(s.last), s.taken)
	data := s.encode(w.of)
	var err error
	if w.fence, err = w.log.Commit(ctx, w.partition, w.fence, data); err != nil {
		return err
	}
	w.fences.add(was, w.fence)
	w.last, w.link = &s, after(data)
	return nil
}

// snapshot writes the snapshot that was made after the last step, with its state.
func (w *copyWriter) snapshot(ctx context.Context, s snapshot, state [][][]byte) error {
	var k stored
	for i, pieces := range state {
		for _, p := range pieces {
			err := k.keepPiece(w.of, logdriven.Piece{Run: s.runs[i].number, Data: p}, func(data []byte) (uint64, error) {
				return w.log.SavePiece(ctx, w.partition, data)
			})
			if err != nil {
				return err
			}
		}
	}
	s.runs = k.runs
	s.place = w.last.place
	s.fence, s.link = w.fence, w.link
	s.refusals.latest = slices.Clone(s.refusals.latest)
	for i := range s.refusals.latest {
		x := &s.refusals.latest[i]
		x.taken = w.positions.of(x.taken)
	}
	s.refusals.before = w.positions.of(s.refusals.before)
	if s.diverged != 0 {
		s.diverged = w.fence // at the latest
	}
	return w.log.SaveSnapshot(ctx, w.partition, 0, w.fence, both(s.encode(w.of), nil))
}

// Moves map numbers to those in another log. Both sides are in order.
type positionMap []struct{ was, is uint64 }

func (m *positionMap) add(was, is uint64) { *m = append(*m, struct{ was, is uint64 }{was, is}) }

// of returns the new number of was, or of the greatest known number before it; zero if there is none.
func (m positionMap) of(was uint64) uint64 {
	i := sort.Search(len(m), func(i int) bool { return m[i].was > was })
	if i == 0 {
		return 0
	}
	return m[i-1].is
}
