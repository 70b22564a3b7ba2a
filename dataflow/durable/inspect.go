package durable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// An inspection reads the stored history of a partition, without its program, and compares everything that can
// be compared: each frame, each step with the step before it and with the records that it took, the snapshot
// with its step, and the end of the records with what the last step knew of them. It may run beside an owner of
// the partition; if that changes what is being read, the inspection begins again.
type inspection struct {
	log       journal.Log
	of        origin
	name, at  string // of the history, and where its log is, for errors
	partition int

	// upTo bounds what is read: records up to that position, and steps that took no others.
	upTo uint64
	// whole extends the inspection to the stored history before the snapshot.
	whole bool
	// visit receives everything in an order in which it could have happened: each message before the step that
	// took it, and the snapshot after its step. It may be nil.
	visit visitor

	// witnessed is the witness to compare with; or nil.
	witnessed Witness
	logger    *slog.Logger
	misfit    string // why the history is not the one that the witness knows

	found PartitionCheck
}

// A visitor receives what an inspection reads, each thing once. If the inspection begins again, it calls
// restart.
type visitor interface {
	restart()
	message(m *message)
	step(fence uint64, s *step)
	snapshot(s *snapshot, state [][][]byte) // and its pieces, by run
}

// errAhead says that a snapshot includes records beyond the bound of an inspection.
var errAhead = errors.New("durable: a snapshot was made meanwhile")

// inspectBytes is how many bytes of records are read at a time.
const inspectBytes = 1 << 20

// run inspects the partition. Damage that it finds has a token.
func (in *inspection) run(ctx context.Context) error {
	err := in.through(ctx)
	var found *DamagedError
	if errors.As(err, &found) {
		found.Token = in.token(found.Damage)
	}
	return err
}

