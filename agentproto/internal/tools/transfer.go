package tools

import (
	"bytes"
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

// A TransferIn is what the source of a session says to this instance.
type TransferIn struct {
	Token  string
	Do     TransferStep
	Place  Place
	Chunk  []byte        // of Stage
	Of     int           // how many chunks there are, and
	Number int           // which one it is, from 0 on
	For    time.Duration // how long the session stays staged
}

// A TransferStep is one of the steps of a transfer. Each may be repeated.
type TransferStep string

// The steps.
const (
	Stage  TransferStep = "stage"  // take the state, do not serve it
	Commit TransferStep = "commit" // serve it
	Abort  TransferStep = "abort"  // forget it, unless it is served
	Fate   TransferStep = "fate"   // say how it is
)

// A TransferState says how far a transfer is.
type TransferState string

// The states.
const (
	Unknown   TransferState = "" // it was never staged, or too long ago
	Staged    TransferState = "staged"
	Committed TransferState = "committed"
	Aborted   TransferState = "aborted"
)

// A Transfer is the state of a transfer to this instance. It is remembered for longer than a
// message about it is good for, so a repeated message changes nothing.
type Transfer struct {
	State  TransferState
	Place  Place
	Chunks [][]byte
}

// A TransferOut is what a step of a transfer says.
type TransferOut struct {
	Token  string
	Told   *Told
	Place  Place
	Import *Moved
	Staged int64
}

const rememberTransfer = 24 * time.Hour

// Chunk is how much of a session is in one record at most.
const Chunk = 512 << 10

type transferTurn = keyedstream.TimedTurn[string, TransferOut, struct{}]

// transfer makes a step of a transfer.
func transfer(s *Transfer, in TransferIn, do *transferTurn) {
	told := Told{}
	unstage := func() {
		if s.State == Staged {
			do.Emit(TransferOut{Staged: -1})
			told.Known = true
		}
		s.Chunks = nil
		do.Stop(alarm)
		do.ForgetAfter(rememberTransfer)
	}
	switch {
	case in.Do == Stage && s.State == Unknown && in.Number < in.Of:
		if len(s.Chunks) != in.Of || s.Place != in.Place {
			s.Chunks, s.Place = make([][]byte, in.Of), in.Place
		}
		s.Chunks[in.Number] = in.Chunk
		do.After(alarm, in.For)
		if !slices.ContainsFunc(s.Chunks, func(c []byte) bool { return c == nil }) {
			s.State = Staged
			do.Emit(TransferOut{Staged: 1})
		}
	case in.Do == Commit && s.State == Staged && s.Place == in.Place:
		m, err := ReadMoved(bytes.Join(s.Chunks, nil), s.Place)
		if err != nil {
			break // it was read when it was staged
		}
		do.Emit(TransferOut{Place: s.Place, Import: m})
		unstage()
		s.State = Committed
	case in.Do == Abort && (s.State == Unknown || s.State == Staged):
		unstage()
		s.State = Aborted
	}
	told.State = s.State
	if in.Token != "" {
		do.Emit(TransferOut{Token: in.Token, Told: &told})
	}
	if s.State == Unknown && s.Chunks == nil {
		do.Forget()
	}
}

// outstaged forgets a session that was staged and never committed.
func outstaged(s *Transfer, _ keyedstream.Timer, do *transferTurn) {
	if s.State == Staged {
		do.Emit(TransferOut{Staged: -1})
	}
	do.Forget()
}
