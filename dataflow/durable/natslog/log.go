package natslog

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// refused returns an error if err says that the servers reject us, or are not the intended ones.
// Waiting does not change that. For other errors it returns nil.
func refused(where string, err error) error {
	var wrong *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		return fmt.Errorf("natslog: %s does not let us in: %w; check the user in the URLs, or the credentials or key in the options NATS", where, err)
	case errors.As(err, &wrong):
		return fmt.Errorf("natslog: %s has a certificate that is not trusted here: %w; give its authority with nats.RootCAs", where, err)
	case errors.As(err, &alert):
		return fmt.Errorf("natslog: %s refuses the secure connection: %w; check the certificate given with nats.ClientCert", where, err)
	case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrSecureConnRequired):
		return fmt.Errorf("natslog: %s: %w; use the same kind of connection on both sides", where, err)
	}
	return nil
}

// A Log is a journal.Log on JetStream. The package comment describes its guarantees.
type Log struct {
	opts       settings
	partitions int
	identity   journal.Identity
	maxMessage int // bytes that fit into one message besides its headers
	maxInline  int // largest step or snapshot that is kept in one message, in bytes

	nc       *nats.Conn
	js       jetstream.JetStream
	embedded *embedded // nil if the log is on a cluster
	logger   *slog.Logger
	counters counters
	slow     atomic.Int64 // how long recent answers took, in nanoseconds; it falls slowly

	id        string // of this handle; each message id starts with it
	messages  atomic.Uint64
	appenders []appender

	records, steps stream

	ctx     context.Context // ends with the log
	end     context.CancelCauseFunc
	closing sync.Once

	mu          sync.Mutex
	recognizing bool
	connected   context.Context // ends with the connection
	lost        context.CancelFunc
}

var _ journal.Log = (*Log)(nil)

// open opens the log that opts describe, and creates it if it does not exist. It waits for servers
// that cannot be reached for as long as ctx lasts. It returns an error at once if waiting cannot
// help: another process has the directory open, a server is too old or does not sync, the number of
// partitions differs, a password or certificate is wrong.
func open(ctx context.Context, opts settings) (*Log, error) {
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
		if l.embedded, err = startEmbedded(ctx, l.opts, l.logger); err != nil {
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

// headerRoom is more than the headers of any message of this package.
const headerRoom = 1 << 10

// connect makes the connection. If the connection is lost later, it is made again until the log is closed. While it is
// down, nothing is buffered: a send fails at once, so it is always known that the message was not sent.
func (l *Log) connect(ctx context.Context) error {
	opts := append(slices.Clone(l.opts.NATS),
		nats.Name("millrace "+l.opts.Name),
		nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.Timeout(2*time.Second), nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.disconnected(err) }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			l.logger.Info("connected again", "server", nc.ConnectedServerName())
			go l.recognize()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.logger.Warn("connection", "error", err) }),
	)
	servers := strings.Join(l.opts.URLs, ",")
	if l.embedded != nil {
		opts = append(opts, nats.InProcessServer(l.embedded.server))
	}
	closed := 0
	return l.persist(ctx, "reach "+l.where(), func(context.Context) (err error) {
		l.nc, err = nats.Connect(servers, opts...)
		if err := refused(l.where(), err); err != nil {
			return final{err}
		}
		// A server that does not accept our certificate says so after the handshake, or only closes
		// the connection. A server that has just died does the same.
		if errors.Is(err, nats.ErrTLS) {
			if closed++; closed == 5 {
				return final{fmt.Errorf("natslog: %s closes secure connections: %w; check the certificate given with nats.ClientCert", l.where(), err)}
			}
		}
		if err != nil {
			return err
		}
		l.js, err = jetstream.New(l.nc)
		return err
	})
}

// disconnected tells everything that waits for an answer over the old
// connection that none will arrive.
func (l *Log) disconnected(err error) {
	l.mu.Lock()
	l.lost()
	l.connected, l.lost = context.WithCancel(l.ctx)
	l.mu.Unlock()
	if l.ctx.Err() == nil {
		l.logger.Warn("the connection was lost, connecting again", "error", err)
	}
}

// connection returns a context that ends with the current connection.
func (l *Log) connection() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connected
}

func (l *Log) where() string { return l.opts.where() }

// final marks an error after which persist does not retry.
type final struct{ error }

// persist calls do until it succeeds, fails for good or ctx ends. Do may be repeated, so the first
// attempts are short: servers without a leader do not answer. Later ones are long enough for the
// largest message on a slow connection.
//
// An embedded server depends on no other server. When it refuses 20 times, or has not answered for
// two minutes, which is longer than a busy machine takes, its files are damaged.
func (l *Log) persist(ctx context.Context, what string, do func(context.Context) error) error {
	begun := time.Now()
	for try := 0; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, l.patience(try))
		err := do(attempt)
		cancel()
		var stop final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &stop):
			return stop.error
		case l.ctx.Err() != nil:
			return context.Cause(l.ctx)
		case ctx.Err() != nil:
			return unreachable(ctx, what, err)
		}
		silent := errors.Is(err, context.DeadlineExceeded)
		if l.embedded != nil && (try >= 20 && !silent || silent && time.Since(begun) > 2*time.Minute) {
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

// within returns how long one answer may take in an attempt of persist that as a whole may take
// longer.
func within(attempt context.Context) time.Duration {
	end, _ := attempt.Deadline()
	return max(time.Until(end), answerWithin)
}

// unreachable returns the error of an operation that was tried until the context ended.
func unreachable(ctx context.Context, what string, last error) error {
	if last == nil || errors.Is(last, context.Cause(ctx)) {
		return fmt.Errorf("natslog: could not %s: %w; check that the servers run, agree on a leader and can be reached from here", what, context.Cause(ctx))
	}
	return fmt.Errorf("natslog: could not %s: %w (%w); check that the servers run, agree on a leader and can be reached from here", what, context.Cause(ctx), last)
}

// pause waits between two attempts, a little longer each time, from 5 ms to 250 ms.
func (l *Log) pause(ctx context.Context, try int) error {
	timer := time.NewTimer(min(5*time.Millisecond<<min(try, 6), 250*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Identity returns the identity that both streams carry.
func (l *Log) Identity() journal.Identity { return l.identity }

// Partitions returns the number of partitions.
func (l *Log) Partitions() int { return l.partitions }

// Close closes the log. It stops the embedded server after everything acknowledged is on disk.
// Calls that wait return journal.ErrClosed.
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

// ready returns the reason why an operation on a partition cannot start.
func (l *Log) ready(ctx context.Context, partition int) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if partition < 0 || partition >= l.partitions {
		return fmt.Errorf("natslog: there is no partition %d, only %d of them", partition, l.partitions)
	}
	return context.Cause(ctx)
}
