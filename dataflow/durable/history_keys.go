package durable

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/lookup"
)

// A KeyChange is what operators remembered of a key after a step that changed it.
type KeyChange struct {
	Step    uint64 // after which it was so
	At      time.Time
	Entries []dataflow.StateEntry // none if it was forgotten
}

// errEnough ends a replay of which nothing more is wanted.
var errEnough = errors.New("durable: enough")

// Changes makes the steps of a partition again, as [History.Replay] does, up to step number to or all of them
// if that is zero, and goes through those that changed what operators remember of a key, in order: what it was after
// each of them. The first one says what there was at the beginning, if there was something. If from is zero, that is the
// latest snapshot where the beginning of the history is gone. The
// key is as [App.Lookup] has it. Two texts of which the first 4 KiB are equal are taken for equal.
func (h *History) Changes(ctx context.Context, partition int, key any, from, to uint64) iter.Seq2[KeyChange, error] {
	return func(yield func(KeyChange, error) bool) {
		if err := h.changes(ctx, partition, key, from, to, func(c KeyChange) bool { return yield(c, nil) }); err != nil && !errors.Is(err, errEnough) {
			yield(KeyChange{}, err)
		}
	}
}

func (h *History) changes(ctx context.Context, partition int, key any, from, to uint64, each func(KeyChange) bool) error {
	if n := h.Partitions(); partition < 0 || partition >= n {
		return fmt.Errorf("durable: History.Changes: there is no partition %d, only %d of them", partition, n)
	}
	if err := lookup.Check(h.names, key); err != nil {
		return err
	}
	kept, err := h.until(ctx, partition, to)
	if err != nil {
		return err
	}
	if kept.At > 0 && from < kept.At {
		whole := *kept
		switch err := h.fromBeginning(ctx, partition, &whole, kept.Fence); {
		case err == nil:
			kept = &whole
		case from > 0:
			return err
		}
	}
	o := &owner{core: h.core, partition: partition, of: h.core.originOf(partition)}
	var was []dataflow.StateEntry
	begins := true
	see := func(fence uint64) error {
		var is []dataflow.StateEntry
		for _, f := range lookup.Find(o.leader.Location(), key) {
			is = append(is, dataflow.StateEntry(f))
		}
		if same := slices.Equal(is, was); fence < from || same && !(begins && len(is) > 0) {
			was, begins = is, begins && fence < from
			return nil
		}
		was, begins = is, false
		if !each(KeyChange{fence, time.Unix(0, o.last.clock+o.last.now), is}) {
			return errEnough
		}
		return nil
	}
	o.remade = see
	reader, err := o.follow(ctx, kept)
	if o.graph != nil {
		defer o.graph.Fail(ErrStopped)
	}
	if err != nil {
		return err
	}
	reader.close()
	return nil
}
