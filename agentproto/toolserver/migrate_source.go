package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// grace is how long functions may go on before they are interrupted, and drain how
// long they may take to notice.
const (
	grace = 5 * time.Second
	drain = 30 * time.Second
)

// abortTimeout is for the last question to a destination that does not answer.
const abortTimeout = 5 * time.Second

// A journey is a session on its way to a destination.
type journey struct {
	at       tools.Place
	transfer string // names the attempt
	url      string // base URL of the destination
	endpoint string // of its manifest, which names the instance
	deal     *deal
}

// A payload is a session on its way, with what the Migrator has exported.
type payload struct {
	Session []byte `json:"session"` // a [tools.Moved]
	Tool    []byte `json:"tool"`
	HasTool bool   `json:"has_tool"`
}

// migrate moves a session; see package handover for what the source goes through. Up to Doubt, which
// is durable, every failure leads back to where it was.
func (s *Server) migrate(ctx context.Context, at tools.Place, destination string) error {
	base, err := s.opts.destination(destination)
	if err != nil {
		return err
	}
	if !s.claim(at) {
		return errBusyMoving
	}
	defer s.unclaim(at)
	look, err := s.order(at, tools.MoveOrder{Do: tools.Look})
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
		return s.decide(ctx, &journey{at, look.Move.Transfer, look.URL, look.Endpoint, s.deals.of(look.Move.Transfer, true)})
	}
	m := &journey{at: at, transfer: look.Move.Name(time.Now()), url: base}
	m.deal = s.deals.of(m.transfer, true)
	stays := true
	defer func() {
		if stays { // otherwise the job that settles it is the last who needs it
			s.deals.over(m.transfer, m.deal)
		}
	}()
	if !look.Known {
		// A session that this server has never heard of is no error (case G09).
		if known, err := s.toolKnows(ctx, m); !known {
			return err
		}
	}
	if m.endpoint, err = s.reach(ctx, base); err != nil {
		return s.stay(m, err)
	}
	if err := s.freeze(ctx, m); err != nil {
		return s.stay(m, err)
	}
	data, err := s.export(ctx, m)
	if err != nil {
		return s.stay(m, err)
	}
	if err := s.stage(ctx, m, data); err != nil {
		// The destination may hold it all the same, and forgets it after a while.
		return s.stay(m, err)
	}
	stays = false
	left, err := s.order(at, tools.MoveOrder{Step: handover.Send, Transfer: m.transfer, URL: m.url, Endpoint: m.endpoint})
	if stays = err == nil && left.Move.Place != handover.Doubt; stays {
		return s.stay(m, errTransfer)
	}
	if err != nil { // nobody knows whether it is in doubt; a job finds out, and so does whoever asks again
		m.deal.leave()
		return fmt.Errorf("%w: %w", errDoubt, err)
	}
	return s.decide(ctx, m)
}

// order tells a session a step of a move.
func (s *Server) order(at tools.Place, o tools.MoveOrder) (tools.Told, error) {
	told, err := s.flow.Ask(at, tools.In{Move: &o})
	if err != nil {
		return told, fmt.Errorf("%w: %w", errMoveStore, err)
	}
	return told, nil
}

// claim notes that somebody is moving a session, and reports whether nobody else is.
func (s *Server) claim(at tools.Place) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moving[at] {
		return false
	}
	s.moving[at] = true
	return true
}

func (s *Server) unclaim(at tools.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.moving, at)
}

// toolKnows reports whether the Migrator has a session that has no calls here. If not, the session
// stays.
func (s *Server) toolKnows(ctx context.Context, m *journey) (bool, error) {
	if err := s.freeze(ctx, m); err != nil {
		return false, s.stay(m, err)
	}
	state, err := s.opts.Migrator.Export(ctx, m.at.Session)
	if err != nil {
		return false, s.stay(m, fmt.Errorf("%w: %w", errExport, err))
	}
	if state == nil {
		return false, s.stay(m, nil)
	}
	return true, nil
}

// freeze stops everything that changes a session. Functions get some time to end by
// themselves. What is interrupted runs again, here or at the destination. A call
// with [ToolOptions.RunOnce] is never interrupted.
func (s *Server) freeze(ctx context.Context, m *journey) error {
	if _, err := s.order(m.at, tools.MoveOrder{Step: handover.Freeze, Transfer: m.transfer}); err != nil {
		return err
	}
	if s.quiet(ctx, m, grace) {
		return nil
	}
	s.mu.Lock()
	var spare []string
	for _, t := range s.tools {
		if t.runOnce {
			spare = append(spare, t.manifest.Name)
		}
	}
	s.mu.Unlock()
	if _, err := s.order(m.at, tools.MoveOrder{Do: tools.Interrupt, Transfer: m.transfer, Spare: slices.Clip(spare)}); err != nil {
		return err
	}
	if s.quiet(ctx, m, drain) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errRunning
}

// quiet waits, for a while, until nothing of a session is under way.
func (s *Server) quiet(ctx context.Context, m *journey, patience time.Duration) bool {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	_, err := s.flow.AskWithin(ctx, m.at, tools.In{Move: &tools.MoveOrder{Do: tools.Quiet, Transfer: m.transfer}})
	return err == nil
}

