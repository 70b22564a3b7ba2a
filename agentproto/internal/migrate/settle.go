package migrate

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/internal/tools"
)

// A deal is this process's part in a transfer.
type deal struct {
	once    sync.Once
	ended   chan struct{} // closed when nobody in this process moves the session, or asks the destination, any longer
	settled chan bool     // whether the destination has the session
}

// leave says that only the flow asks the destination from now on.
func (d *deal) leave() { d.once.Do(func() { close(d.ended) }) }

func (d *deal) settle(committed bool) {
	select {
	case d.settled <- committed:
	default: // the outcome is known already
	}
}

// deals are the deals of all transfers in progress.
type deals struct {
	mu  sync.Mutex
	all map[string]*deal
}

// of returns the deal of a transfer. If there is none, it makes one, or returns nil if make is
// false.
func (ds *deals) of(transfer string, make bool) *deal {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.all[transfer]
	if d == nil && make {
		if ds.all == nil {
			ds.all = map[string]*deal{}
		}
		d = newDeal()
		ds.all[transfer] = d
	}
	return d
}

func newDeal() *deal { return &deal{ended: make(chan struct{}), settled: make(chan bool, 1)} }

// over ends and removes the deal of a transfer.
func (ds *deals) over(transfer string, d *deal) {
	d.leave()
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.all, transfer)
}

// Hold waits while this process is moving the session. If the process that moved it has ended, the
// session continues at once.
func (m *Mover) Hold(ctx context.Context, job tools.Job) tools.Outcome {
	if d := m.deals.of(job.Move.Transfer, false); d != nil {
		select {
		case <-d.ended:
		case <-ctx.Done():
		}
	}
	return tools.Outcome{}
}

// Conclude finds out the outcome for a session in doubt. While a request in this process waits for
// the same, Conclude leaves the question to it. Otherwise the runtime was told that the migration
// failed, or was told nothing, so Conclude asks the destination to give up. If the destination has
// the session, the next /migrate is answered 200.
func (m *Mover) Conclude(ctx context.Context, at tools.Place, job tools.Job) tools.Outcome {
	j := &journey{at, job.Move.Transfer, job.Move.URL, job.Move.Endpoint, m.deals.of(job.Move.Transfer, false)}
	if j.deal == nil {
		j.deal = m.deals.of(j.transfer, true)
		j.deal.leave()
	}
	defer m.deals.over(j.transfer, j.deal)
	select {
	case <-j.deal.ended:
	case committed := <-j.deal.settled:
		return tools.Outcome{Committed: committed}
	case <-ctx.Done():
		return tools.Outcome{Suspended: true}
	}
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		pause := time.NewTimer(wait)
		select {
		case committed := <-j.deal.settled:
			pause.Stop()
			return tools.Outcome{Committed: committed}
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return tools.Outcome{Suspended: true}
		}
		asking, stop := context.WithTimeout(ctx, abortTimeout)
		state, err := m.call(asking, j, stepAbort, nil)
		stop()
		if err == nil {
			return tools.Outcome{Committed: state == stateCommitted}
		}
	}
}
