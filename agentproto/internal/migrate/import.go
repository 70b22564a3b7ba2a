package migrate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	strict "github.com/go-json-experiment/json"
)

// ServeImport is the destination's side of a transfer. A sender without the key learns only that it
// is unauthorized.
func (m *Mover) ServeImport(w http.ResponseWriter, r *http.Request) {
	m.extend(w)
	text, h, err := m.readHeader(r.Body)
	if err != nil {
		w.Header().Set("Connection", "close")
		m.o.Log.Warn("transfer of a session refused", "error", err)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	var state string
	switch h.Step {
	case stepStage:
		data, status := m.readTransfer(r.Body, text)
		if status != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "the payload is not accepted", status)
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), m.o.Timeout)
		defer stop()
		state, err = m.takeStage(ctx, h, data)
	case stepCommit:
		state, err = m.takeCommit(h)
	case stepAbort:
		state, err = m.takeAbort(h)
	default:
		state = stateRefused
	}
	if err != nil {
		m.o.Log.Error("transfer of a session failed", "step", h.Step, "session", h.Session, "source", h.Source, "error", err)
		http.Error(w, "the transfer failed", http.StatusInternalServerError)
		return
	}
	answer, err := json.Marshal(answerText{state})
	if err != nil {
		http.Error(w, "the transfer failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(m.envelope.Seal(answer, "answer", string(text)))
}

// readHeader reads and opens the header of a transfer.
func (m *Mover) readHeader(body io.Reader) (text []byte, h header, err error) {
	var length [4]byte
	if _, err := io.ReadFull(body, length[:]); err != nil {
		return nil, h, errors.New("it has no header")
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxHeader {
		return nil, h, errors.New("its header is too long")
	}
	sealed := make([]byte, n)
	if _, err := io.ReadFull(body, sealed); err != nil {
		return nil, h, errors.New("its header is not complete")
	}
	if text, err = m.envelope.Open(sealed, "header"); err != nil {
		return nil, h, err
	}
	if err := strict.Unmarshal(text, &h, strict.RejectUnknownMembers(true)); err != nil {
		return nil, h, errors.New("its header cannot be read")
	}
	switch {
	case h.Toolset != m.o.Name || h.Endpoint != m.o.Endpoint:
		return nil, h, errors.New("it is for another instance")
	case h.Session == "" || h.Transfer == "" || len(h.Transfer) > maxTransfer:
		return nil, h, errors.New("it names no session or no transfer")
	}
	return text, h, nil
}

// readTransfer reads and opens the payload. On failure it returns the HTTP status to answer with.
func (m *Mover) readTransfer(body io.Reader, text []byte) (data []byte, status int) {
	sealed, err := io.ReadAll(io.LimitReader(body, m.o.Bytes+sealedOverhead+1))
	switch {
	case err != nil:
		return nil, http.StatusBadRequest
	case int64(len(sealed)) > m.o.Bytes+sealedOverhead:
		return nil, http.StatusRequestEntityTooLarge
	}
	if data, err = m.envelope.Open(sealed, "payload", string(text)); err != nil {
		return nil, http.StatusUnauthorized
	}
	return data, 0
}
