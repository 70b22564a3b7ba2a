package migrate

import (
	"context"
	"errors"
	"fmt"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

const maxStaged = 32 // sessions at once

// readPayload decodes a payload from another instance, and checks that all of it belongs to the session.
func readPayload(data []byte, of tools.Place) (*payload, error) {
	p := new(payload)
	if err := strict.Unmarshal(data, p, jsontext.AllowDuplicateNames(false), strict.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("it is not a payload")
	}
	if _, err := tools.ReadMoved(p.Session, of); err != nil {
		return nil, err
	}
	return p, nil
}

// askTransfer asks the flow for a step of a transfer to this instance.
func (m *Mover) askTransfer(h header, in tools.TransferIn) (tools.Told, error) {
	in.Place = tools.Place{Runtime: h.Runtime, Session: h.Session}
	return m.o.Flow.AskTransfer(h.Transfer, in)
}

// takeStage imports the state of the tool and stores the rest, without serving it.
func (m *Mover) takeStage(ctx context.Context, h header, data []byte) (state string, err error) {
	m.importing.Lock()
	defer m.importing.Unlock()
	at := tools.Place{Runtime: h.Runtime, Session: h.Session}
	p, err := readPayload(data, at)
	if err != nil {
		m.o.Log.Warn("session refused", "session", h.Session, "source", h.Source, "error", err)
		return stateRefused, nil
	}
	look, err := m.order(at, tools.MoveOrder{Do: tools.Look})
	if err != nil {
		return "", err
	}
	told, err := m.askTransfer(h, tools.TransferIn{})
	switch state := stateOf(told.Move); {
	case err != nil:
		return "", err
	case state != stateUnknown:
		return state, nil
	case m.o.Closing() || look.Move.Place.Leaving() || handover.Before(h.Transfer, look.Move.Transfer):
		return stateRefused, nil
	}
	if m.o.Flow.Load().Staged >= maxStaged {
		return stateRefused, nil
	}
	if p.HasTool {
		if err := m.importTool(ctx, h.Session, p.Tool); err != nil {
			return "", fmt.Errorf("the Migrator does not take it: %w", err)
		}
	}
	for n, i := 0, 0; ; n++ {
		chunk := p.Session[i:min(i+tools.Chunk, len(p.Session))]
		i += len(chunk)
		told, err := m.askTransfer(h, tools.TransferIn{Step: handover.Stage, Chunk: chunk, Number: n, Of: (len(p.Session) + tools.Chunk - 1) / tools.Chunk, For: 2 * m.o.Timeout})
		if err != nil || i == len(p.Session) {
			return stateOf(told.Move), err
		}
	}
}

// importTool calls the Migrator. A panic becomes an error.
func (m *Mover) importTool(ctx context.Context, id string, state []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("it has panicked")
		}
	}()
	return m.o.Tool.Import(ctx, id, state)
}

// takeCommit starts to serve a staged session, unless a later transfer has brought it or it is leaving;
// then it aborts the transfer.
func (m *Mover) takeCommit(h header) (state string, err error) {
	m.importing.Lock()
	defer m.importing.Unlock()
	step := handover.Commit
	look, err := m.order(tools.Place{Runtime: h.Runtime, Session: h.Session}, tools.MoveOrder{Do: tools.Look})
	switch {
	case err != nil:
		return "", err
	case look.Move.Place.Leaving() || handover.Before(h.Transfer, look.Move.Transfer):
		step = handover.Abort
	}
	told, err := m.askTransfer(h, tools.TransferIn{Step: step})
	if err == nil && told.Move.Place == handover.Staged {
		err = errors.New("the staged payload is not the session's")
	}
	return stateOf(told.Move), err
}

// takeAbort forgets a session that is not served. A later or concurrent commit is refused. The tool's
// state is kept if a later transfer has brought it.
func (m *Mover) takeAbort(h header) (state string, err error) {
	m.importing.Lock()
	defer m.importing.Unlock()
	told, err := m.askTransfer(h, tools.TransferIn{Step: handover.Abort})
	if err != nil || told.Move.Place != handover.None || !told.Known {
		return stateOf(told.Move), err
	}
	look, err := m.order(tools.Place{Runtime: h.Runtime, Session: h.Session}, tools.MoveOrder{Do: tools.Look})
	if err == nil && !handover.Before(h.Transfer, look.Move.Transfer) {
		m.removeTool(h.Session)
	}
	return stateOf(told.Move), err
}

// stateOf returns the state of a transfer in the words of the wire format.
func stateOf(m handover.State) string {
	switch {
	case m.Place == handover.Staged:
		return stateStaged
	case m.Place == handover.Here:
		return stateCommitted
	case m.Transfer != "":
		return stateAborted
	}
	return stateUnknown
}

// Closed removes the tool's state of a session whose root thread was closed. The fact that the session
// has moved is kept, because a late invocation must still be refused.
func (m *Mover) Closed(at tools.Place) {
	if m.o.Tool == nil {
		return
	}
	if look, err := m.order(at, tools.MoveOrder{Do: tools.Look}); err == nil && !look.Move.Place.Leaving() {
		m.removeTool(at.Session)
	}
}

// removeTool asks the Migrator to forget a session, if it has a method for that.
func (m *Mover) removeTool(id string) {
	r, ok := m.o.Tool.(remover)
	if !ok {
		return
	}
	go func() {
		defer func() {
			if recover() != nil {
				m.o.Log.Error("Migrator panicked in Remove", "session", id)
			}
		}()
		ctx, stop := context.WithTimeout(m.ctx, m.o.Timeout)
		defer stop()
		if err := r.Remove(ctx, id); err != nil {
			m.o.Log.Warn("Migrator has not removed a session", "session", id, "error", err)
		}
	}()
}
