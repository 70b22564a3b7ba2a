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

// SplitsInput is [Input] for a source that is [BySplit] and whose records have event times. Besides the records it returns notices, by
// the name of a split, which are for window.StampSplits. A pump sends one when it begins to read its split, when the split is idle
// (see [Options].Idle), and when it has ended. All splits that were found are announced before the first record of one is sent.
//
// Notices are records in the history like any others: a few for each split at each start, and one each time that a split falls silent.
func SplitsInput[V any, L dataflow.Location](at L, name string) (
	port *Port[string, V, dataflow.TotalOrder, dataflow.ExactlyOnce], records dataflow.KeyedStream[string, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce],
	notices dataflow.KeyedStream[string, window.SplitNotice, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce],
) {
	port, records = Input[string, V](at, name)
	port.notices, notices = keyedstream.SharedInput[string, window.SplitNotice](at, name+" splits")
	return port, records, notices
}

// Notify sends a notice about the split with a name, as its pump does. It is for tests, for the simulator, and for a split that went
// away while no pump was there to see its end. It returns when the notice is in the history of a durable flow, and the errors of
// dataflow.SharedKeyedInputPort.Send. It panics if the port is not of [SplitsInput].
func (p *Port[K, V, O, R]) Notify(ctx context.Context, split string, n window.SplitNotice) error {
	if p.notices == nil {
		panic("connect: Port.Notify: the port is not of connect.SplitsInput")
	}
	return p.notices.Send(ctx, split, n)
}

// announce tells of splits before their floors are asked for, and so before the first of them is read.
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

// A silence is for how long nothing has come of a split. Time counts in which the cursor waits, and not that of sending: a flow that
// is slow makes no split silent.
type silence struct {
	as     uint64        // the number under which the flow knows this pump
	lasted time.Duration // without the call of Next under way
	behind int64         // what the cursor said last of what waits; -1 if that is not known
	idle   bool          // the flow was told so
}

// tellSplit sends a notice, behind all records that were sent.
func (p *pump[K, V]) tellSplit(is window.SplitState) error {
	n := window.SplitNotice{Is: is, Reader: p.as, ID: p.split.ID}
	if err := sent(p.notices.Send(p.sending, p.split.String(), n)); err != nil {
		return fmt.Errorf("connect: %s: telling how it stands with it: %w", p.split, err)
	}
	return nil
}

// awakens has the flow wait for a split again that was idle when it could not be read on.
func (p *pump[K, V]) awakens() error {
	p.lasted, p.behind = 0, -1
	if !p.idle {
		return nil
	}
	p.idle = false
	return p.tellSplit(window.SplitRead)
}

// ends tells the flow that the split has ended.
func (p *pump[K, V]) ends() error {
	if p.notices == nil {
		return nil
	}
	return p.tellSplit(window.SplitEnded)
}

// listen begins to listen for the silence of a split, while the cursor waits. What it returns is called when that has returned b.
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
			p.lasted = 0 // something was behind, or could not be found out
		}
		return err
	}
}

// rest tells the flow that the split is idle, as soon as nothing is behind what has come. It gives up when ctx ends.
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

// silent reports whether nothing is behind what the cursor has returned.
func (p *pump[K, V]) silent(ctx context.Context, c Cursor[K, V]) bool {
	asked, ok := c.(SilentCursor)
	if !ok {
		return p.behind <= 0
	}
	silent, err := asked.Silent(ctx)
	return silent && err == nil
}
