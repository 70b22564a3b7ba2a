package durable

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A KeyChange is what operators remembered of a key after a step that changed it.
type KeyChange struct {
	Step    uint64 // the step after which it was so
	At      time.Time
	Entries []dataflow.StateEntry // empty if the key was forgotten
}

// errEnough ends a replay whose caller wants no more.
var errEnough = errors.New("durable: enough")

// Changes replays the steps of a partition as [History.Replay] does, up to step number to, or all of them if to
// is zero. It iterates, in order, over the steps that changed what operators remember of a key, with what they
// remembered after each of them. If they remembered something at the beginning, that is the first change. If
// from is zero, the beginning is the first step, or the latest snapshot if the first step is gone. The key is
// as in [App.Lookup]. Two texts whose first 4 KiB are equal count as equal.
func (h *History) Changes(ctx context.Context, partition int, key any, from, to uint64) iter.Seq2[KeyChange, error] {
	return func(yield func(KeyChange, error) bool) {
		if err := h.changes(ctx, partition, key, from, to, func(c KeyChange) bool { return yield(c, nil) }); err != nil && !errors.Is(err, errEnough) {
			yield(KeyChange{}, err)
		}
	}
}

func (h *History) changes(ctx context.Context, partition int, key any, from, to uint64, each func(KeyChange) bool) error {
	if err := lookup.Check(h.names, key); err != nil {
		return err
	}
	kept, err := h.last(ctx, partition, to)
	if err != nil {
		return err
	}
	if to == 0 {
		to = kept.Fence
	}
	again := *kept
	w, err := h.walk(ctx, partition, &again, max(from, 1)-1, to)
	if errors.Is(err, ErrNoStep) && from == 0 {
		w, err = h.walk(ctx, partition, kept, kept.At, to)
	}
	if err != nil {
		return err
	}
	defer w.close()
	var was []dataflow.StateEntry
	begins := true
	see := func() error {
		var is []dataflow.StateEntry
		for _, f := range lookup.Find(w.o.executor.Location(), key) {
			is = append(is, dataflow.StateEntry(f))
		}
		if same := slices.Equal(is, was); w.at < from || same && !(begins && len(is) > 0) {
			was, begins = is, begins && w.at < from
			return nil
		}
		was, begins = is, false
		if !each(KeyChange{w.at, time.Unix(0, w.o.last.clock+w.o.last.now), is}) {
			return errEnough
		}
		return nil
	}
	if w.at > 0 {
		err = see()
	}
	for err == nil && w.at < to {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s, failed := w.next(ctx)
		if failed != nil || s.Fence > to {
			return failed
		}
		if err = w.step(ctx, s); err == nil {
			err = see()
		}
	}
	return err
}
