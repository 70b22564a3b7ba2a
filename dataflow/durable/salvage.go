package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// Salvage copies what is left of a damaged history, as [Copy] copies an undamaged one. A person accepts the
// loss by passing the Token of each [*DamagedError], as returned by a Start, by [Check], or by Salvage without
// tokens. Without tokens Salvage writes nothing, and the Lost field of its errors says what would be left out.
//
// The copy of a damaged partition has the latest state that can be read and the steps since then that fit.
// Records that later steps took, and records that still wait, are taken again if they still exist. So the
// outputs of the later steps may be given again, and what those steps sent to other locations either counts as
// a repeat there or arrives anew. Unreadable messages are left out. If no state can be read, the partition
// begins empty, without any waiting records. Undamaged partitions are copied unchanged.
//
// The copy is another history with other positions, so no record is acknowledged at a position that was taken
// before. A process that knows the damaged history is refused and must be restarted. Acknowledged records that
// are lost are not sent again by themselves.
//
// With [Options].Witness, Salvage also compares with what the witness knows. When the copy is complete, it
// removes the content of the witness, so that the copy can use it.
//
// A log that cannot be opened, because its own metadata is gone, cannot be salvaged. Salvage returns an error
// if a token matches none of the damage that it finds, and otherwise the same errors as Copy.
func Salvage(ctx context.Context, opts Options, to journal.Opener, tokens ...string) (Copied, error) {
	if ctx == nil {
		engine.NilContext("durable.Salvage")
	}
	opts = opts.withDefaults()
	log, err := openExisting(ctx, &opts)
	if err != nil {
		return Copied{}, err
	}
	made, err := salvageLog(ctx, log, &opts, to, tokens)
	return made, errors.Join(err, log.Close())
}

func salvageLog(ctx context.Context, from journal.Log, opts *Options, to journal.Opener, tokens []string) (Copied, error) {
	found := make(map[int]*DamagedError)
	all, err := readWith(ctx, from, opts, func(ctx context.Context, in *inspection) (*excerpt, error) {
		x := &excerpt{}
		in.visit = x
		err := in.run(ctx)
		var damaged *DamagedError
		if !errors.As(err, &damaged) {
			return x, err
		}
		s := &salvage{inspection: in, x: x}
		err = s.run(ctx)
		damaged.Lost = s.lost
		found[in.partition] = damaged
		return s.x, err
	})
	if err != nil {
		return Copied{}, err
	}
	unknown := slices.Clone(tokens)
	var refused []error
	var lost []*DamagedError
	for p := range from.Partitions() {
		damaged := found[p]
		if damaged == nil {
			continue
		}
		lost = append(lost, damaged)
		if !slices.Contains(tokens, damaged.Token) {
			refused = append(refused, damaged)
		}
		unknown = slices.DeleteFunc(unknown, func(t string) bool { return t == damaged.Token })
	}
	if len(unknown) > 0 {
		refused = append(refused, fmt.Errorf("durable: the token %s is of no damage that is there now", unknown[0]))
	}
	if len(refused) > 0 {
		return Copied{Lost: lost}, errors.Join(refused...)
	}
	made, err := copyLog(ctx, from, opts, to, func(context.Context, journal.Log, *Options) ([]*excerpt, error) { return all, nil })
	made.Lost = lost
	if err != nil || opts.Witness == nil {
		return made, err
	}
	var errs []error
	for p := range from.Partitions() { // the copy is to use the witness
		errs = append(errs, opts.Witness.Save(ctx, p, nil))
	}
	return made, errors.Join(errs...)
}

// A salvage reads a partition that an inspection has found damaged, and leaves out what does not fit.
type salvage struct {
	*inspection
	x    *excerpt
	lost []string
}

func (s *salvage) lose(format string, args ...any) {
	s.lost = append(s.lost, fmt.Sprintf(format, args...))
}

// A base is a state from which a partition can continue.
type base struct {
	snapshot snapshot
	state    [][][]byte
}

func (s *salvage) run(ctx context.Context) error {
	s.x = &excerpt{}
	h, err := s.log.Restore(ctx, s.partition)
	if errors.Is(err, ErrDamaged) || errors.Is(err, journal.ErrPurged) {
		s.lose("all of it, since it cannot be read (%v): it begins anew", err)
		return nil
	}
	if err != nil {
		return err
	}
	if s.misfit != "" {
		s.lose("what the witness knows of (%s)", s.misfit)
	}
	from, err := s.base(ctx, h)
	if err != nil {
		return err
	}
	if from == nil {
		whole, err := s.fromBegin(ctx, h)
		if err == nil && !whole {
			s.lose("all of it, since no snapshot can be read and its first steps are gone: it begins anew")
		}
		return err
	}
	at := &step{place: from.snapshot.place}
	if err := s.witness(ctx, at, h.End); err != nil {
		return err
	}
	s.x.step(from.snapshot.fence, at)
	s.x.snapshot(&from.snapshot, from.state)
	return s.since(ctx, h, from.snapshot.fence, at, from.snapshot.link)
}

// base returns the last snapshot, or the one before it, or nil if neither can be read.
func (s *salvage) base(ctx context.Context, h *journal.History) (*base, error) {
	if h.Snapshot == nil {
		return nil, nil
	}
	last, before, err := lastTwo(h.Snapshot)
	if err != nil {
		return nil, nil
	}
	for _, data := range [][]byte{last, before} {
		b, damage, err := s.read(ctx, data)
		if err != nil {
			return nil, err
		}
		if damage == "" {
			return b, nil
		}
		if len(data) > 0 {
			s.lose("a snapshot (%s), and what is there before it is used", damage)
		}
	}
	return nil, nil
}

// read reads a snapshot. Damage says why it cannot be used, or is empty.
func (s *salvage) read(ctx context.Context, data []byte) (b *base, damage string, err error) {
	b = &base{}
	if b.snapshot, err = decodeSnapshot(s.of, data); err == nil {
		_, err = parseShape(b.snapshot.shape)
	}
	if err != nil {
		return nil, err.Error(), nil
	}
	for _, r := range b.snapshot.runs {
		pieces, damage, err := readRun(ctx, s.log, s.partition, s.of, r)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return nil, "", err
		}
		if err != nil {
			damage = err.Error()
		}
		if damage != "" {
			return nil, damage, nil
		}
		b.state = append(b.state, pieces)
	}
	return b, "", nil
}

// witness adds the last message that a step took to the copy, or a stand-in if that is missing.
func (s *salvage) witness(ctx context.Context, at *step, end uint64) error {
	if at.taken == 0 {
		return nil
	}
	lost := s.lost
	found, err := s.messages(ctx, at.taken-1, at.taken)
	if err != nil {
		return err
	}
	s.lost = lost // the message was taken, so it is not lost
	switch {
	case len(found) == 1 && found[0].digest == at.digest:
		s.x.message(&found[0])
		return nil
	case len(found) == 1:
		s.lose("what came in up to message %d since the records were replaced by an older copy", at.taken)
	case end >= at.taken:
		s.lose("message %d, of which the state that can be read has what came of it", at.taken)
	}
	s.x.message(&message{position: at.taken, records: [][]byte{{}}})
	return nil
}

// fromBegin copies a partition from its first step on. It reports false if that step is gone.
func (s *salvage) fromBegin(ctx context.Context, h *journal.History) (bool, error) {
	steps, err := s.steps(ctx, h, 0)
	if err != nil {
		return false, err
	}
	if h.Fence == 0 {
		all, err := s.messages(ctx, 0, h.End)
		for i := range all {
			s.x.message(&all[i])
		}
		return true, err
	}
	if len(steps) == 0 {
		return false, nil
	}
	first, err := decodeStep(s.of, steps[0].Data)
	if err != nil || !first.begin {
		return false, nil
	}
	s.x.step(steps[0].Fence, &first)
	return true, s.since(ctx, h, steps[0].Fence, &first, after(steps[0].Data))
}

