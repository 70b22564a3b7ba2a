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

// ErrExists says that there is a history already where one was to be copied to.
var ErrExists = errors.New("durable: there is a history already")

// Copied is what a copy has.
type Copied struct {
	Identity   journal.Identity // of the copy: another one than that of what was copied
	Partitions []PartitionCheck // what [Check] says of the copy
	Lost       []*DamagedError  // that were accepted; see [Salvage]
}

// Copy copies what is kept of a flow to another log, which may be of another kind, where nothing
// is kept yet: a backup, what is restored from one, or a flow that moves from a folder to a cluster. It
// needs no program. What it reads is checked as [Check] does, and so is what it has
// written.
//
// The copy is the flow as it was at one moment between the call and the return, as if all of its
// processes had been killed then. Every record that was acknowledged before the call is in it, taken
// once or waiting. What one location sends to another is in it at one of both. Elements that were read
// at outputs later come again, and asynchronous calls whose answers came later are made again. Of
// each partition the copy has the snapshot and what came since, and nothing of before.
//
// The copy is a history of its own, with an identity of its own and other positions. So a process that
// knows the first one cannot go on with the copy in its place: its log returns [ErrDamaged], or its
// records are refused as those of another history. Do not run both.
//
// Of opts it uses Log, Name and Logger. A log of one process cannot be opened while that process
// runs: [App.Backup] does the same there. Other processes may run the flow on servers meanwhile. If they
// make snapshots faster than Copy can read all partitions, it gives up after some attempts.
//
// While the copy is not complete, opening it is [journal.ErrUnfinished]; after an error it is to be
// removed. Copy keeps all that it copies in memory. It returns [ErrExists] if there is something
// already, and a [*DamagedError] if what it reads does not fit together.
func Copy(ctx context.Context, opts Options, to journal.Opener) (Copied, error) {
	if ctx == nil {
		engine.NilContext("durable.Copy")
	}
	opts = opts.withDefaults()
	log, err := openKept(ctx, &opts)
	if err != nil {
		return Copied{}, err
	}
	made, err := copyLog(ctx, log, &opts, to, read)
	return made, errors.Join(err, log.Close())
}

// Backup is the function [Copy] for a flow that runs. The flow goes on meanwhile, but makes no snapshots
// while all that is kept is read, which a Stop may wait for.
func (a *App[P]) Backup(ctx context.Context, to journal.Opener) (Copied, error) {
	c := a.made()
	if ctx == nil {
		engine.NilContext("durable.App.Backup")
	}
	return copyLog(ctx, c.log, &c.opts, to, read)
}

// A readAll returns what is to be copied of each partition.
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

// nothingIn returns an error if something is kept in a log.
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

// readsAgain is how often everything is read again, after a snapshot was made meanwhile.
const readsAgain = 20

// read returns what is kept of all partitions at one moment: up to the last position that there is
// when it begins. Positions grow over all partitions. So a record that a step has sent to another
// partition is behind all records that the step and those before it took: with the record, the step is
// there. And a record that says that it was sent is behind it: with that, the record is there.
func read(ctx context.Context, from journal.Log, opts *Options) ([]*excerpt, error) {
	return readWith(ctx, from, opts, func(ctx context.Context, in *inspection) (*excerpt, error) {
		x := &excerpt{}
		in.visit = x
		return x, in.run(ctx)
	})
}

// A readPart returns what is to be copied of the partition that an inspection is of.
type readPart func(context.Context, *inspection) (*excerpt, error)

// readWith reads with a function that reads a partition.
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
			continue // which is found again
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

// knownIn returns up to where anything that can be read of a history knows that records were
// acknowledged: beyond their end if some are lost there.
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

// An excerpt is what an inspection has gone through, in order.
type excerpt struct{ events []event }

// An event is one of three.
type event struct {
	message  *message
	fence    uint64 // of step
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

// writeAll writes all partitions at the same time, so that they share what it costs to make
// something durable.
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

// writersAtOnce is to how many partitions is written at the same time.
const writersAtOnce = 16

// A copyWriter writes a partition. What says where something is in the log is made to say where
// it is in this one: positions, fences, and the digests and links over what has them.
type copyWriter struct {
	log       journal.Log
	partition int
	of        origin

	positions, fences moves
	pending           []message // that no step has taken
	last              *step     // the one before, nil in front of the first
	fence             uint64    // of that
	link              link      // to it
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

// message writes records, in more than one message if they are too large for one here.
func (w *copyWriter) message(ctx context.Context, was, floor uint64, records [][]byte) error {
	m := journal.Message{Records: make([][]byte, len(records))}
	for i, r := range records {
		m.Records[i] = w.of.record(nil, w.fences.of(floor), r)
	}
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

// step writes a step. Of the first one, what it took is there no longer but for the last message.
func (w *copyWriter) step(ctx context.Context, was uint64, s step) error {
	switch {
	case w.last != nil:
		s.fence, s.link = w.fence, w.link
		taken := w.last.intake
		for i := range w.pending {
			taken.take(&w.pending[i])
		}
		s.intake = taken
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

// snapshot writes the snapshot that was made after the last step, and the state that it names.
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

// Moves are numbers, and what they are in another log, both in order.
type moves []struct{ was, is uint64 }

func (m *moves) add(was, is uint64) { *m = append(*m, struct{ was, is uint64 }{was, is}) }

// of returns what a number is, or what the greatest one before it that is known is; zero if
// there is none.
func (m moves) of(was uint64) uint64 {
	i := sort.Search(len(m), func(i int) bool { return m[i].was > was })
	if i == 0 {
		return 0
	}
	return m[i-1].is
}
