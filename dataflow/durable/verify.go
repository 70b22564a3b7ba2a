package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A Verification is the result of [History.Verify].
type Verification struct {
	Partition int
	Steps     int // number of steps that were replayed and gave the recorded result

	// State reports that replaying the steps before the snapshot gave the state in the snapshot. It is false if
	// there is no snapshot, or if another program made some of the stored steps.
	State bool
}

// A VerifyError is an [ErrDiverged] found by [History.Verify]: the program's replay of the history differs from
// what is stored.
type VerifyError struct {
	Partition int
	Step      uint64 // the step that gave a different result, or after which the state differs
	Operator  string // with its position in the source; empty if not known
	Kept, Is  string // the first entry that differs, as stored and as replayed, for people; empty if there is none
	Err       error  // the [*DivergedError] of a step; nil if the state differs
}

func (e *VerifyError) Error() string {
	what := "the state after step"
	if e.Err != nil {
		what = "step"
	}
	text := fmt.Sprintf("%v: partition %d, %s %d", ErrDiverged, e.Partition, what, e.Step)
	var diverged *DivergedError
	if errors.As(e.Err, &diverged) && diverged.State {
		return text + ": " + diverged.state()
	}
	if e.Operator != "" {
		text += ": " + e.Operator
	}
	return text + fmt.Sprintf(": kept is %s, and it is %s now; the program was changed, or one of its functions depends on more than its arguments", orNothing(e.Kept), orNothing(e.Is))
}

func orNothing(entry string) string {
	if entry == "" {
		return "nothing"
	}
	return "{" + entry + "}"
}

// Unwrap returns [ErrDiverged] and Err.
func (e *VerifyError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrDiverged}
	}
	return []error{ErrDiverged, e.Err}
}

// Verify replays the steps of a partition and compares everything with what is stored. Steps must give their
// recorded outputs. State must match the digest of each step that has one, see [Options].Digest, and the last
// snapshot when the replay reaches it. So it also finds a function that gives the same outputs and remembers
// something different. If the history has its beginning ([Options].KeepFor = [Forever]), all steps are
// replayed, else those since the last snapshot but one.
//
// It returns a [*VerifyError] with the first difference, or a [*DamagedError] for an inconsistent history, and
// changes nothing. It takes as long as the steps took, and holds them in memory. Run [Check] first: Verify
// tests whether the program matches the history.
func (h *History) Verify(ctx context.Context, partition int) (Verification, error) {
	v := Verification{Partition: partition}
	kept, err := h.core.log.Restore(ctx, partition)
	if err != nil || kept.Fence == 0 {
		return v, err
	}
	if kept.At != 0 {
		if err := h.verifySnapshot(ctx, &v, kept); err != nil {
			return v, err
		}
	}
	o, err := h.replaySteps(ctx, &v, kept)
	if o != nil {
		o.graph.Fail(ErrStopped)
	}
	return v, err
}

// verifySnapshot replays the steps before the snapshot, if all of them are stored.
func (h *History) verifySnapshot(ctx context.Context, v *Verification, kept *journal.History) error {
	before, err := h.beginning(ctx, v.Partition, kept.At)
	if err == nil && before == nil {
		before, err = h.sinceSnapshotBefore(ctx, v.Partition, kept)
	}
	if err != nil || before == nil {
		return err
	}
	made, err := h.replaySteps(ctx, v, before)
	if errors.Is(err, journal.ErrPurged) {
		return nil // the steps are stored, but not the records
	}
	if err != nil {
		return err
	}
	defer made.graph.Fail(ErrStopped)
	later := before.Steps
	if before.Snapshot == nil {
		later = later[1:] // the first step names the program that begins
	}
	if slices.ContainsFunc(later, func(s journal.Step) bool { return hasShape(s.Data) }) {
		return nil // an operator that was added later has less state in the snapshot
	}
	saved, err := h.replaySteps(ctx, &Verification{Partition: v.Partition}, &journal.History{Snapshot: kept.Snapshot, At: kept.At, Fence: kept.At, End: kept.End})
	if err != nil {
		return err
	}
	defer saved.graph.Fail(ErrStopped)
	d, err := saved.executor.Compare(made.executor)
	if err != nil {
		return err
	}
	if v.State = d == nil; d != nil {
		return &VerifyError{Partition: v.Partition, Step: kept.At, Operator: d.Operator, Kept: d.This, Is: d.Other}
	}
	return nil
}

