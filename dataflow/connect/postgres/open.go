package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// readBuffer is how many bytes are read from a connection at once.
const readBuffer = 256 << 10

// A stream is a connection that uses the replication protocol.
type stream struct {
	private
	*pgconn.PgConn
	buffered func() int // bytes that can be read without waiting, in addition to those of the frontend
	hidden   secrets
}

// replication opens a connection for the replication protocol.
func (d Database) replication(ctx context.Context) (*stream, error) {
	config, hidden, err := d.config(ctx)
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	s := &stream{hidden: hidden}
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		b := bufio.NewReaderSize(r, readBuffer)
		s.buffered = b.Buffered
		return pgproto3.NewFrontend(b, w)
	}
	if s.PgConn, err = pgconn.ConnectConfig(ctx, &config.Config); err != nil {
		return nil, passing(hidden.hide(fmt.Errorf("postgres: connect for replication: %w", err)), true)
	}
	return s, nil
}

// Open returns a cursor over the changes after a position. It creates the
// slot if there is none yet.
func (r *slotReader[K, V]) Open(ctx context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[K, V], error) {
	incarnation, err := incarnationOf(s)
	if err != nil {
		return nil, fmt.Errorf("postgres: slot %q: split %q: %w", r.slot.Name, s.ID, err)
	}
	c := &cursor[K, V]{slot: r.slot, split: s, decode: r.decode, after: after, incarnation: incarnation}
	var x slotState
	err = r.slot.session(ctx, func(sql *pgx.Conn) (err error) {
		if x, err = r.slot.look(ctx, sql); err != nil {
			return err
		}
		if x.incarnation != incarnation {
			return errEnded
		}
		if x.state == slotMade && x.start != nil && after.Major >= *x.start {
			x.state = slotReading // the snapshot is in the flow
			return r.slot.reads(ctx, sql, incarnation)
		}
		if x.state == slotMade { // the snapshot is not in the flow, and its rest cannot be read
			if x.active != 0 && !r.slot.TakeOver {
				return connect.Retry(fmt.Errorf("the slot is in use by process %d", x.active))
			}
			if err := r.slot.terminate(ctx, sql); err != nil {
				return err
			}
			return errors.Join(r.slot.renew(ctx, sql, x), errEnded)
		}
		if x.state == slotNew && after != (dataflow.Position{}) {
			return fmt.Errorf("there is no slot, and the flow has what is up to %s; Renew makes another one: %w", formatLSN(after.Major), connect.ErrGap)
		}
		if x.state == slotNew {
			if err := r.slot.check(ctx, sql); err != nil {
				return err
			}
			tag, err := sql.Exec(ctx, "update millrace_slots set state = $3 where slot = $1 and incarnation = $2 and state = $4", r.slot.Name, incarnation, slotMade, slotNew)
			if err == nil && tag.RowsAffected() == 0 {
				err = connect.Retry(errors.New("another reader makes the slot"))
			}
			if err == nil {
				err = r.slot.drop(ctx, sql) // what Renew may have left
			}
			return err
		}
		c.start, err = x.begins(after)
		return err
	})
	if errors.Is(err, errEnded) {
		return ended[K, V]{}, nil
	}
	if err != nil {
		return nil, err
	}
	c.timeout, c.reading = x.timeout, x.state == slotReading
	if c.stream, err = r.slot.Database.replication(ctx); err != nil {
		return nil, err
	}
	if x.state == slotNew {
		err = c.create(ctx)
	} else {
		err = c.replicate(ctx)
	}
	if err != nil {
		c.stream.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return c, nil
}

// errEnded says that another split has replaced this one.
var errEnded = errors.New("the slot was made again")

// An ended is the cursor of a split that another one has replaced.
type ended[K comparable, V any] struct{}

func (ended[K, V]) Next(context.Context, *connect.Batch[K, V]) error { return io.EOF }
func (ended[K, V]) Confirm(context.Context, dataflow.Position) error { return nil }
func (ended[K, V]) Close() error                                     { return nil }

// reads records in the table that the slot's snapshot is in the flow.
func (s Slot) reads(ctx context.Context, c *pgx.Conn, incarnation int64) error {
	_, err := c.Exec(ctx, "update millrace_slots set state = $3 where slot = $1 and incarnation = $2", s.Name, incarnation, slotReading)
	return err
}

// terminate ends the session that reads the slot.
func (s Slot) terminate(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "select pg_terminate_backend(active_pid, 5000) from pg_replication_slots where slot_name = $1 and active", s.Name)
	return err
}

// create creates the slot, and with it the snapshot of the earlier data.
func (c *cursor[K, V]) create(ctx context.Context) error {
	export := "NOEXPORT_SNAPSHOT"
	if c.slot.Snapshot {
		export = "EXPORT_SNAPSHOT"
	}
	results, err := c.stream.Exec(ctx, fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput %s", quoted(c.slot.Name), export)).ReadAll()
	if err == nil && (len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 3) {
		err = errors.New("the server does not say where the slot begins")
	}
	if err != nil {
		return c.error(err)
	}
	row := results[0].Rows[0]
	if c.start, err = parseLSN(string(row[1])); err != nil {
		return c.error(err)
	}
	state := slotReading
	if c.slot.Snapshot {
		state = slotMade
	}
	c.reading = !c.slot.Snapshot
	err = c.slot.session(ctx, func(sql *pgx.Conn) error {
		_, err := sql.Exec(ctx, "update millrace_slots set state = $3, start = $4::text::pg_lsn where slot = $1 and incarnation = $2", c.slot.Name, c.incarnation, state, string(row[1]))
		return err
	})
	if err != nil {
		return err
	}
	if c.slot.Snapshot {
		c.copying, err = openSnapshot(ctx, c.slot, string(row[2]), c.incarnation > 1)
		return err
	}
	return c.replicate(ctx)
}

// replicate starts to read the slot.
func (c *cursor[K, V]) replicate(ctx context.Context) error {
	c.decoder.end, c.flushed = c.start, c.start
	if c.after.Minor != 0 {
		c.flushed = 0 // it is in the middle of a transaction, which the server must send as a whole
	}
	query := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names '%s'",
		quoted(c.slot.Name), formatLSN(c.start), strings.ReplaceAll(quoted(c.slot.Publication), "'", "''"))
	if major, _ := strconv.Atoi(strings.SplitN(c.stream.ParameterStatus("server_version"), ".", 2)[0]); major >= 14 {
		query += ", messages 'true'"
	}
	query += ")"
	for {
		err := c.stream.start(ctx, query)
		if code(err) != objectInUse {
			if err == nil {
				err = c.hijack()
			}
			return c.error(err)
		}
		if !c.slot.TakeOver {
			return connect.Retry(c.error(err))
		}
		if err := c.slot.session(ctx, func(sql *pgx.Conn) error { return c.slot.terminate(ctx, sql) }); err != nil {
			return err
		}
	}
}

// start runs a command whose answer is the stream.
func (s *stream) start(ctx context.Context, query string) error {
	s.Frontend().SendQuery(&pgproto3.Query{String: query})
	if err := s.Frontend().Flush(); err != nil {
		return err
	}
	var failed error
	for {
		m, err := s.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(m)
		case *pgproto3.ReadyForQuery:
			return failed
		}
	}
}
