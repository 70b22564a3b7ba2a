package tools

import (
	"bytes"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/keyedstream"
)

// A TransferIn is a message from the source of a session to this instance. Each step may be
// repeated.
type TransferIn struct {
	Token  string
	Step   handover.Step // Stage, Commit, Abort, or none to query the state
	Place  Place
	Chunk  []byte        // of Stage
	Of     int           // number of chunks
	Number int           // number of this chunk, from 0
	For    time.Duration // how long the session stays staged
}

// A Transfer is the state of a transfer to this instance. It is remembered longer than messages
// about it are valid, so a repeated message changes nothing.
type Transfer struct {
	Move   handover.State
	Place  Place
	Chunks [][]byte
}

func newTransfer() Transfer { return Transfer{Move: handover.State{Place: handover.None}} }

// A TransferOut is an output of a transfer.
type TransferOut struct {
	Token  string
	Told   *Told
	Place  Place
	Import *Moved
	Staged int64
}

const rememberTransfer = 24 * time.Hour

// Chunk is how many bytes of a session one record contains at most.
const Chunk = 512 << 10

type transferTurn = keyedstream.TimedTurn[string, TransferOut, struct{}]

// transfer processes a step of a transfer.
func transfer(s *Transfer, in TransferIn, do *transferTurn) { s.take(do.Key(), in, do) }

func (s *Transfer) take(name string, in TransferIn, do *transferTurn) {
	told := Told{}
	was, step := s.Move.Place, in.Step
	var m *Moved
	switch {
	case step == handover.Stage && s.Move == (handover.State{Place: handover.None}) && in.Number < in.Of:
		if len(s.Chunks) != in.Of || s.Place != in.Place {
			s.Chunks, s.Place = make([][]byte, in.Of), in.Place
		}
		s.Chunks[in.Number] = in.Chunk
		do.After(alarm, in.For)
		if slices.ContainsFunc(s.Chunks, func(c []byte) bool { return c == nil }) {
			step = 0
		}
	case was == handover.Staged && s.Place != in.Place: // it belongs to another session
		step = 0
	case was == handover.Staged && step == handover.Commit:
		var err error
		if m, err = ReadMoved(bytes.Join(s.Chunks, nil), s.Place); err != nil {
			step = 0 // it was decoded when it was staged
		}
	}
	if step != 0 {
		s.Move.Take(step, name)
	}
	switch is := s.Move.Place; {
	case is == handover.Staged && was != is:
		do.Emit(TransferOut{Staged: 1})
	case was == handover.Staged && was != is:
		if told.Known = true; is == handover.Here {
			do.Emit(TransferOut{Place: s.Place, Import: m})
		}
		do.Emit(TransferOut{Staged: -1})
		fallthrough
	case step == handover.Abort && is == handover.None: // its Stage is refused from now on
		s.Chunks = nil
		do.Stop(alarm)
		do.ForgetAfter(rememberTransfer)
	}
	told.Move = s.Move
	if in.Token != "" {
		do.Emit(TransferOut{Token: in.Token, Told: &told})
	}
	if s.Move == (handover.State{Place: handover.None}) && s.Chunks == nil {
		do.Forget()
	}
}

// outstaged forgets a session that was staged and never committed in time.
func outstaged(s *Transfer, _ keyedstream.Timer, do *transferTurn) {
	if s.Move.Place == handover.Staged {
		do.Emit(TransferOut{Staged: -1})
	}
	do.Forget()
}
