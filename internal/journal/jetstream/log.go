package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/internal/journal"
)

// A Log is a journal.Log on JetStream. See the package comment for what it promises.
type Log struct {
	opts       Options
	partitions int
	maxMessage int // bytes that fit into one message beside its headers
	maxInline  int // bytes of a step or snapshot that is kept in one message

	nc       *nats.Conn
	js       jetstream.JetStream
	embedded *embedded // nil if the log is on a cluster
	logger   *slog.Logger
	counters counters

	id        string // of this handle, the beginning of each message id
	messages  atomic.Uint64
	appenders []appender

	ctx     context.Context // ends with the log
	end     context.CancelCauseFunc
	closing sync.Once

	mu        sync.Mutex
	connected context.Context // ends with the connection
	lost      context.CancelFunc
}

var _ journal.Log = (*Log)(nil)

// Open opens the log that opts name, and creates it if it is not there. It waits for
// servers that cannot be reached for as long as ctx lasts, and returns an error at once
// for what waiting cannot change: a directory that another process has, a server that is
// too old or does not sync, another number of partitions.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts, err := opts.completed()
	if err != nil {
		return nil, err
	}
	l := &Log{opts: opts, logger: opts.Logger.With("journal", opts.Name), id: rand.Text()[:16]}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.connected, l.lost = context.WithCancel(l.ctx)
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) open(ctx context.Context) (err error) {
	if l.opts.Dir != "" {
		if l.embedded, err = startEmbedded(l.opts, l.logger); err != nil {
			return err
		}
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	if l.embedded == nil {
		if err := l.checkServers(ctx); err != nil {
			return err
		}
	}
	if err := l.ensureStreams(ctx); err != nil {
		return err
	}
	l.maxMessage = int(l.nc.MaxPayload()) - headerRoom
	l.maxInline = l.maxMessage*3/4 - headerRoom
	l.appenders = make([]appender, l.partitions)
	for p := range l.appenders {
		l.appenders[p].log, l.appenders[p].partition = l, p
	}
	return nil
}

// headerRoom is more than the headers of any message here.
const headerRoom = 1 << 10

// connect makes the connection. It never gives up a connection that it once had, and it
// buffers nothing while there is none: what is sent then fails at once, so that nobody
// has to wonder whether it was sent.
func (l *Log) connect(ctx context.Context) error {
	opts := []nats.Option{
		nats.Name("millrace " + l.opts.Name),
		nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.Timeout(2 * time.Second), nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.disconnected(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { l.logger.Info("connected again", "server", nc.ConnectedServerName()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.logger.Warn("connection", "error", err) }),
	}
	servers := strings.Join(l.opts.Servers, ",")
	if l.embedded != nil {
		opts = append(opts, nats.InProcessServer(l.embedded.server))
	} else if l.opts.Credentials != "" {
		opts = append(opts, nats.UserCredentials(l.opts.Credentials))
	}
	return l.persist(ctx, "reach "+l.where(), func(context.Context) (err error) {
		l.nc, err = nats.Connect(servers, opts...)
		if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) {
			return final{fmt.Errorf("journal: %s does not let us in: %w; check the user in Servers or the file Credentials", l.where(), err)}
		}
		if err != nil {
			return err
		}
		l.js, err = jetstream.New(l.nc)
		return err
	})
}

// disconnected lets everything that waits for an answer over the old connection know
// that there will be none.
func (l *Log) disconnected(err error) {
	l.mu.Lock()
	l.lost()
	l.connected, l.lost = context.WithCancel(l.ctx)
	l.mu.Unlock()
	if l.ctx.Err() == nil {
		l.logger.Warn("the connection was lost, connecting again", "error", err)
	}
}

// connection returns a context that ends with the connection there is now.
func (l *Log) connection() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connected
}

// where names the servers for messages to people. Addresses may have passwords in them.
func (l *Log) where() string {
	if l.opts.Dir != "" {
		return "the embedded server in " + l.opts.Dir
	}
	names := make([]string, len(l.opts.Servers))
	for i, s := range l.opts.Servers {
		if at := strings.LastIndexByte(s, '@'); at >= 0 {
			s = s[at+1:]
		}
		names[i] = strings.TrimPrefix(s, "nats://")
	}
	return strings.Join(names, ", ")
}

// final marks an error that persist does not try to outlast.
type final struct{ error }

// persist calls do until it succeeds, fails for good or ctx ends. What it calls may be
// repeated, so the first attempts are short: servers that have no leader do not answer.
//
// An embedded server has nobody to wait for. When it refuses 20 times, or has not answered
// for two minutes, which is more than a busy machine takes, its files are damaged.
func (l *Log) persist(ctx context.Context, what string, do func(context.Context) error) error {
	begun := time.Now()
	for try := 0; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, min(time.Second<<min(try, 3), answerWithin))
		err := do(attempt)
		cancel()
		var stop final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &stop):
			return stop.error
		case l.ctx.Err() != nil:
			return journal.ErrClosed
		case ctx.Err() != nil:
			return unreachable(ctx, what, err)
		}
		if try >= 20 && l.embedded != nil && (!errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*time.Minute) {
			return l.damaged("could not %s in %d attempts: %v", what, try, err)
		}
		if try == 20 {
			l.logger.Warn("still trying to "+what, "error", err)
		}
		if err := l.pause(ctx, try); err != nil {
			return unreachable(ctx, what, err)
		}
	}
}

// unreachable is the error of something that was tried until the context ended.
func unreachable(ctx context.Context, what string, last error) error {
	if last == nil || errors.Is(last, context.Cause(ctx)) {
		return fmt.Errorf("journal: could not %s: %w; check that the servers run, agree on a leader and can be reached from here", what, context.Cause(ctx))
	}
	return fmt.Errorf("journal: could not %s: %w (%w); check that the servers run, agree on a leader and can be reached from here", what, context.Cause(ctx), last)
}

// pause waits a little longer each time, from 5 ms to 250 ms.
func (l *Log) pause(ctx context.Context, try int) error {
	timer := time.NewTimer(min(5*time.Millisecond<<min(try, 6), 250*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.ctx.Done():
		return journal.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Partitions returns how many there are.
func (l *Log) Partitions() int { return l.partitions }

// Conn returns the connection, for those who keep membership beside the journal. It is
// closed with the log.
func (l *Log) Conn() *nats.Conn { return l.nc }

// Close ends the log, and the embedded server after everything that it has acknowledged
// is on disk. What waits gets journal.ErrClosed.
func (l *Log) Close() error {
	var err error
	l.closing.Do(func() {
		l.end(journal.ErrClosed)
		if l.nc != nil {
			l.nc.Close()
		}
		if l.embedded != nil {
			err = l.embedded.stop()
		}
	})
	return err
}

// in and st are the names of the two streams.
func (l *Log) in() string { return "IN_" + l.opts.Name }
func (l *Log) st() string { return "ST_" + l.opts.Name }

// subject returns the subject of a kind for a partition.
func (l *Log) subject(kind string, partition int) string {
	return fmt.Sprintf("%s.%s.%d", l.opts.Name, kind, partition)
}

// ready returns why an operation on a partition cannot even begin.
func (l *Log) ready(ctx context.Context, partition int) error {
	if l.ctx.Err() != nil {
		return journal.ErrClosed
	}
	if partition < 0 || partition >= l.partitions {
		return fmt.Errorf("journal: there is no partition %d, only %d of them", partition, l.partitions)
	}
	return context.Cause(ctx)
}