// steps returns the readable steps after a fence.
func (s *salvage) steps(ctx context.Context, h *journal.History, from uint64) ([]journal.Step, error) {
	all, err := stepsSince(ctx, s.log, s.partition, h, from)
	if unreadable(err) {
		err = nil
	}
	return all, err
}

// unreadable reports whether an error says that a part of a history is missing or damaged.
func unreadable(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, journal.ErrPurged)
}

// since continues after a step, with the later steps that fit and the records that they have not taken.
func (s *salvage) since(ctx context.Context, h *journal.History, fence uint64, before *step, to link) error {
	steps, err := s.steps(ctx, h, fence)
	if err != nil {
		return err
	}
	all, err := s.messages(ctx, before.taken, h.End)
	if err != nil {
		return err
	}
	why := "it is gone"
	for _, committed := range steps {
		next, err := decodeStep(s.of, committed.Data)
		if err != nil {
			why = err.Error()
			break
		}
		if next.fence != fence || next.link != to {
			why = fmt.Sprintf("it does not follow step %d", fence)
			break
		}
		taken, n := before.inputPosition, 0
		for n < len(all) && all[n].position <= next.taken {
			taken.take(&all[n])
			n++
		}
		if taken != next.inputPosition {
			why = "records that it took are gone, or others"
			break
		}
		for i := range all[:n] {
			s.x.message(&all[i])
		}
		s.x.step(committed.Fence, &next)
		all, before, fence, to = all[n:], &next, committed.Fence, after(committed.Data)
	}
	if fence < h.Fence {
		s.lose("the steps after %d, up to %d (%s): what is there of the records that they took is taken again", fence, h.Fence, why)
	}
	if known := knownIn(s.of, h); known > h.End {
		s.lose("the messages after %d, up to %d", h.End, known)
	}
	for i := range all {
		if m := &all[i]; m.floor > h.Fence {
			s.lose("the steps after %d, up to %d at least, which message %d knew of: what is there of the records that they took is taken again", h.Fence, m.floor, m.position)
			break
		}
	}
	for i := range all {
		s.x.message(&all[i])
	}
	return nil
}

// messages returns the readable messages after one position, up to another.
func (s *salvage) messages(ctx context.Context, after, end uint64) (all []message, err error) {
	var gap error // why the messages after from cannot be read
	for from := after; after < end; after++ {
		more, at, err := s.readOn(ctx, after, end)
		if err != nil && !unreadable(err) {
			return nil, err
		}
		if n := len(more); n > 0 || err == nil {
			if gap != nil {
				s.lose("messages after %d, up to %d (%v)", from, after, gap)
			}
			gap, all = nil, append(all, more...)
		}
		if err == nil {
			return all, nil
		}
		if after = at; gap == nil {
			from, gap = at, err
		}
	}
	if gap != nil {
		s.lose("messages up to %d (%v)", end, gap)
	}
	return all, nil
}

// readOn reads messages after a position until end or until there is an error. At is the last position that it
// reached.
func (s *salvage) readOn(ctx context.Context, after, end uint64) (all []message, at uint64, err error) {
	reader, err := s.log.Read(ctx, s.partition, after)
	if err != nil {
		return nil, after, err
	}
	defer reader.Close()
	last, err := reader.Last(ctx)
	if err != nil {
		return nil, after, err
	}
	for at = after; at < min(last, end, s.upTo); {
		kept, err := reader.Next(ctx, inspectBytes)
		if err != nil {
			return all, at, err
		}
		for _, m := range kept {
			if at = m.Position; at > min(end, s.upTo) {
				break
			}
			opened, err := s.of.message(m)
			if err != nil {
				s.lose("message %d (%v)", m.Position, err)
				continue
			}
			all = append(all, opened)
		}
	}
	return all, at, nil
}
