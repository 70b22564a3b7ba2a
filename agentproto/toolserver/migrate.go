package toolserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/internal/netguard"
)

// A Migrator moves what a tool keeps of a session, such as a working directory or
// an open document, from one instance of the server to another (doc/protocol.md §10.1).
// A session is named by its root thread, as in [agentproto.Invocation]. That name
// comes from outside and has up to 1024 bytes of any kind, so it must not become a
// path.
//
// The server itself moves the calls of the session: the ones that are not finished,
// their messages that are not delivered, open subscriptions with their state, and the
// keys of finished ones. It does not move tokens; see [Options.Vault].
//
// A Migrator that has a method Remove(ctx, session) error is told with it to forget
// a session: at the source when the runtime has closed the thread of that name, and
// at the destination when a migration was given up. An error is logged.
type Migrator interface {
	// Export returns the state of a session, or nil if there is none. While it runs,
	// no function and no producer of the session does, and none begins. The session
	// goes on here if the migration fails later, so Export must not change it. Errors
	// are logged and not shown to the runtime.
	Export(ctx context.Context, session string) ([]byte, error)
	// Import puts the state that Export has returned in the place of whatever is
	// there of the session. It may be called again with the same state, or with a
	// newer one of a later attempt. No function of the session runs here before it
	// has returned.
	Import(ctx context.Context, session string, state []byte) error
}

// OwnState is a [Migrator] for tools that keep nothing of a session: only calls and
// subscriptions move.
type OwnState struct{}

// Export returns nil.
func (OwnState) Export(context.Context, string) ([]byte, error) { return nil, nil }

// Import does nothing.
func (OwnState) Import(context.Context, string, []byte) error { return nil }

// A remover is a Migrator with the optional method.
type remover interface {
	Remove(ctx context.Context, session string) error
}

// A migrationError is told to the runtime. Its words are fixed: they hold nothing
// that a peer, or a Migrator, has said.
type migrationError struct {
	status int
	text   string
}

func (e *migrationError) Error() string { return e.text }

var (
	errDestination  = &migrationError{http.StatusForbidden, "the destination is not allowed by this server"}
	errUnreachable  = &migrationError{http.StatusBadGateway, "the destination cannot be reached; nothing was moved"}
	errOtherToolset = &migrationError{http.StatusBadGateway, "the destination is not an instance of this toolset that takes sessions; nothing was moved"}
	errBusyMoving   = &migrationError{http.StatusConflict, "a migration of this session is going on"}
	errElsewhere    = &migrationError{http.StatusConflict, "the session has moved to another destination"}
	errRunning      = &migrationError{http.StatusServiceUnavailable, "a call of the session is still running and cannot be interrupted; nothing was moved"}
	errExport       = &migrationError{http.StatusInternalServerError, "the state of the session cannot be exported; nothing was moved"}
	errTooLarge     = &migrationError{http.StatusInsufficientStorage, "the state of the session is too large; nothing was moved"}
	errTransfer     = &migrationError{http.StatusBadGateway, "the destination did not take the session; nothing was moved"}
	errDoubt        = &migrationError{http.StatusServiceUnavailable, "the destination did not answer in the end; ask again: the session is on one of the two"}
	errRepeated     = &migrationError{http.StatusConflict, "this message came before; whoever asks again sends another one"}
	errMoveStore    = &migrationError{http.StatusInternalServerError, "the server's own state cannot be written; nothing was moved"}
)

// serveMigrate moves a session to another instance. It answers 200 when that one
// serves it, and otherwise says why not; the session then goes on here.
func (s *Server) serveMigrate(w http.ResponseWriter, r *http.Request) {
	runtime, data, ok := s.notification(w, r, purpose.Migrate)
	if !ok {
		return
	}
	msg, err := agentproto.DecodeMigrate(data, s.opts.Limits)
	if err != nil {
		refuse(w, err)
		return
	}
	s.extend(w)
	if !s.noticed.First(runtime, r) {
		// 200 says that the destination has the session, also to somebody who repeats it.
		if !s.movedTo(tools.Place{Runtime: runtime, Session: msg.SessionID}, msg.DestinationURL) {
			http.Error(w, errRepeated.text, errRepeated.status)
		}
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), s.opts.MigrationTimeout)
	defer stop()
	defer context.AfterFunc(s.ctx, stop)()
	err = s.migrate(ctx, tools.Place{Runtime: runtime, Session: msg.SessionID}, msg.DestinationURL)
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	var told *migrationError
	if !errors.As(err, &told) {
		told = errTransfer
	}
	s.log.Warn("session not migrated", "session", msg.SessionID, "error", err)
	if told.status == http.StatusServiceUnavailable || told.status == http.StatusConflict {
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	http.Error(w, told.text, told.status)
}

// destination returns the base URL of a destination, if sessions may go there.
func (o Options) destination(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", errDestination
	}
	base := strings.ToLower(origin(u)) + strings.TrimSuffix(u.EscapedPath(), "/")
	anyPort := strings.ToLower(u.Scheme+"://"+hostOf(u)) + ":*"
	if slices.Contains([]string{".", ".."}, u.Path[strings.LastIndexByte(u.Path, '/')+1:]) || strings.Contains(u.Path, "/../") || strings.Contains(u.Path, "/./") {
		return "", errDestination
	}
	for _, allowed := range o.MigrationDestinations {
		allowed = strings.TrimSuffix(allowed, "/")
		if base == allowed || strings.ToLower(origin(u)) == allowed || anyPort == allowed {
			if err := o.migrationNetworks().CheckURL(u); err != nil {
				return "", fmt.Errorf("%w: %w", errDestination, err)
			}
			return base, nil
		}
	}
	return "", errDestination
}

// hostOf returns the host of u without its port, in brackets if it needs them.
func hostOf(u *url.URL) string { return strings.TrimSuffix(u.Host, ":"+u.Port()) }

// migrationNetworks are those that a destination may be in: what an operator has
// written as an IP address may be anywhere.
func (o Options) migrationNetworks() netguard.Policy {
	p := o.networks().Trust(o.MigrationDestinations...)
	for _, d := range o.MigrationDestinations {
		if d, ok := strings.CutSuffix(d, ":*"); ok {
			if u, err := url.Parse(d); err == nil && isLoopback(u) {
				p.AllowLoopback = true
			}
		}
	}
	return p
}

// checkMigration panics if the options for migrations cannot work.
func (o Options) checkMigration(public *url.URL) {
	switch {
	case o.Migrator == nil:
		return
	case len(o.MigrationKey.Reveal()) < minMigrationKey:
		panic("toolserver: New: a Migrator needs a MigrationKey of 32 random bytes or more, which every instance has")
	case o.Authenticate == nil && !isLoopback(public):
		panic("toolserver: New: a Migrator needs Authenticate: whoever may call /migrate decides where sessions are")
	}
	for _, d := range o.MigrationDestinations {
		u, err := url.Parse(strings.TrimSuffix(d, ":*"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || d != strings.ToLower(u.Scheme+"://"+u.Host)+d[min(len(d), len(u.Scheme+"://"+u.Host)):] {
			panic("toolserver: New: MigrationDestinations: " + strconv.Quote(d) + " is not an origin or base URL, in lower case, such as https://tools-b.example.com or http://127.0.0.1:*")
		}
	}
}

const minMigrationKey = 32
