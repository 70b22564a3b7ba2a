package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/internal/envelope"
	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/agentproto/internal/running"
	"github.com/millrace/millrace/agentproto/internal/tools"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// The paths below the address of an instance: of its manifest, and of [Mover.ServeImport].
const (
	manifestPath = "/.well-known/rap-toolset"
	importPath   = "/migrate/import"
)

// A Tool moves the tools' own state of a session. It may also have a method Remove(ctx, session)
// error, which is called to forget a session.
type Tool interface {
	Export(ctx context.Context, session string) ([]byte, error)
	Import(ctx context.Context, session string, state []byte) error
}

type remover interface {
	Remove(ctx context.Context, session string) error
}

// Options are the settings of a [Mover].
type Options struct {
	Name, Endpoint string // of the manifest
	Flow           *running.Flow
	Log            *slog.Logger

	Tool         Tool         // nil if sessions do not move
	Key          string       // shared by all instances
	Client       *edge.Client // carries sessions
	Destinations []string     // where sessions may go
	Networks     netguard.Policy
	Timeout      time.Duration // of a move
	Bytes        int64         // of a session

	Closing func() bool     // whether the server accepts nothing new
	Spare   func() []string // returns the tools whose functions are never interrupted
}

// A Mover moves the sessions of one instance.
type Mover struct {
	o        Options
	ctx      context.Context
	envelope *envelope.Envelope // nil without a Tool
	deals    deals

	importing sync.Mutex // held to import one session at a time

	mu     sync.Mutex
	moving map[tools.Place]bool // sessions that are being moved
}

// New returns a mover. It abandons its work when ctx ends.
func New(ctx context.Context, o Options) *Mover {
	m := &Mover{o: o, ctx: ctx, moving: make(map[tools.Place]bool)}
	if o.Tool != nil {
		var err error
		if m.envelope, err = envelope.New([]byte(o.Key), migrationPurpose); err != nil {
			panic(err.Error()) // the key was checked before
		}
	}
	return m
}

// A moveError is sent to the runtime. Its text is fixed: it contains nothing from a peer or a
// Migrator.
type moveError struct {
	status int
	text   string
}

func (e *moveError) Error() string { return e.text }

var (
	errDestination  = &moveError{http.StatusForbidden, "the destination is not allowed by this server"}
	errUnreachable  = &moveError{http.StatusBadGateway, "the destination cannot be reached; nothing was moved"}
	errOtherToolset = &moveError{http.StatusBadGateway, "the destination is not an instance of this toolset that takes sessions; nothing was moved"}
	errBusyMoving   = &moveError{http.StatusConflict, "a migration of this session is going on"}
	errElsewhere    = &moveError{http.StatusConflict, "the session has moved to another destination"}
	errRunning      = &moveError{http.StatusServiceUnavailable, "a call of the session is still running and cannot be interrupted; nothing was moved"}
	errExport       = &moveError{http.StatusInternalServerError, "the state of the session cannot be exported; nothing was moved"}
	errTooLarge     = &moveError{http.StatusInsufficientStorage, "the state of the session is too large; nothing was moved"}
	errTransfer     = &moveError{http.StatusBadGateway, "the destination did not take the session; nothing was moved"}
	errDoubt        = &moveError{http.StatusServiceUnavailable, "the destination did not answer in the end; ask again: the session is on one of the two"}
	errRepeated     = &moveError{http.StatusConflict, "this message came before; whoever asks again sends another one"}
	errMoveStore    = &moveError{http.StatusInternalServerError, "the server's own state cannot be written; nothing was moved"}
)

// Serve answers a runtime that asks to move a session. It answers 200 once the destination serves
// the session, and otherwise says why not; the session then continues here. First says whether the
// message is the first with its id; a repetition has no effect.
func (m *Mover) Serve(w http.ResponseWriter, r *http.Request, at tools.Place, destination string, first bool) {
	m.extend(w)
	if !first {
		// 200 says that the destination has the session, which also holds for a repetition.
		if !m.movedTo(at, destination) {
			http.Error(w, errRepeated.text, errRepeated.status)
		}
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), m.o.Timeout)
	defer stop()
	defer context.AfterFunc(m.ctx, stop)()
	err := m.migrate(ctx, at, destination)
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	var told *moveError
	if !errors.As(err, &told) {
		told = errTransfer
	}
	m.o.Log.Warn("session not migrated", "session", at.Session, "error", err)
	if told.status == http.StatusServiceUnavailable || told.status == http.StatusConflict {
		w.Header().Set("Retry-After", retrySeconds)
	}
	http.Error(w, told.text, told.status)
}

// retrySeconds is the Retry-After in answers.
const retrySeconds = "2"

// extend replaces the read and write deadlines of the [http.Server] by the time that a migration
// may take. The answer may be written a little later.
func (m *Mover) extend(w http.ResponseWriter) {
	controller := http.NewResponseController(w)
	until := time.Now().Add(m.o.Timeout)
	controller.SetReadDeadline(until) // not all writers support it
	controller.SetWriteDeadline(until.Add(10 * time.Second))
}

// movedTo reports whether a session is served by the instance at a destination.
func (m *Mover) movedTo(at tools.Place, destination string) bool {
	base, err := m.destination(destination)
	if err != nil {
		return false
	}
	look, err := m.order(at, tools.MoveOrder{Do: tools.Look})
	return err == nil && look.Move.Place == handover.Gone && look.URL == base
}

// destination returns the base URL of a destination, or errDestination if sessions may not go
// there.
func (m *Mover) destination(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return "", errDestination
	}
	origin := strings.ToLower(u.Scheme + "://" + u.Host)
	base := origin + strings.TrimSuffix(u.EscapedPath(), "/")
	anyPort := strings.ToLower(u.Scheme+"://"+hostOf(u)) + ":*"
	if slices.Contains([]string{".", ".."}, u.Path[strings.LastIndexByte(u.Path, '/')+1:]) || strings.Contains(u.Path, "/../") || strings.Contains(u.Path, "/./") {
		return "", errDestination
	}
	for _, allowed := range m.o.Destinations {
		allowed = strings.TrimSuffix(allowed, "/")
		if base == allowed || origin == allowed || anyPort == allowed {
			if err := m.o.Networks.CheckURL(u); err != nil {
				return "", fmt.Errorf("%w: %w", errDestination, err)
			}
			return base, nil
		}
	}
	return "", errDestination
}

// hostOf returns the host of u without its port, in brackets if it needs them.
func hostOf(u *url.URL) string { return strings.TrimSuffix(u.Host, ":"+u.Port()) }
