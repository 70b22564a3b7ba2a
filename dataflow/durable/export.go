package durable

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace/millrace/internal/history"
)

// Export replays the steps of a partition as [History.Replay] does, up to step number to, or all of them if to
// is zero, and writes them to w in the format of recordings. Read of package recordings reads it, and package sim
// makes the same steps in a test with the flow that is not durable, so a failure in production becomes a
// regression test. The recording contains the records that were taken, in the clear, and the time of each step.
//
// It begins with the first step, so the whole history must be stored, as with [Options].KeepFor = [Forever].
// The values are encoded in CBOR, whatever the [Options].Codec: a type that CBOR does not encode without loss
// is an error. Two things that only a durable flow does and no step records are errors, too: that a timer was
// quarantined, and that event time went on while an output was full. After an error the output is useless.
// Export takes as long as the replay, and holds the steps in memory as Replay does.
func (h *History) Export(ctx context.Context, w io.Writer, partition int, to uint64) error {
	if w == nil || ctx == nil {
		return errors.New("durable: History.Export: the writer or the context is nil")
	}
	if n := h.Partitions(); partition < 0 || partition >= n {
		return fmt.Errorf("durable: History.Export: there is no partition %d, only %d of them", partition, n)
	}
	kept, err := h.until(ctx, partition, to)
	if err != nil {
		return err
	}
	if kept.At > 0 {
		if err := h.fromBeginning(ctx, partition, kept, kept.Fence); err != nil {
			return err
		}
	}
	if err := history.Check(h.names); err != nil {
		return fmt.Errorf("durable: History.Export: partition %d: %w", partition, err)
	}
	recorder := history.NewRecorder(w)
	o := &owner{core: h.core, partition: partition, of: h.core.originOf(partition), recorder: recorder}
	reader, err := o.follow(ctx, kept)
	if o.graph != nil {
		defer o.graph.Fail(ErrStopped)
	}
	if err != nil {
		return err
	}
	defer reader.close()
	if why := o.executor.Unplanned(); why != "" {
		return fmt.Errorf("durable: History.Export: partition %d cannot be run again by a flow that is not durable: %s", partition, why)
	}
	if err := recorder.Close(); err != nil {
		return fmt.Errorf("durable: History.Export: partition %d: %w", partition, err)
	}
	return nil
}
