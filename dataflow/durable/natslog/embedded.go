package natslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/millrace/millrace/dataflow/durable/internal/lockfile"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// An embedded is a server inside this process.
type embedded struct {
	server *server.Server
	lock   *os.File
	log    *serverLog
}

// full reports whether the server has given up writing, as it does on a full disk. Then it answers
// nothing until it is started again, and only its log says why.
func (e *embedded) full() bool { return e.log.full.Load() || !e.server.JetStreamEnabled() }

// maxPayload is the largest message of the embedded server. It is large so that a step rarely needs
// pieces: a message of 1 KiB costs as much as one of 16 KiB.
const maxPayload = 8 << 20

// startEmbedded starts a server on a directory and locks the directory for this process.
func startEmbedded(ctx context.Context, opts settings, logger *slog.Logger) (*embedded, error) {
	if opts.Existing {
		if err := existing(opts.Dir); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("natslog: %w", err)
	}
	path := filepath.Join(opts.Dir, "lock")
	lock, err := lockfile.Take(ctx, path)
	if errors.Is(err, lockfile.ErrTaken) {
		if opts.Existing {
			return nil, fmt.Errorf("natslog: %w: a process runs on %s (%s is locked): end it first, or look at a copy of the directory", journal.ErrInUse, opts.Dir, path)
		}
		return nil, fmt.Errorf("natslog: %w: another process or another log of this one has %s open (%s): end it, or give this one a directory of its own", journal.ErrInUse, opts.Dir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("natslog: %w", err)
	}
	e := &embedded{lock: lock, log: &serverLog{logger: logger.With("server", "embedded")}}
	e.server, err = server.NewServer(&server.Options{
		ServerName: "embedded", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: opts.Dir, SyncAlways: true, DisableJetStreamBanner: true,
		MaxPayload: maxPayload,
	})
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("natslog: the embedded server: %w", err)
	}
	e.server.SetLoggerV2(e.log, false, false, false)
	e.server.Start()
	if !e.server.ReadyForConnections(time.Minute) || !e.server.JetStreamEnabled() {
		e.stop()
		return nil, fmt.Errorf("natslog: the embedded server in %s does not start; its log says why", opts.Dir)
	}
	return e, nil
}

// existing returns an error if no server has ever stored anything in a directory.
func existing(dir string) error {
	switch info, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w in %s: there is no such directory", journal.ErrMissing, dir)
	case err != nil:
		return fmt.Errorf("natslog: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%w in %s: it is not a directory", journal.ErrMissing, dir)
	}
	switch _, err := os.ReadDir(filepath.Join(dir, "jetstream")); {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w in %s: nothing was ever kept there", journal.ErrMissing, dir)
	case err != nil:
		return fmt.Errorf("natslog: %w", err)
	}
	return nil
}

// stop ends the server and releases the directory.
func (e *embedded) stop() error {
	e.server.Shutdown()
	e.server.WaitForShutdown()
	return e.lock.Close()
}

// A serverLog passes the log of the server to a slog.Logger. It logs the server's notices at the
// debug level, because a user of a durable flow does not need them.
type serverLog struct {
	logger *slog.Logger
	full   atomic.Bool // the server has logged that its disk is full
}

func (s *serverLog) Noticef(format string, v ...any) { s.logger.Debug(logText(format, v)) }
func (s *serverLog) Debugf(format string, v ...any)  { s.logger.Debug(logText(format, v)) }
func (s *serverLog) Tracef(format string, v ...any)  { s.logger.Debug(logText(format, v)) }
func (s *serverLog) Warnf(format string, v ...any)   { s.log(slog.LevelWarn, format, v) }
func (s *serverLog) Errorf(format string, v ...any)  { s.log(slog.LevelError, format, v) }
func (s *serverLog) Fatalf(format string, v ...any)  { s.log(slog.LevelError, format, v) }

func (s *serverLog) log(level slog.Level, format string, v []any) {
	text := logText(format, v)
	if strings.Contains(text, "no space left on device") || strings.Contains(text, "out of resources") {
		s.full.Store(true)
	}
	s.logger.Log(context.Background(), level, text)
}

func logText(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }
