package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// grace is how long functions may continue before they are interrupted, and drain how long they may
// take to stop after that.
const (
	grace = 5 * time.Second
	drain = 30 * time.Second
)

// abortTimeout is the time limit for asking a destination that does not answer to give up.
const abortTimeout = 5 * time.Second

// A journey is a session on its way to a destination.
type journey struct {
	at       tools.Place
	transfer string // names the attempt
	url      string // base URL of the destination
	endpoint string // of the destination's manifest; identifies the instance
	deal     *deal
}

// A payload is a session in transit, with the data that the Migrator has exported.
type payload struct {
	Session []byte `json:"session"` // a [tools.Moved]
	Tool    []byte `json:"tool"`
	HasTool bool   `json:"has_tool"`
}

// migrate moves a session; see package handover for the source's places. Up to Doubt, which is
// durable, every failure returns the session to where it was.
func (m *Mover) migrate(ctx context.Context, at tools.Place, destination string) error {
	base, err := m.destination(destination)
	if err != nil {
		return err
	}
	if !m.claim(at) {
		return errBusyMoving
	}
	defer m.unclaim(at)
	look, err := m.order(at, tools.MoveOrder{Do: tools.Look})
	switch {
	case err != nil:
		return err
	case look.Move.Place == handover.Frozen:
		return errBusyMoving
	case look.Move.Place == handover.Doubt && look.URL != base:
		return errDoubt
	case look.Move.Place == handover.Gone && look.URL != base:
		return errElsewhere
	case look.Move.Place == handover.Gone:
		return nil
	case look.Move.Place == handover.Doubt:
		return m.decide(ctx, &journey{at, look.Move.Transfer, look.URL, look.Endpoint, m.deals.of(look.Move.Transfer, true)})
	}
	j := &journey{at: at, transfer: look.Move.Name(time.Now()), url: base}
	j.deal = m.deals.of(j.transfer, true)
	stays := true
	defer func() {
		if stays { // otherwise the job that settles the transfer needs the deal last
			m.deals.over(j.transfer, j.deal)
		}
	}()
	if !look.Known {
		// A session that is unknown here is not an error (case G09).
		if known, err := m.toolKnows(ctx, j); !known {
			return err
		}
	}
	if j.endpoint, err = m.reach(ctx, base); err != nil {
		return m.stay(j, err)
	}
	if err := m.freeze(ctx, j); err != nil {
		return m.stay(j, err)
	}
	data, err := m.export(ctx, j)
	if err != nil {
		return m.stay(j, err)
	}
	if err := m.stage(ctx, j, data); err != nil {
		// The destination may hold the state anyway, and forgets it after a while.
		return m.stay(j, err)
	}
	stays = false
	left, err := m.order(at, tools.MoveOrder{Step: handover.Send, Transfer: j.transfer, URL: j.url, Endpoint: j.endpoint})
	if stays = err == nil && left.Move.Place != handover.Doubt; stays {
		return m.stay(j, errTransfer)
	}
	if err != nil { // it is not known whether it is in doubt; a job finds out, as does the next request
		j.deal.leave()
		return fmt.Errorf("%w: %w", errDoubt, err)
	}
	return m.decide(ctx, j)
}

// order asks the session's flow for a step of a move.
func (m *Mover) order(at tools.Place, o tools.MoveOrder) (tools.Told, error) {
	told, err := m.o.Flow.Ask(at, tools.In{Move: &o})
	if err != nil {
		return told, fmt.Errorf("%w: %w", errMoveStore, err)
	}
	return told, nil
}

// claim marks a session as being moved, and returns false if it already was.
func (m *Mover) claim(at tools.Place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving[at] {
		return false
	}
	m.moving[at] = true
	return true
}

func (m *Mover) unclaim(at tools.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.moving, at)
}

// toolKnows reports whether the Migrator has state of a session without calls here. If not, it
// releases the session.
func (m *Mover) toolKnows(ctx context.Context, j *journey) (bool, error) {
	if err := m.freeze(ctx, j); err != nil {
		return false, m.stay(j, err)
	}
	state, err := m.o.Tool.Export(ctx, j.at.Session)
	if err != nil {
		return false, m.stay(j, fmt.Errorf("%w: %w", errExport, err))
	}
	if state == nil {
		return false, m.stay(j, nil)
	}
	return true, nil
}

// freeze stops everything that changes a session. Functions get some time to end by themselves.
// Interrupted functions run again, here or at the destination. The functions of spared tools are
// never interrupted.
func (m *Mover) freeze(ctx context.Context, j *journey) error {
	if _, err := m.order(j.at, tools.MoveOrder{Step: handover.Freeze, Transfer: j.transfer}); err != nil {
		return err
	}
	if m.quiet(ctx, j, grace) {
		return nil
	}
	if _, err := m.order(j.at, tools.MoveOrder{Do: tools.Interrupt, Transfer: j.transfer, Spare: m.o.Spare()}); err != nil {
		return err
	}
	if m.quiet(ctx, j, drain) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errRunning
}

// quiet waits up to patience until nothing of a session is in progress, and reports whether that is
// so.
func (m *Mover) quiet(ctx context.Context, j *journey, patience time.Duration) bool {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	_, err := m.o.Flow.AskWithin(ctx, j.at, tools.In{Move: &tools.MoveOrder{Do: tools.Quiet, Transfer: j.transfer}})
	return err == nil
}

// stay continues a session here, and returns why it stays.
func (m *Mover) stay(j *journey, why error) error {
	if _, err := m.order(j.at, tools.MoveOrder{Step: handover.Abort, Transfer: j.transfer}); err != nil && m.ctx.Err() == nil {
		m.o.Log.Error("session goes on later", "session", j.at.Session, "error", err)
	}
	return why
}

// export returns the whole state of a frozen session.
func (m *Mover) export(ctx context.Context, j *journey) ([]byte, error) {
	told, err := m.o.Flow.AskWithin(ctx, j.at, tools.In{Move: &tools.MoveOrder{Do: tools.Export, Transfer: j.transfer}})
	if err != nil || told.Data == nil {
		return nil, errors.Join(errExport, err)
	}
	p := payload{Session: told.Data}
	if p.Tool, err = m.o.Tool.Export(ctx, j.at.Session); err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	p.HasTool = p.Tool != nil
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	if int64(len(data)) > m.o.Bytes {
		return nil, fmt.Errorf("%w: it has %d bytes, MigrationBytes is %d", errTooLarge, len(data), m.o.Bytes)
	}
	return data, nil
}

// decide asks the destination to commit a session in doubt. If the answer does not arrive, it asks
// the destination to give up.
func (m *Mover) decide(ctx context.Context, j *journey) error {
	state, err := m.call(ctx, j, stepCommit, nil)
	if err != nil {
		m.o.Log.Warn("destination did not answer", "destination", j.url, "error", err)
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer stop()
		state, err = m.call(ctx, j, stepAbort, nil)
	}
	if err != nil {
		j.deal.leave()
		return fmt.Errorf("%w: %w", errDoubt, err)
	}
	j.deal.settle(state == stateCommitted)
	waiting, stop := context.WithTimeout(context.WithoutCancel(ctx), running.AskTimeout)
	defer stop()
	told, err := m.o.Flow.AskWithin(waiting, j.at, tools.In{Move: &tools.MoveOrder{Do: tools.Await, Transfer: j.transfer}})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errDoubt, err)
	case state == stateCommitted && told.Move.Place == handover.Gone:
		return nil
	case state == stateCommitted:
		return errDoubt
	}
	return fmt.Errorf("%w: it says %q", errTransfer, state)
}
