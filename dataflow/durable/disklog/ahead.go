package disklog

import (
	"context"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Records that a reader reads ahead are written and shown to it without a sync, and the sync
// waits for the step that takes them. So both become durable by one sync, the step behind the
// records in the same log.

// stepWithin is how long a sync waits for a step. If none comes in that time, records are synced
// at once until one does: who makes the steps of the partition takes long for each.
const stepWithin = 10 * time.Millisecond

// ReadAhead is Read, for the one who makes the steps of the partition.
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

// expects reports whether a step is expected of what the group has.
func (g *group) expects() bool {
	for _, p := range g.touched {
		if p.awaited && !g.late {
			return true
		}
	}
	return false
}

// show shows what is written to those who read ahead.
func (g *group) show() {
	for _, p := range g.touched {
		p.mu.Lock()
		p.show()
		p.mu.Unlock()
	}
}

// await adds what comes next to the group. If nothing comes in time, the group gets a last batch
// without anything, and waits for no step.
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