// stay goes on with a session that stays, and returns why it does.
func (s *Server) stay(m *journey, why error) error {
	if _, err := s.order(m.at, tools.MoveOrder{Step: handover.Abort, Transfer: m.transfer}); err != nil && s.ctx.Err() == nil {
		s.log.Error("session goes on later", "session", m.at.Session, "error", err)
	}
	return why
}

// export returns everything of a frozen session.
func (s *Server) export(ctx context.Context, m *journey) ([]byte, error) {
	told, err := s.flow.AskWithin(ctx, m.at, tools.In{Move: &tools.MoveOrder{Do: tools.Export, Transfer: m.transfer}})
	if err != nil || told.Data == nil {
		return nil, errors.Join(errExport, err)
	}
	p := payload{Session: told.Data}
	if p.Tool, err = s.opts.Migrator.Export(ctx, m.at.Session); err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	p.HasTool = p.Tool != nil
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errExport, err)
	}
	if int64(len(data)) > s.opts.MigrationBytes {
		return nil, fmt.Errorf("%w: it has %d bytes, MigrationBytes is %d", errTooLarge, len(data), s.opts.MigrationBytes)
	}
	return data, nil
}

// decide asks the destination of a session in doubt how it is. If the answer to a
// commit does not come, it asks the destination to give up.
func (s *Server) decide(ctx context.Context, m *journey) error {
	state, err := s.call(ctx, m, stepCommit, nil)
	if err != nil {
		s.log.Warn("destination did not answer", "destination", m.url, "error", err)
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer stop()
		state, err = s.call(ctx, m, stepAbort, nil)
	}
	if err != nil {
		m.deal.leave()
		return fmt.Errorf("%w: %w", errDoubt, err)
	}
	m.deal.settle(state == stateCommitted)
	waiting, stop := context.WithTimeout(context.WithoutCancel(ctx), running.AskTimeout)
	defer stop()
	told, err := s.flow.AskWithin(waiting, m.at, tools.In{Move: &tools.MoveOrder{Do: tools.Await, Transfer: m.transfer}})
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

// A deal is what this process knows of a transfer that is under way.
type deal struct {
	once    sync.Once
	ended   chan struct{} // closed when nobody moves the session, or asks the destination, any longer
	settled chan bool     // whether the destination has the session
}

// leave says that nobody asks the destination any longer but the flow.
func (d *deal) leave() { d.once.Do(func() { close(d.ended) }) }

func (d *deal) settle(committed bool) {
	select {
	case d.settled <- committed:
	default: // it is known
	}
}

// deals are those of all transfers.
type deals struct {
	mu  sync.Mutex
	all map[string]*deal
}

// of returns the deal of a transfer. If there is none, it makes one or returns nil.
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

// over forgets the deal of a transfer.
func (ds *deals) over(transfer string, d *deal) {
	d.leave()
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.all, transfer)
}

// hold lasts as long as somebody in this process is moving the session. The session of a process
// that has ended goes on.
func (s *Server) hold(ctx context.Context, j tools.Job) tools.Outcome {
	if d := s.deals.of(j.Move.Transfer, false); d != nil {
		select {
		case <-d.ended:
		case <-ctx.Done():
		}
	}
	return tools.Outcome{}
}

// conclude finds out what became of a session in doubt. While somebody in this process waits for
// the same, that one asks. Otherwise the runtime was told that the migration failed, or nothing
// at all, so the destination should give up. If it has the session, the next /migrate is
// answered 200.
func (s *Server) conclude(ctx context.Context, at tools.Place, j tools.Job) tools.Outcome {
	m := &journey{at, j.Move.Transfer, j.Move.URL, j.Move.Endpoint, s.deals.of(j.Move.Transfer, false)}
	if m.deal == nil {
		m.deal = s.deals.of(m.transfer, true)
		m.deal.leave()
	}
	defer s.deals.over(m.transfer, m.deal)
	select {
	case <-m.deal.ended:
	case committed := <-m.deal.settled:
		return tools.Outcome{Committed: committed}
	case <-ctx.Done():
		return tools.Outcome{Suspended: true}
	}
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		pause := time.NewTimer(wait)
		select {
		case committed := <-m.deal.settled:
			pause.Stop()
			return tools.Outcome{Committed: committed}
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return tools.Outcome{Suspended: true}
		}
		asking, stop := context.WithTimeout(ctx, abortTimeout)
		state, err := s.call(asking, m, stepAbort, nil)
		stop()
		if err == nil {
			return tools.Outcome{Committed: state == stateCommitted}
		}
	}
}

// movedTo reports whether a session is served by the instance at a destination.
func (s *Server) movedTo(at tools.Place, destination string) bool {
	base, err := s.opts.destination(destination)
	if err != nil {
		return false
	}
	look, err := s.order(at, tools.MoveOrder{Do: tools.Look})
	return err == nil && look.Move.Place == handover.Gone && look.URL == base
}
