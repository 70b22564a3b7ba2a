package disklog

import (
	"context"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Records for a reader that reads ahead are written and shown to it without a sync. The sync waits
// for the step that takes them. So one sync makes both durable, with the step after the records in
// the same log.

// stepWithin is how long a sync waits for a step. If none comes in that time, records are synced at
// once until one does, because the process that commits the steps of the partition then takes long
// for each.
const stepWithin = 10 * time.Millisecond

// ReadAhead is like Read, for the process that commits the steps of the partition. See
// [journal.Ahead].
func (l *Log) ReadAhead(ctx context.Context, partition int, after uint64) (journal.Reader, error) {
	r, err := l.Read(ctx, partition, after)
	if err != nil {
		return nil, err
	}
	c := r.(*reader).cursor
	c.ahead = true
	c.p.readAhead.Add(1)
	return r, nil
}

// expects reports whether a step is expected for the records of the group.
func (g *group) expects() bool {
	for _, p := range g.touched {
		if p.awaited && !g.late {
			return true
		}
	}
	return false
}

// show makes what is written visible to readers that read ahead.
func (g *group) show() {
	for _, p := range g.touched {
		p.mu.Lock()
		p.show()
		p.mu.Unlock()
	}
}

// await adds the next operations to the group. If none arrives in time, the group gets a last,
// empty batch and no longer waits for a step.
func (g *group) await() {
	if g.timer == nil {
		g.timer = time.NewTimer(stepWithin)
	}
	for !g.late {
		select {
		case <-g.timer.C:
			g.late = true
			for _, p := range g.touched {
				p.late = p.late || p.awaited
			}
			continue
		default:
		}
		if g.l.queue.take(g) {
			return
		}
		select {
		case <-g.l.queue.wake:
		case <-g.timer.C:
			g.timer.Reset(0)
		case <-g.l.ctx.Done():
			g.late = true
		}
	}
	g.built = make(chan struct{})
}
