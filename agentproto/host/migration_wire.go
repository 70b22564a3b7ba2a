package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/edge"
)

// migrationPath is where hosts talk about the sessions that move between them, below the
// public URL of each. A message is POSTed, sealed for the URL of the receiver with the key
// that both have; the answer is 200 and a reply that is sealed for the message:
//
//	offer    the toolsets that the session needs → where they are here, and a ticket; or why not
//	import   the ticket and all threads → imported, when that is kept; or why not
//	abort    → aborted, from now on for ever, or imported
//	(none)   → what became of the migration so far
//	forward  a callback that came to the host that the session left → its answer
//	relay    what happened to a call before its session was known to have left
//	return   a tool server that the source cannot reach → done, when it has handed the session back
//
// All can be sent again. 403 is for whoever does not have the key, 404 for a host without
// one.
const migrationPath = "/rap/v1/migration"

const (
	migrationPurpose = "runtime migration"
	maxMigration     = 256 << 20 // bytes of a sealed message between hosts
)

// A migrationMessage is what one host asks of another. It is sealed with the key that
// they share. Exactly one of the pointers is set, or none: then the host is asked what
// became of the migration.
type migrationMessage struct {
	Nonce     string // of this message, for its reply
	Migration string // the identifier of the migration
	Session   string
	Offer     *migrationOffer
	Import    *sessionExport
	Abort     bool
	Forward   *forwarded
	Relay     *agentproto.Forwarded
	Return    *toolReturn
}

// A migrationOffer tells the destination what is to come.
type migrationOffer struct {
	Toolsets []string // names in the manifests of the tool servers that have calls of the session, or state
}

// A migrationReply answers a migrationMessage.
type migrationReply struct {
	Refused string            // why not, in words for the one who migrates; empty if it was done
	Fate    string            // of the migration at the destination: fateNone, fateImported or fateAborted
	Ticket  string            // of an offer: what the import has to show
	Servers map[string]string // of an offer: the base URL of each toolset at the destination
	Answer  *forwardedAnswer  // of a forward
}

// What becomes of a migration at its destination. The first that is written down holds.
const (
	fateNone     = ""
	fateImported = "imported"
	fateAborted  = "aborted"
)

// A refusedError is what a destination, or a tool server, said instead of taking
// part.
type refusedError struct{ who, why string }

func (e *refusedError) Error() string { return e.who + " refused: " + e.why }

// tellHost sends a message to another host and returns its reply. Errors contain
// neither the message nor secrets.
func (rt *Runtime) tellHost(ctx context.Context, host string, m *migrationMessage) (*migrationReply, error) {
	m.Nonce = rand.Text()
	text, err := durable.CBOR().Append(nil, m)
	if err != nil {
		return nil, fmt.Errorf("encoding for %s: %w", quoted(host), err)
	}
	within := rt.opts.Timeouts.Transfer
	if m.Return != nil {
		within += rt.opts.Timeouts.Migrate
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	body := rt.moves.envelope.Seal(text, "message", strings.TrimSuffix(host, "/"))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(host, "/")+migrationPath, bytes.NewReader(body))
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	rt.greet(req, strings.TrimSuffix(host, "/"))
	a, err := rt.client.Do(req, maxMigration)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be reached: %w", quoted(host), err)
	case a.Status == http.StatusNotFound:
		return nil, &refusedError{who: quoted(host), why: "it takes no sessions: it has no migration key"}
	case a.Status == http.StatusForbidden:
		return nil, &refusedError{who: quoted(host), why: "it has another migration key or another public URL, or the clocks are more than 5 minutes apart"}
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("%s answered %d", quoted(host), a.Status)
	case a.Broken != nil:
		return nil, fmt.Errorf("%s broke off: %w", quoted(host), a.Broken)
	}
	text, err = rt.moves.envelope.Open(a.Body, "reply", m.Nonce)
	if err != nil {
		return nil, fmt.Errorf("%s: what it answered is not its own: %w", quoted(host), err)
	}
	r := new(migrationReply)
	if err := durable.CBOR().Decode(text, r); err != nil {
		return nil, fmt.Errorf("%s: what it answered cannot be read: %w", quoted(host), err)
	}
	if r.Refused != "" {
		return r, &refusedError{who: quoted(host), why: r.Refused}
	}
	return r, nil
}

// greetingHeader shows that the sender has the key, so that others cannot have a large body
// read.
const greetingHeader = "Millrace-Greeting"

func (rt *Runtime) greet(req *http.Request, to string) {
	req.Header.Set(greetingHeader, base64.RawURLEncoding.EncodeToString(rt.moves.envelope.Seal(nil, "greeting", to)))
}

func (rt *Runtime) knowsKey(r *http.Request) bool {
	greeting, err := base64.RawURLEncoding.DecodeString(r.Header.Get(greetingHeader))
	if err == nil {
		_, err = rt.moves.envelope.Open(greeting, "greeting", rt.publicURL)
	}
	return err == nil
}

// serveMigration answers another host. Whoever does not have the key learns nothing but
// that there is one.
func (rt *Runtime) serveMigration(w http.ResponseWriter, r *http.Request) {
	if rt.moves.envelope == nil || rt.stopping.Load() {
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	if !rt.knowsKey(r) { // before anything of a body is kept
		rt.count(nil, nForged)
		rt.log.Warn("message between hosts refused: its sender does not show that it has the key")
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusForbidden, "forbidden")
		return
	}
	sealed, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMigration))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, http.StatusRequestEntityTooLarge, "the session is too large")
		return
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "broken off")
		return
	}
	text, err := rt.moves.envelope.Open(sealed, "message", rt.publicURL)
	m := new(migrationMessage)
	if err == nil {
		err = durable.CBOR().Decode(text, m)
	}
	if err != nil {
		rt.count(nil, nForged)
		rt.log.Warn("message between hosts refused", "error", err)
		refuse(w, http.StatusForbidden, "forbidden")
		return
	}
	if m.Return != nil {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(rt.opts.Timeouts.Migrate + rt.opts.Timeouts.Transfer)) // not all writers can
	}
	reply := rt.host(r.Context(), m)
	text, err = durable.CBOR().Append(nil, reply)
	if err != nil {
		rt.log.Error("reply to a host cannot be encoded", "error", err)
		refuse(w, http.StatusInternalServerError, "the reply cannot be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(rt.moves.envelope.Seal(text, "reply", m.Nonce))
}

// host does what another host asks.
func (rt *Runtime) host(ctx context.Context, m *migrationMessage) *migrationReply {
	var reply *migrationReply
	var err error
	switch {
	case m.Offer != nil:
		reply, err = rt.offered(ctx, m)
	case m.Import != nil:
		reply, err = rt.arrive(ctx, m)
	case m.Abort:
		reply, err = rt.abort(ctx, m)
	case m.Forward != nil:
		reply = &migrationReply{Answer: rt.takeForwarded(ctx, m.Forward)}
	case m.Relay != nil:
		reply, err = &migrationReply{}, rt.relay(ctx, m.Relay)
	case m.Return != nil:
		reply, err = &migrationReply{}, rt.returnTool(ctx, m)
	default:
		reply, err = rt.became(ctx, m)
	}
	if err != nil {
		rt.log.Warn("session not taken", "session", quoted(m.Session), "error", err)
		return &migrationReply{Refused: err.Error()}
	}
	return reply
}

func newEnvelope(key []byte) (*envelope.Envelope, error) {
	if key == nil {
		return nil, nil
	}
	e, err := envelope.New(key, migrationPurpose)
	if err != nil {
		return nil, fmt.Errorf("host: MigrationKey: %w", err)
	}
	return e, nil
}
