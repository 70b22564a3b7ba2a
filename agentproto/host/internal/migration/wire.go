package migration

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
	"github.com/millrace/millrace/agentproto/host/internal/callback"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/edge"
)

// Path is the path, below the public URL of each host, at which hosts exchange messages about moving sessions. A message is
// POSTed, sealed for the URL of the receiver with the key that both hosts share. The answer is 200 and a reply that is sealed for
// the message:
//
//	offer    the toolsets that the session needs → where they are here, and a ticket; or why not
//	import   the ticket and all threads → imported, once that is stored; or why not
//	abort    → aborted, from now on forever, or imported
//	(none)   → the outcome of the migration so far
//	forward  a callback that arrived at the host that the session left → its answer
//	relay    what happened to a call before its session was known to have left
//	return   a tool server that the source cannot reach → done, when it has handed the session back
//
// All messages can be repeated. A sender without the key is answered 403, and a host without a key answers 404.
const Path = "/rap/v1/migration"

const (
	Purpose      = "runtime migration"
	maxMigration = 256 << 20 // bytes of a sealed message between hosts
)

// A migrationMessage is a request of one host to another, sealed with the key that they share. One of Offer, Import, Abort,
// Forward, Relay and Return is set, or none: then the message asks for the outcome of the migration.
type migrationMessage struct {
	Nonce     string // of this message, for its reply
	Migration string // identifier of the migration
	Session   string
	Offer     *migrationOffer
	Import    *sessionExport
	Abort     bool
	Forward   *callback.Forwarded
	Relay     *agentproto.Forwarded
	Return    *toolReturn
}

// A migrationOffer announces a session to the destination.
type migrationOffer struct {
	Toolsets []string // names in the manifests of the tool servers that have calls of the session, or state
}

// A migrationReply answers a migrationMessage.
type migrationReply struct {
	Refused string            // why not, in words for the user who migrates; empty if it was done
	Fate    string            // of the migration at the destination: fateNone, fateImported or fateAborted
	Ticket  string            // of an offer: what the import has to present
	Servers map[string]string // of an offer: the base URL of each toolset at the destination
	Answer  *callback.Answer  // of a forward
}

// The outcomes of a migration at its destination. The first recorded one counts.
const (
	fateNone     = ""
	fateImported = "imported"
	fateAborted  = "aborted"
)

// A refusedError is the refusal of a destination or a tool server.
type refusedError struct{ who, why string }

func (e *refusedError) Error() string { return e.who + " refused: " + e.why }