func (in *inspection) through(ctx context.Context) error {
	for try := 1; ; try++ {
		in.found = PartitionCheck{Partition: in.partition}
		if in.visit != nil {
			in.visit.restart()
		}
		err := in.once(ctx)
		var older *olderStepsError
		again := errors.Is(err, journal.ErrPurged) || errors.As(err, &older)
		switch {
		case again && try < restoresBehind:
			pauseBehind(ctx)
		case again:
			return in.damaged("%v", err)
		case errors.As(err, new(unreadableError)):
			return in.damaged("%v", err)
		case errors.Is(err, ErrDamaged) && !errors.As(err, new(*DamagedError)):
			return in.damaged("%v", err)
		default:
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// token returns the token for damage of the partition.
func (in *inspection) token(damage string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%x %d %s", in.of.history, in.partition, damage))
	return hex.EncodeToString(sum[:4])
}

func (in *inspection) damaged(format string, args ...any) error {
	return &DamagedError{History: in.name, Log: in.at, Partition: in.partition, Damage: fmt.Sprintf(format, args...)}
}

// once inspects the partition, and compares it with what the witness knew before.
func (in *inspection) once(ctx context.Context) error {
	var seen *sighting
	if in.witnessed != nil {
		var err error
		if seen, err = loadSighting(ctx, in.witnessed, in.log.Identity(), in.partition); err != nil {
			if errors.As(err, new(*witnessError)) || ctx.Err() != nil {
				return err
			}
			in.logger.Warn("a history was not compared with the witness", "partition", in.partition, "error", err)
		}
	}
	h, err := in.log.Restore(ctx, in.partition)
	if err != nil {
		return err
	}
	in.misfit = seen.misfit(ctx, in.log, in.of, h)
	if err := in.history(ctx, h); err != nil || in.misfit == "" {
		return err
	}
	if _, shared := unmeasured(in.log).(journal.Shared); shared { // another server may know more
		return &olderStepsError{why: in.misfit}
	}
	return in.damaged("%s", in.misfit)
}

func (in *inspection) history(ctx context.Context, h *journal.History) error {
	in.found.Last, in.found.Snapshot = h.Fence, h.At
	if h.Fence == 0 {
		return in.rest(ctx, h, &step{}, nil)
	}
	kept, state, err := in.snapshot(ctx, h)
	if err != nil {
		return err
	}
	steps, err := in.log.Steps(ctx, in.partition, 0)
	if err != nil {
		return err
	}
	defer steps.Close()
	var before *step // the last one inspected
	var link link    // to that step
	var from *source
	defer func() {
		if from != nil {
			from.close()
		}
	}()
	for fence := uint64(0); fence < h.Fence; {
		committed, err := steps.Next(ctx)
		if err != nil {
			return err
		}
		s, err := in.decode(committed)
		if err != nil {
			return err
		}
		switch {
		case before != nil && (s.fence != fence || s.link != link):
			return in.damaged("step %d does not follow step %d: steps are missing between them, or one was replaced", committed.Fence, fence)
		case before != nil && (s.taken < before.taken || s.last < before.last || s.now < before.now):
			return in.damaged("step %d is earlier than step %d before it", committed.Fence, fence)
		case before == nil && !s.begin && (kept == nil || committed.Fence > h.At):
			return in.damaged("its steps begin with step %d, and no snapshot covers those before", committed.Fence)
		}
		if s.taken > in.upTo {
			break
		}
		if from == nil && (committed.Fence == h.At || before == nil && (in.whole || kept == nil)) {
			from, err = in.records(ctx, &s)
			if errors.Is(err, journal.ErrPurged) && committed.Fence < h.At { // the snapshot has what was purged
				from, err = nil, nil
			}
			if err != nil {
				return err
			}
			if from != nil {
				in.found.From = committed.Fence
				if s.taken > 0 && !s.begin {
					err = in.witness(ctx, from, &s)
				}
			}
		} else if from != nil {
			err = in.take(ctx, from, fence, committed.Fence, before, &s)
		}
		if err != nil {
			return err
		}
		if from != nil {
			in.found.Steps++
			if in.visit != nil {
				in.visit.step(committed.Fence, &s)
			}
		}
		before, link, fence = &s, after(committed.Data), committed.Fence
		if fence == h.At && kept != nil {
			if kept.fence != fence || kept.link != link || kept.inputPosition != s.inputPosition || kept.last != s.last || kept.now != s.now {
				return in.damaged("its snapshot is not that of step %d", fence)
			}
			if in.visit != nil {
				in.visit.snapshot(kept, state)
			}
		}
	}
	if before == nil || kept != nil && in.found.From == 0 {
		return in.damaged("step %d, which its snapshot was made after, is gone", h.At)
	}
	if before.last > h.End && before.last <= in.upTo {
		return in.damaged("step %d knew of records up to message %d, and they end at %d: they are an older copy, or were lost at the end", h.Fence, before.last, h.End)
	}
	return in.rest(ctx, h, before, from)
}

// snapshot inspects the last snapshot and the pieces that it names. It returns nil if there is none.
func (in *inspection) snapshot(ctx context.Context, h *journal.History) (kept *snapshot, state [][][]byte, err error) {
	if h.Snapshot == nil {
		return nil, nil, nil
	}
	last, _, err := lastTwo(h.Snapshot)
	if err != nil {
		return nil, nil, in.damaged("its snapshot: %v", err)
	}
	s, err := decodeSnapshot(in.of, last)
	if err != nil {
		return nil, nil, in.damaged("its snapshot: %v", err)
	}
	if _, err := parseShape(s.shape); err != nil {
		return nil, nil, in.damaged("its snapshot: %v", err)
	}
	if s.taken > in.upTo {
		return nil, nil, errAhead
	}
	for _, r := range s.runs {
		pieces, damage, err := readRun(ctx, in.log, in.partition, in.of, r)
		if err != nil {
			return nil, nil, err
		}
		if damage != "" {
			if now, err := in.log.Restore(ctx, in.partition); err != nil || now.At != h.At {
				return nil, nil, errors.Join(journal.ErrPurged, err) // the pieces were purged with the snapshot that named them
			}
			return nil, nil, in.damaged("its snapshot: %s", damage)
		}
		if in.visit != nil {
			state = append(state, pieces)
		}
	}
	return &s, state, nil
}

func (in *inspection) decode(committed journal.Step) (step, error) {
	s, err := decodeStep(in.of, committed.Data)
	if err != nil {
		return s, in.damaged("step %d: %v", committed.Fence, err)
	}
	if s.begin || s.changed {
		if _, err := parseShape(s.shape); err != nil {
			return s, in.damaged("step %d: %v", committed.Fence, err)
		}
	}
	return s, nil
}

// records returns a reader that begins with the last record that a step took.
func (in *inspection) records(ctx context.Context, s *step) (*source, error) {
	reader, err := in.log.Read(ctx, in.partition, max(s.taken, 1)-1)
	if err != nil {
		return nil, err
	}
	return &source{reader: reader, of: in.of, max: inspectBytes}, nil
}

// witness inspects the last message that a step took, which is never purged.
func (in *inspection) witness(ctx context.Context, from *source, s *step) error {
	ms, err := from.until(ctx, s.taken-1, s.taken)
	if err != nil {
		return err
	}
	if ms[0].digest != s.digest {
		return in.damaged("message %d is not the one that was taken there: the records are an older copy to which others were added", s.taken)
	}
	in.see(&ms[0])
	return nil
}

// take inspects the messages that a step took after those of the previous step.
func (in *inspection) take(ctx context.Context, from *source, last, fence uint64, before, s *step) error {
	ms, err := from.until(ctx, before.taken, s.taken)
	if err != nil {
		return err
	}
	is := before.inputPosition
	for i := range ms {
		if ms[i].floor > last {
			return in.damaged("step %d took message %d, which was sent when step %d was committed", fence, ms[i].position, ms[i].floor)
		}
		is.take(&ms[i])
		in.see(&ms[i])
	}
	if is != s.inputPosition {
		return in.damaged("step %d took other records than there are between message %d and %d: some were lost or replaced", fence, before.taken, s.taken)
	}
	return nil
}

// rest inspects the messages that no step has taken.
func (in *inspection) rest(ctx context.Context, h *journal.History, last *step, from *source) error {
	if from == nil {
		var err error
		if from, err = in.records(ctx, last); err != nil {
			return err
		}
		defer from.close()
	}
	end, err := from.reader.Last(ctx)
	if err != nil {
		return err
	}
	for at := last.taken; at < end; {
		m, err := from.one(ctx)
		if err != nil {
			return err
		}
		if m.position > in.upTo {
			return nil
		}
		if at = m.position; m.floor > h.Fence {
			// A step was committed since the history was read, or steps were lost at the end.
			now, err := in.log.Restore(ctx, in.partition)
			if err != nil {
				return err
			}
			if m.floor > now.Fence {
				return &olderStepsError{record: m.position, floor: m.floor, last: now.Fence}
			}
		}
		in.see(&m)
		in.found.Waiting += len(m.records)
	}
	return nil
}

func (in *inspection) see(m *message) {
	in.found.Messages++
	if in.visit != nil {
		in.visit.message(m)
	}
}