// beginning returns the history up to a step, or nil if its beginning is gone.
func (h *History) beginning(ctx context.Context, partition int, to uint64) (*journal.History, error) {
	steps, err := h.core.log.Steps(ctx, partition, 0)
	if err != nil {
		return nil, err
	}
	defer steps.Close()
	kept := &journal.History{Fence: to}
	for n := uint64(0); n < to; {
		s, err := steps.Next(ctx)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			if first, err := decodeStep(h.core.originOf(partition), s.Data); err != nil || !first.begin {
				return nil, err
			}
		}
		n = s.Fence
		kept.Steps = append(kept.Steps, s)
	}
	return kept, nil
}

// sinceSnapshotBefore returns the history from the last snapshot but one up to the last one, or nil if it is
// gone.
func (h *History) sinceSnapshotBefore(ctx context.Context, partition int, kept *journal.History) (*journal.History, error) {
	_, before, err := lastTwo(kept.Snapshot)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	o := &owner{core: h.core, partition: partition, of: h.core.originOf(partition)}
	older, err := o.since(ctx, kept, before)
	if errors.Is(err, journal.ErrPurged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	older.Snapshot, older.Fence = both(before, nil), kept.At
	older.Steps = older.Steps[:len(older.Steps)-len(kept.Steps)]
	return older, nil
}

// replaySteps replays steps. The caller ends the flow of the returned owner.
func (h *History) replaySteps(ctx context.Context, v *Verification, kept *journal.History) (*owner, error) {
	o := &owner{core: h.core, partition: v.Partition, of: h.core.originOf(v.Partition)}
	reader, err := o.follow(ctx, kept)
	if err != nil {
		if o.graph != nil {
			o.graph.Fail(ErrStopped)
		}
		var diverged *DivergedError
		if errors.As(err, &diverged) {
			return nil, h.diverged(diverged)
		}
		return nil, err
	}
	reader.close()
	v.Steps += len(kept.Steps)
	return o, nil
}

// diverged finds where the outputs of a step differ.
func (h *History) diverged(e *DivergedError) *VerifyError {
	found := &VerifyError{Partition: e.Partition, Step: e.Step, Err: e, Operator: e.Operator}
	if e.State {
		return found
	}
	if e.Err != nil {
		found.Is = e.Err.Error()
		return found
	}
	was, is := given(e.Was), given(e.Is)
	for _, part := range slices.Concat(was, is) {
		if slices.ContainsFunc(was, part.equal) && slices.ContainsFunc(is, part.equal) {
			continue
		}
		a, b := h.lines(e.Partition, was, part.number), h.lines(e.Partition, is, part.number)
		for len(a) > 1 && len(b) > 1 && a[1] == b[1] { // the first line is the operator
			a, b = slices.Delete(a, 1, 2), slices.Delete(b, 1, 2)
		}
		for _, side := range []struct {
			lines []string
			entry *string
		}{{a, &found.Kept}, {b, &found.Is}} {
			if len(side.lines) > 0 {
				found.Operator = side.lines[0]
			}
			if len(side.lines) > 1 {
				*side.entry = strings.TrimSpace(side.lines[1])
			}
		}
		break
	}
	return found
}

// An outputPart is what a step gave at one output.
type outputPart struct {
	number int32
	data   []byte
}

func (p outputPart) equal(q outputPart) bool {
	return p.number == q.number && bytes.Equal(p.data, q.data)
}

// given splits the outputs of a step by operator.
func given(outputs []byte) (all []outputPart) {
	for d := (codec.Decoder{Data: outputs}); len(d.Data) > 0 && d.Err == nil; {
		all = append(all, outputPart{int32(d.Uint()), d.Bytes()})
	}
	return all
}

// lines describes what a step gave at one output. The first line is the name of the output.
func (h *History) lines(partition int, all []outputPart, number int32) []string {
	var text bytes.Buffer
	for _, part := range all {
		if part.number != number {
			continue
		}
		one := logdriven.AppendOutput(nil, part.number, part.data)
		if h.DescribeOutputs(&text, partition, one) != nil {
			return nil
		}
		return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	}
	return nil
}
