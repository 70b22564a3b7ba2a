package migrate

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A message between two instances is a POST to importPath: the length of a header, the header, and
// for stepStage a payload. Header and payload are sealed with the key that the instances share, the
// payload bound to its header. The answer is sealed too, bound to the header that it answers.
// Anyone without the key can neither ask nor answer, and learns no name of a session.
const (
	migrationPurpose = "toolserver migration"
	maxHeader        = 16 << 10
	maxTransfer      = 64  // length of the name of a transfer in bytes
	sealedOverhead   = 256 // upper limit for what sealing adds
)

// The steps of a transfer. Each may be repeated.
const (
	stepStage  = "stage"  // take the state, do not serve it
	stepCommit = "commit" // serve it
	stepAbort  = "abort"  // forget it, unless it is served
)

// The answers of a destination.
const (
	stateStaged    = "staged"
	stateCommitted = "committed"
	stateAborted   = "aborted"
	stateUnknown   = "unknown" // a commit of a transfer that was never staged, or too long ago
	stateRefused   = "refused"
)

// A header names the step and the transfer.
type header struct {
	Step     string `json:"step"`
	Transfer string `json:"transfer"`
	Toolset  string `json:"toolset"`
	Runtime  string `json:"runtime"`
	Session  string `json:"session"`
	Source   string `json:"source"` // like Endpoint, the endpoint of a side's manifest
	Endpoint string `json:"endpoint"`
}

// An answerText is the answer to a header.
type answerText struct {
	State string `json:"state"`
}

// reach fetches the manifest of a destination and returns its endpoint, before the session is
// disturbed.
func (m *Mover) reach(ctx context.Context, base string) (endpoint string, err error) {
	ctx, stop := context.WithTimeout(ctx, reachTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+manifestPath, nil)
	if err != nil {
		return "", errDestination
	}
	req.Header.Set("Accept", "application/json")
	a, err := m.o.Client.Do(req, maxManifest)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errUnreachable, err)
	case !a.OK():
		return "", fmt.Errorf("%w: status %d", errUnreachable, a.Status)
	case a.Broken != nil:
		return "", fmt.Errorf("%w: %w", errUnreachable, a.Broken)
	}
	manifest, err := agentproto.DecodeManifest(a.Body, agentproto.Limits{Bytes: maxManifest})
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: its manifest is not valid", errOtherToolset)
	case manifest.Name != m.o.Name || !manifest.NeedsMigration:
		return "", errOtherToolset
	case manifest.Endpoint == m.o.Endpoint:
		return "", fmt.Errorf("%w: it is this one", errOtherToolset)
	}
	return manifest.Endpoint, nil
}

// Time limits for the destination's answer: to the request for its manifest, and to a step without
// a payload.
const (
	reachTimeout  = 10 * time.Second
	commitTimeout = 30 * time.Second
	maxManifest   = 1 << 20
)

// stage sends the state of a session to its destination.
func (m *Mover) stage(ctx context.Context, j *journey, payload []byte) error {
	state, err := m.call(ctx, j, stepStage, payload)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errTransfer, err)
	case state != stateStaged:
		return fmt.Errorf("%w: it says %q", errTransfer, state)
	}
	return nil
}

// call makes one step and returns the state of the transfer at the destination.
func (m *Mover) call(ctx context.Context, j *journey, step string, payload []byte) (state string, err error) {
	if m.envelope == nil {
		return "", errors.New("this instance has no longer a Migrator")
	}
	text, err := json.Marshal(header{step, j.transfer, m.o.Name, j.at.Runtime, j.at.Session, m.o.Endpoint, j.endpoint})
	if err != nil {
		return "", err
	}
	if step != stepStage {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, commitTimeout)
		defer stop()
	}
	body := m.envelope.Seal(text, "header")
	body = append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if step == stepStage {
		body = append(body, m.envelope.Seal(payload, "payload", string(text))...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.url+importPath, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	reply, err := m.o.Client.Do(req, maxHeader)
	switch {
	case err != nil:
		return "", err
	case reply.Status != http.StatusOK:
		return "", fmt.Errorf("status %d", reply.Status)
	case reply.Broken != nil:
		return "", reply.Broken
	}
	answer, err := m.envelope.Open(reply.Body, "answer", string(text))
	if err != nil {
		return "", errors.New("its answer is not sealed with the key that the instances share, or the clocks differ")
	}
	var a answerText
	err = json.Unmarshal(answer, &a)
	return a.State, err
}
