package connect

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// SplitsInput is like [Input], for a [BySplit] source whose records have event times. It also returns a stream of notices for
// window.StampSplits, whose key is the name of a split. A pump sends a notice when it starts to read its split, when the split is
// idle (see [Options].Idle), and when it has ended. All splits that were found are announced before the first record is sent.
//
// Notices are records in the history: a few for each split at each start, and one each time that a split becomes idle.
func SplitsInput[V any, L dataflow.Location](at L, name string) (
	port *Port[string, V, dataflow.TotalOrder, dataflow.ExactlyOnce], records dataflow.KeyedStream[string, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce],
	notices dataflow.KeyedStream[string, window.SplitNotice, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce],
) {
	port, records = Input[string, V](at, name)
	port.in.notices, notices = keyedstream.SharedInput[string, window.SplitNotice](at, name+" splits")
	return port, records, notices
}

// Notify sends a notice about the split with a name, as its pump does. It is for tests, for the simulator, and for a split that
// disappeared while no pump was there to see its end. In a durable flow it returns when the notice is in the history. Its errors
// are those of dataflow.SharedKeyedInputPort.Send. It panics if the port is not of [SplitsInput].
func (p *Port[K, V, O, R]) Notify(ctx context.Context, split string, n window.SplitNotice) error {
	if p.in.notices == nil {
		panic("connect: Port.Notify: the port is not of connect.SplitsInput")
	}
	return p.in.notices.Send(ctx, split, n)
}

// announce sends notices of splits before their floors are asked for, and so before the first of them is read.
func (a *attached[K, V]) announce(ctx context.Context, splits []*pumped) error {
	if a.notices == nil {
		return nil
	}
	names, notices := make([]string, len(splits)), make([]window.SplitNotice, len(splits))
	for i, r := range splits {
		names[i] = r.split.String()
		if r.read {
			notices[i] = window.SplitNotice{Is: window.SplitRead, Reader: r.asked, ID: r.split.ID}
		}
	}
	_, err := a.notices.SendBatch(ctx, names, notices)
	return err
}

// A silence measures for how long a split has sent nothing. It counts the time in which the cursor waits, not that of sending: a
// slow flow makes no split silent.
type silence struct {
	as     uint64        // the number under which the flow knows this pump
	lasted time.Duration // without the call of Next in progress
	behind int64         // the cursor's last number of waiting records; -1 if not known
	idle   bool          // the flow was told that the split is idle
}

// tellSplit sends a notice, after all records that were sent.
func (p *pump[K, V]) tellSplit(is window.SplitState) error {
	n := window.SplitNotice{Is: is, Reader: p.as, ID: p.split.ID}
	if err := sent(p.notices.Send(p.sending, p.split.String(), n)); err != nil {
		return fmt.Errorf("connect: %s: telling how it stands with it: %w", p.split, err)
	}
	return nil
}

// awakens makes the flow wait again for a split that was idle before it failed.
func (p *pump[K, V]) awakens() error {
	p.lasted, p.behind = 0, -1
	if !p.idle {
		return nil
	}
	p.idle = false
	return p.tellSplit(window.SplitRead)
}

// ends sends the notice that the split has ended.
func (p *pump[K, V]) ends() error {
	if p.notices == nil {
		return nil
	}
	return p.tellSplit(window.SplitEnded)
}

// listen starts to watch the silence of a split while its cursor waits. The caller must call
// heard when the cursor has returned b.
func (p *pump[K, V]) listen(ctx context.Context, c Cursor[K, V]) (heard func(b *Batch[K, V], waited time.Duration) error) {
	if p.opts.Idle <= 0 || p.notices == nil {
		return func(*Batch[K, V], time.Duration) error { return nil }
	}
	if p.idle {
		return func(b *Batch[K, V], _ time.Duration) error {
			p.idle = len(b.At) == 0
			return nil
		}
	}
	listening, stop := context.WithCancel(ctx)
	told := make(chan error, 1)
	timer := time.AfterFunc(p.opts.Idle-p.lasted, func() { told <- p.rest(listening, c) })
	return func(b *Batch[K, V], waited time.Duration) (err error) {
		stop()
		if !timer.Stop() {
			err = <-told
		}
		if p.lasted += waited; len(b.At)+len(b.Bad) > 0 || b.Behind > 0 {
			p.lasted = 0
		}
		p.idle = p.idle && len(b.At) == 0
		if p.behind = b.Behind; p.lasted >= p.opts.Idle {
			p.lasted = 0 // records were waiting, or that could not be found out
		}
		return err
	}
}

// rest sends the notice that the split is idle as soon as no records are waiting. It gives up when ctx ends.
func (p *pump[K, V]) rest(ctx context.Context, c Cursor[K, V]) error {
	for {
		if p.silent(ctx, c) && ctx.Err() == nil {
			err := p.tellSplit(window.SplitIdle)
			if err == nil {
				p.idle = true
				return nil
			}
			if !Passes(err) {
				return err
			}
			p.opts.OnError(p.split, err)
		}
		if !wait(ctx, p.opts.Idle) {
			return nil
		}
	}
}

// silent reports whether no records wait after those that the cursor has returned.
func (p *pump[K, V]) silent(ctx context.Context, c Cursor[K, V]) bool {
	asked, ok := c.(SilentCursor)
	if !ok {
		return p.behind <= 0
	}
	silent, err := asked.Silent(ctx)
	return silent && err == nil
}
