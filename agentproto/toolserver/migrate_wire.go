package toolserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/envelope"
)

// What one instance says to another is a post to importPath: the length of a header,
// the header, and for stepStage a payload. Header and payload are sealed with the key
// that the instances share, the payload together with its header; so is the answer,
// together with the header that it answers. Whoever does not have the key can
// neither ask nor answer, and learns no name of a session.
const (
	migrationPurpose = "toolserver migration"
	maxHeader        = 16 << 10
	maxTransfer      = 64  // bytes of the name of a transfer
	sealedOverhead   = 256 // more than sealing adds
)

// The steps of a transfer. Each may be repeated.
const (
	stepStage  = "stage"  // take the state, do not serve it
	stepCommit = "commit" // serve it
	stepAbort  = "abort"  // forget it, unless it is served
)

// What a destination answers.
const (
	stateStaged    = "staged"
	stateCommitted = "committed"
	stateAborted   = "aborted"
	stateUnknown   = "unknown" // a commit of what was never staged, or too long ago
	stateRefused   = "refused"
)

// A header says what is to be done with which transfer.
type header struct {
	Step     string `json:"step"`
	Transfer string `json:"transfer"`
	Toolset  string `json:"toolset"`
	Runtime  string `json:"runtime"`
	Session  string `json:"session"`
	Source   string `json:"source"` // endpoint of the manifest of either side
	Endpoint string `json:"endpoint"`
}

// An answerText is what a destination answers a header with.
type answerText struct {
	State string `json:"state"`
}

// newEnvelope returns what seals the messages between instances.
func (o Options) newEnvelope() *envelope.Envelope {
	e, err := envelope.New([]byte(o.MigrationKey.Reveal()), migrationPurpose)
	if err != nil {
		panic(err.Error()) // checkMigration has looked at the key
	}
	return e
}

// reach looks at the manifest of a destination and returns its endpoint, before the
// session is disturbed.
func (s *Server) reach(ctx context.Context, base string) (endpoint string, err error) {
	ctx, stop := context.WithTimeout(ctx, reachTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+manifestPath, nil)
	if err != nil {
		return "", errDestination
	}
	req.Header.Set("Accept", "application/json")
	a, err := s.migrations.Do(req, maxManifest)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errUnreachable, err)
	case !a.OK():
		return "", fmt.Errorf("%w: status %d", errUnreachable, a.Status)
	case a.Broken != nil:
		return "", fmt.Errorf("%w: %w", errUnreachable, a.Broken)
	}
	m, err := agentproto.DecodeManifest(a.Body, agentproto.Limits{Bytes: maxManifest})
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: its manifest is not valid", errOtherToolset)
	case m.Name != s.opts.Name || !m.NeedsMigration:
		return "", errOtherToolset
	case m.Endpoint == s.opts.PublicURL+invokePath:
		return "", fmt.Errorf("%w: it is this one", errOtherToolset)
	}
	return m.Endpoint, nil
}

// How long the destination may take to answer: for its manifest, and for a step
// without a payload.
const (
	reachTimeout  = 10 * time.Second
	commitTimeout = 30 * time.Second
	maxManifest   = 1 << 20
)

// stage brings the state of a session to its destination.
func (s *Server) stage(ctx context.Context, m *journey, payload []byte) error {
	state, err := s.call(ctx, m, stepStage, payload)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errTransfer, err)
	case state != stateStaged:
		return fmt.Errorf("%w: it says %q", errTransfer, state)
	}
	return nil
}

// call makes one step and returns the state of the transfer at the destination.
func (s *Server) call(ctx context.Context, m *journey, step string, payload []byte) (state string, err error) {
	text, err := json.Marshal(header{step, m.transfer, s.opts.Name, m.at.Runtime, m.at.Session, s.opts.PublicURL + invokePath, m.endpoint})
	if err != nil {
		return "", err
	}
	if step != stepStage {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, commitTimeout)
		defer stop()
	}
	body := s.envelope.Seal(text, "header")
	body = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if step == stepStage {
		body = append(body, s.envelope.Seal(payload, "payload", string(text))...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+importPath, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	reply, err := s.migrations.Do(req, maxHeader)
	switch {
	case err != nil:
		return "", err
	case reply.Status != http.StatusOK:
		return "", fmt.Errorf("status %d", reply.Status)
	case reply.Broken != nil:
		return "", reply.Broken
	}
	answer, err := s.envelope.Open(reply.Body, "answer", string(text))
	if err != nil {
		return "", errors.New("its answer is not sealed with the key that the instances share, or the clocks differ")
	}
	var a answerText
	err = json.Unmarshal(answer, &a)
	return a.State, err
}

// extend gives a request the time that a migration may take, in place of the read and write
// deadlines of the [http.Server]. The answer may leave a moment after that.
func (s *Server) extend(w http.ResponseWriter) {
	controller := http.NewResponseController(w)
	until := time.Now().Add(s.opts.MigrationTimeout)
	controller.SetReadDeadline(until) // not all writers can
	controller.SetWriteDeadline(until.Add(10 * time.Second))
}

// serveImport is the destination's side of a transfer. Whoever does not have the key
// is told nothing but that.
func (s *Server) serveImport(w http.ResponseWriter, r *http.Request) {
	s.extend(w)
	text, h, err := s.readHeader(r.Body)
	if err != nil {
		w.Header().Set("Connection", "close")
		s.log.Warn("transfer of a session refused", "error", err)
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	var state string
	switch h.Step {
	case stepStage:
		data, status := s.readTransfer(r.Body, text)
		if status != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "the payload is not accepted", status)
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), s.opts.MigrationTimeout)
		defer stop()
		state, err = s.takeStage(ctx, h, data)
	case stepCommit:
		state, err = s.takeCommit(h)
	case stepAbort:
		state, err = s.takeAbort(h)
	default:
		state = stateRefused
	}
	if err != nil {
		s.log.Error("transfer of a session failed", "step", h.Step, "session", h.Session, "source", h.Source, "error", err)
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
	w.Write(s.envelope.Seal(answer, "answer", string(text)))
}

// readHeader reads and opens the header of a transfer.
func (s *Server) readHeader(body io.Reader) (text []byte, h header, err error) {
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
	if text, err = s.envelope.Open(sealed, "header"); err != nil {
		return nil, h, err
	}
	if err := strict.Unmarshal(text, &h, strict.RejectUnknownMembers(true)); err != nil {
		return nil, h, errors.New("its header cannot be read")
	}
	switch {
	case h.Toolset != s.opts.Name || h.Endpoint != s.opts.PublicURL+invokePath:
		return nil, h, errors.New("it is for another instance")
	case h.Session == "" || h.Transfer == "" || len(h.Transfer) > maxTransfer:
		return nil, h, errors.New("it names no session or no transfer")
	}
	return text, h, nil
}

// readTransfer reads and opens the payload. It returns the status of what is wrong.
func (s *Server) readTransfer(body io.Reader, text []byte) (data []byte, status int) {
	sealed, err := io.ReadAll(io.LimitReader(body, s.opts.MigrationBytes+sealedOverhead+1))
	switch {
	case err != nil:
		return nil, http.StatusBadRequest
	case int64(len(sealed)) > s.opts.MigrationBytes+sealedOverhead:
		return nil, http.StatusRequestEntityTooLarge
	}
	if data, err = s.envelope.Open(sealed, "payload", string(text)); err != nil {
		return nil, http.StatusUnauthorized
	}
	return data, 0
}
