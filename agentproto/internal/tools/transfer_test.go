package tools

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// A taking runs the steps of one transfer by hand.
type taking struct {
	s       Transfer
	told    handover.State
	imports []*Moved
	staged  int64
}

func (x *taking) take(in TransferIn) {
	var do transferTurn
	in.Token = "token"
	x.s.take("1.transfer", in, &do)
	for _, o := range do.Emitted() {
		x.staged += o.Staged
		if o.Told != nil {
			x.told = o.Told.Move
		}
		if o.Import != nil {
			x.imports = append(x.imports, o.Import)
		}
	}
}

// TestN84_LargeSession transfers a session of 60 MB in pieces and stops after piece 30. The transfer then resumes and repeats
// some pieces that have already arrived. The session is staged exactly once.
func TestN84_LargeSession(t *testing.T) {
	m := Moved{Version: movedVersion, Place: place}
	for i := range 690 {
		m.Done = append(m.Done, MovedKey{Key: append([]byte{byte(i), byte(i >> 8)}, make([]byte, 14)...), Print: make([]byte, 16), Address: make([]byte, 8), Result: bytes.Repeat([]byte{byte(i)}, maxKept)})
	}
	data, err := json.Marshal(m)
	if err != nil || len(data) < 60_000_000 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	of := (len(data) + Chunk - 1) / Chunk
	x := &taking{s: newTransfer()}
	piece := func(from, to int) {
		for i := from; i < to; i++ {
			x.take(TransferIn{Step: handover.Stage, Place: place, Chunk: data[i*Chunk : min(len(data), (i+1)*Chunk)], Number: i, Of: of, For: time.Hour})
		}
	}
	piece(0, 30)
	x.take(TransferIn{Step: handover.Commit, Place: place})
	if x.told.Place != handover.None || len(x.imports) > 0 {
		t.Fatalf("half a session is %s", x.told.Place)
	}
	piece(28, of)
	piece(0, 2)
	if x.told.Place != handover.Staged || x.staged != 1 {
		t.Fatalf("the session is %s, and %d are staged", x.told.Place, x.staged)
	}
	x.take(TransferIn{Step: handover.Commit, Place: Place{"", "another"}})
	x.take(TransferIn{Step: handover.Abort, Place: Place{"", "another"}})
	for range 2 {
		x.take(TransferIn{Step: handover.Commit, Place: place})
	}
	piece(0, of)
	x.take(TransferIn{Step: handover.Abort, Place: place})
	if x.told.Place != handover.Here || x.staged != 0 || len(x.imports) != 1 || len(x.imports[0].Done) != len(m.Done) {
		t.Errorf("the session is %s, came %d times, and %d are staged", x.told.Place, len(x.imports), x.staged)
	}
}