// tellHost sends a message to another host and returns its reply. Errors contain neither the message nor secrets.
func (mg *Migrator) tellHost(ctx context.Context, host string, m *migrationMessage) (*migrationReply, error) {
	m.Nonce = rand.Text()
	text, err := durable.CBOR().Append(nil, m)
	if err != nil {
		return nil, fmt.Errorf("encoding for %s: %w", quote.Text(host), err)
	}
	within := mg.Transfer
	if m.Return != nil {
		within += mg.Migrate
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	body := mg.envelope.Seal(text, "message", strings.TrimSuffix(host, "/"))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(host, "/")+Path, bytes.NewReader(body))
	if err != nil {
		return nil, edge.WithoutURL(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	mg.greet(req, strings.TrimSuffix(host, "/"))
	a, err := mg.Peers.Client.Do(req, maxMigration)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be reached: %w", quote.Text(host), err)
	case a.Status == http.StatusNotFound:
		return nil, &refusedError{who: quote.Text(host), why: "it takes no sessions: it has no migration key"}
	case a.Status == http.StatusForbidden:
		return nil, &refusedError{who: quote.Text(host), why: "it has another migration key or another public URL, or the clocks are more than 5 minutes apart"}
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("%s answered %d", quote.Text(host), a.Status)
	case a.Broken != nil:
		return nil, fmt.Errorf("%s broke off: %w", quote.Text(host), a.Broken)
	}
	text, err = mg.envelope.Open(a.Body, "reply", m.Nonce)
	if err != nil {
		return nil, fmt.Errorf("%s: what it answered is not its own: %w", quote.Text(host), err)
	}
	r := new(migrationReply)
	if err := durable.CBOR().Decode(text, r); err != nil {
		return nil, fmt.Errorf("%s: what it answered cannot be read: %w", quote.Text(host), err)
	}
	if r.Refused != "" {
		return r, &refusedError{who: quote.Text(host), why: r.Refused}
	}
	return r, nil
}

func (mg *Migrator) greet(req *http.Request, to string) {
	req.Header.Set(peer.GreetingHeader, base64.RawURLEncoding.EncodeToString(mg.envelope.Seal(nil, "greeting", to)))
}

func (mg *Migrator) knowsKey(r *http.Request) bool {
	greeting, err := base64.RawURLEncoding.DecodeString(r.Header.Get(peer.GreetingHeader))
	if err == nil {
		_, err = mg.envelope.Open(greeting, "greeting", mg.publicURL)
	}
	return err == nil
}

// ServeHTTP answers another host. A sender without the key learns only that a key exists.
func (mg *Migrator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if mg.envelope == nil || mg.Stopping() {
		callback.Refuse(w, http.StatusNotFound, "not found")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		callback.Refuse(w, http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	if !mg.knowsKey(r) { // before anything of the body is read
		mg.Peers.Count(nil, tally.Forged)
		mg.Log.Warn("message between hosts refused: its sender does not show that it has the key")
		w.Header().Set("Connection", "close")
		callback.Refuse(w, http.StatusForbidden, "forbidden")
		return
	}
	sealed, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMigration))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		callback.Refuse(w, http.StatusRequestEntityTooLarge, "the session is too large")
		return
	}
	if err != nil {
		callback.Refuse(w, http.StatusBadRequest, "broken off")
		return
	}
	text, err := mg.envelope.Open(sealed, "message", mg.publicURL)
	m := new(migrationMessage)
	if err == nil {
		err = durable.CBOR().Decode(text, m)
	}
	if err != nil {
		mg.Peers.Count(nil, tally.Forged)
		mg.Log.Warn("message between hosts refused", "error", err)
		callback.Refuse(w, http.StatusForbidden, "forbidden")
		return
	}
	if m.Return != nil {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(mg.Migrate + mg.Transfer)) // not all writers support deadlines
	}
	reply := mg.host(r.Context(), m)
	text, err = durable.CBOR().Append(nil, reply)
	if err != nil {
		mg.Log.Error("reply to a host cannot be encoded", "error", err)
		callback.Refuse(w, http.StatusInternalServerError, "the reply cannot be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(mg.envelope.Seal(text, "reply", m.Nonce))
}

// host does what another host asks for.
func (mg *Migrator) host(ctx context.Context, m *migrationMessage) *migrationReply {
	var reply *migrationReply
	var err error
	switch {
	case m.Offer != nil:
		reply, err = mg.offered(ctx, m)
	case m.Import != nil:
		reply, err = mg.arrive(ctx, m)
	case m.Abort:
		reply, err = mg.abort(ctx, m)
	case m.Forward != nil:
		reply = &migrationReply{Answer: mg.callbacks.TakeForwarded(ctx, m.Forward)}
	case m.Relay != nil:
		reply, err = &migrationReply{}, mg.relay(ctx, m.Relay)
	case m.Return != nil:
		reply, err = &migrationReply{}, mg.returnTool(ctx, m)
	default:
		reply, err = mg.became(ctx, m)
	}
	if err != nil {
		mg.Log.Warn("session not taken", "session", quote.Text(m.Session), "error", err)
		return &migrationReply{Refused: err.Error()}
	}
	return reply
}

func newEnvelope(key []byte) (*envelope.Envelope, error) {
	if key == nil {
		return nil, nil
	}
	e, err := envelope.New(key, Purpose)
	if err != nil {
		return nil, fmt.Errorf("host: MigrationKey: %w", err)
	}
	return e, nil
}
