package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The buckets of the transfers to this instance. A transfer is remembered longer
// than a message about it is good for, so a repeated message changes nothing.
const (
	transferBucket = "transfers" // name: transferRecord
	stagedBucket   = "staged"    // name: the payload, while it is staged
)

// A transferRecord is what is known of a transfer.
type transferRecord struct {
	State   string    `json:"state"`
	Runtime string    `json:"runtime"`
	Session string    `json:"session"`
	At      time.Time `json:"at"`
}

const (
	rememberTransfer = 24 * time.Hour
	maxStaged        = 32 // sessions at once
)

// readRecord returns the record of a transfer; its State is empty if there is none.
func readRecord(tx tx, name string) (r transferRecord, err error) {
	if data := tx.get(transferBucket, []byte(name)); data != nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}

func writeRecord(tx tx, h header, state string) error {
	data, err := json.Marshal(transferRecord{state, h.Runtime, h.Session, time.Now().Round(0)})
	if err != nil {
		return err
	}
	return tx.put(transferBucket, []byte(h.Transfer), data)
}

// takeStage imports the state of the tool and keeps the rest, without serving it.
func (s *Server) takeStage(ctx context.Context, h header, data []byte) (state string, err error) {
	s.importing.Lock()
	defer s.importing.Unlock()
	of := session{h.Runtime, h.Session}
	p, err := readPayload(data, of)
	if err != nil {
		s.log.Warn("session refused", "session", h.Session, "source", h.Source, "error", err)
		return stateRefused, nil
	}
	s.mu.Lock()
	leaving := s.moves.of(of.runtime, of.ID)
	refuse := s.closing || leaving != nil && leaving.phase != phaseMoved
	s.mu.Unlock()
	if refuse {
		return stateRefused, nil
	}
	staged := 0
	if err := s.store.update(func(tx tx) error {
		state, staged = "", 0
		r, err := readRecord(tx, h.Transfer)
		state = r.State
		return errors.Join(err, s.sweepTransfers(tx, &staged))
	}); err != nil || state != "" {
		return state, err
	}
	if staged >= maxStaged {
		return stateRefused, nil
	}
	if p.HasTool {
		if err := s.importTool(ctx, h.Session, p.Tool); err != nil {
			return "", fmt.Errorf("the Migrator does not take it: %w", err)
		}
	}
	err = s.store.update(func(tx tx) error {
		return errors.Join(writeRecord(tx, h, stateStaged), tx.put(stagedBucket, []byte(h.Transfer), data))
	})
	return stateStaged, err
}

// importTool calls the Migrator. A panic of its is an error.
func (s *Server) importTool(ctx context.Context, id string, state []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("it has panicked")
		}
	}()
	return s.opts.Migrator.Import(ctx, id, state)
}

// sweepTransfers forgets old transfers and counts the ones that are staged.
func (s *Server) sweepTransfers(tx tx, staged *int) error {
	var old [][]byte
	tx.each(transferBucket, nil, func(k, v []byte) bool {
		var r transferRecord
		err := json.Unmarshal(v, &r)
		age := time.Since(r.At)
		switch {
		case err != nil || age > rememberTransfer || r.State == stateStaged && age > 2*s.opts.MigrationTimeout:
			old = append(old, append([]byte(nil), k...))
		case r.State == stateStaged:
			*staged++
		}
		return true
	})
	var err error
	for _, k := range old {
		err = errors.Join(err, tx.delete(transferBucket, k), tx.delete(stagedBucket, k))
	}
	return err
}

// takeCommit begins to serve a staged session.
func (s *Server) takeCommit(h header) (state string, err error) {
	s.importing.Lock()
	defer s.importing.Unlock()
	of := session{h.Runtime, h.Session}
	var ids []digest
	var fresh bool
	var finished int
	err = s.store.update(func(tx tx) error {
		ids, fresh, finished = nil, false, 0
		r, err := readRecord(tx, h.Transfer)
		if state = r.State; err != nil || state != stateStaged {
			return err
		}
		p, err := readPayload(tx.get(stagedBucket, []byte(h.Transfer)), of)
		if err != nil || r.Session != h.Session || r.Runtime != h.Runtime {
			return errors.Join(err, errors.New("the staged payload is not the session's"))
		}
		if ids, finished, err = p.importCalls(tx, s.opts.PublicURL); err != nil {
			return err
		}
		fresh, state = true, stateCommitted
		return errors.Join(
			writeRecord(tx, h, stateCommitted),
			tx.delete(stagedBucket, []byte(h.Transfer)),
			tx.delete(moveBucket, session{"", h.Session}.key()), // it has come back
			tx.delete(moveBucket, of.key()),
		)
	})
	if err != nil {
		return "", err
	}
	if state == "" {
		return stateUnknown, nil
	}
	if fresh {
		s.finished.Add(int64(finished))
		s.countResults()
		s.begin(of, ids)
	}
	return state, nil
}

// begin serves the calls of a session that has come.
func (s *Server) begin(of session, ids []digest) {
	s.mu.Lock()
	delete(s.moves, session{"", of.ID})
	delete(s.moves, of)
	s.mu.Unlock()
	var all []*call
	for _, id := range ids {
		if c := s.revive(id, true); c != nil {
			all = append(all, c)
		}
	}
	for _, c := range all {
		c.resume()
	}
}

// takeAbort forgets a session that is not served. A commit that comes later, or has
// been on its way, is refused.
func (s *Server) takeAbort(h header) (state string, err error) {
	s.importing.Lock()
	defer s.importing.Unlock()
	var was string
	err = s.store.update(func(tx tx) error {
		r, err := readRecord(tx, h.Transfer)
		was = r.State
		if state = was; err != nil || was == stateCommitted || was == stateAborted {
			return err
		}
		state = stateAborted
		return errors.Join(writeRecord(tx, h, stateAborted), tx.delete(stagedBucket, []byte(h.Transfer)))
	})
	if err == nil && was == stateStaged {
		s.removeTool(h.Session)
	}
	return state, err
}

// closed forgets what is left here of a session whose root thread was closed. That
// it has moved stays known, because a late invocation must still be refused.
func (s *Server) closed(of session) {
	s.mu.Lock()
	m := s.moves.of(of.runtime, of.ID)
	going := m != nil && m.phase != phaseMoved
	s.mu.Unlock()
	if s.opts.Migrator != nil && !going {
		s.removeTool(of.ID)
	}
}

// removeTool tells the Migrator to forget a session, if it wants to be told.
func (s *Server) removeTool(id string) {
	r, ok := s.opts.Migrator.(remover)
	if !ok {
		return
	}
	go func() {
		defer func() {
			if recover() != nil {
				s.log.Error("Migrator panicked in Remove", "session", id)
			}
		}()
		ctx, stop := context.WithTimeout(s.ctx, s.opts.MigrationTimeout)
		defer stop()
		if err := r.Remove(ctx, id); err != nil {
			s.log.Warn("Migrator has not removed a session", "session", id, "error", err)
		}
	}()
}
