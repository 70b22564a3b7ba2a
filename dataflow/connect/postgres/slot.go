package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// A Slot is a replication slot: the server keeps for it everything that was committed to the tables of a publication until a flow
// has it. Only one flow reads a slot.
type Slot struct {
	Database Database

	// Name is the name of the slot, of lower-case letters, digits and underscores. The slot is created when it is first read,
	// together with a row in the table of [SlotsTable].
	Name string

	// Publication is the name of a publication, which CREATE PUBLICATION creates.
	Publication string

	// Snapshot first returns the rows that the tables contain when the slot is created, as changes with the Op [Snapshot]. If
	// that is interrupted, or [Renew] creates the slot again, another split returns the rows of each table from the beginning,
	// after a [Truncate] of the table, since rows may have been deleted in between.
	Snapshot bool

	// TakeOver ends the session of another reader when the slot is opened. Otherwise a new reader waits until that session has
	// ended. If the other machine is gone, the server notices that after wal_sender_timeout.
	TakeOver bool
}

// SlotsTable creates the table in which readers record the creation of each slot, in the slot's database. [Setup] runs it.
const SlotsTable = `create table if not exists millrace_slots (
	slot text primary key,
	incarnation bigint not null,
	state text not null,
	start pg_lsn
)`

// The states of a slot in its table.
const (
	slotNew     = "new"     // there is no slot
	slotMade    = "made"    // the slot may exist, and its snapshot was not read to the end
	slotReading = "reading" // the slot exists, and is read from start on
)

// ErrSkip is returned by a function that decodes changes, to skip a change.
var ErrSkip = errors.New("postgres: the change is left out")

// Changes returns a reader of all changes in the order of their commits, for [connect.Whole].
func Changes(s Slot) connect.Reader[struct{}, Change] {
	return Decoded(s, func(c Change) (struct{}, Change, error) { return struct{}{}, c, nil })
}

// Decoded returns a reader of the decoded changes, in the order of their commits. It is for [connect.Whole] or [connect.ByKey]: a
// slot is one split, so all changes of a key are in one split. If decode returns [ErrSkip], the change is skipped. After any
// other error, or a panic, it is a [connect.Poison].
func Decoded[K comparable, V any](s Slot, decode func(Change) (K, V, error)) connect.Reader[K, V] {
	if s.Name == "" || s.Publication == "" || decode == nil {
		panic(fmt.Sprintf("postgres: Decoded: slot %q, publication %q and the function are all needed", s.Name, s.Publication))
	}
	return &slotReader[K, V]{slot: s, decode: decode}
}

type slotReader[K comparable, V any] struct {
	private
	slot   Slot
	decode func(Change) (K, V, error)
}

func (r *slotReader[K, V]) Close() error { return nil }

// Splits returns the one split of the slot, in its latest incarnation.
func (r *slotReader[K, V]) Splits(ctx context.Context) (splits []connect.Split, err error) {
	err = r.slot.session(ctx, func(c *pgx.Conn) error {
		// A slot that somebody else has created is read from its current position.
		if _, err := c.Exec(ctx, `insert into millrace_slots
			select $1, 1, case when s.slot_name is null then $2 else $3 end, s.confirmed_flush_lsn
			from (values ($1::text)) as x(name) left join pg_replication_slots s on s.slot_name = x.name
			on conflict do nothing`, r.slot.Name, slotNew, slotReading); err != nil {
			return err
		}
		var system string
		var incarnation int64
		if err := c.QueryRow(ctx, "select (select system_identifier::text from pg_control_system()), incarnation from millrace_slots where slot = $1",
			r.slot.Name).Scan(&system, &incarnation); err != nil {
			return err
		}
		splits = []connect.Split{{ID: fmt.Sprintf("pg/%s/%s/%d", system, r.slot.Name, incarnation), Name: r.slot.Name}}
		return nil
	})
	return splits, err
}

// session runs statements on a new connection.
func (s Slot) session(ctx context.Context, run func(*pgx.Conn) error) error {
	c, hidden, err := s.Database.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	err = run(c)
	if code(err) == undefinedTable && strings.Contains(err.Error(), "millrace_slots") {
		err = fmt.Errorf("there is no table millrace_slots: run postgres.Setup: %w", err)
	}
	return s.error(hidden.hide(err), c.IsClosed())
}

func (s Slot) error(err error, closed bool) error {
	if err == nil {
		return nil
	}
	return passing(fmt.Errorf("postgres: slot %q: %w", s.Name, err), closed)
}

// A slotState is the server's information about a slot.
type slotState struct {
	incarnation              int64
	state                    string
	start, confirmed, behind *uint64 // nil if there is no such position
	exists, lost, ours       bool
	active                   int32
	timeout                  time.Duration // wal_sender_timeout, zero for none
}

func (s Slot) look(ctx context.Context, c *pgx.Conn) (x slotState, err error) {
	var start, confirmed, flushed *string
	var ms int64
	err = c.QueryRow(ctx, `select m.incarnation, m.state, m.start::text, s.confirmed_flush_lsn::text, pg_current_wal_flush_lsn()::text,
			s.slot_name is not null, coalesce(s.wal_status = 'lost', false), coalesce(s.plugin = 'pgoutput' and s.database = current_database(), false),
			coalesce(s.active_pid, 0), (select setting::bigint from pg_settings where name = 'wal_sender_timeout')
		from millrace_slots m left join pg_replication_slots s on s.slot_name = m.slot where m.slot = $1`, s.Name).
		Scan(&x.incarnation, &x.state, &start, &confirmed, &flushed, &x.exists, &x.lost, &x.ours, &x.active, &ms)
	if err != nil {
		return x, err
	}
	x.timeout = time.Duration(ms) * time.Millisecond
	for _, p := range []struct {
		text *string
		to   **uint64
	}{{start, &x.start}, {confirmed, &x.confirmed}, {flushed, &x.behind}} {
		if p.text != nil {
			n, err := parseLSN(*p.text)
			if err != nil {
				return x, err
			}
			*p.to = &n
		}
	}
	return x, nil
}

// begins returns where reading continues after a position, or a [connect.ErrGap] error.
func (x slotState) begins(after dataflow.Position) (uint64, error) {
	switch {
	case !x.exists:
		return 0, fmt.Errorf("the slot was dropped, and with it what was committed since; Renew makes another one: %w", connect.ErrGap)
	case !x.ours:
		return 0, errors.New("the slot is of another database or plugin")
	case x.lost:
		return 0, fmt.Errorf("the server has removed what the slot needs, because it was more than max_slot_wal_keep_size; Renew makes another one: %w", connect.ErrGap)
	}
	from := after.Major
	if after == (dataflow.Position{}) && x.start != nil {
		from = *x.start
	}
	if x.confirmed != nil && *x.confirmed > from {
		// Without this error, the server would silently start at its confirmed position.
		return 0, fmt.Errorf("the slot was confirmed up to %s by somebody else, and the flow has what is up to %s; Renew makes another one: %w", formatLSN(*x.confirmed), formatLSN(from), connect.ErrGap)
	}
	if x.behind != nil && *x.behind < from {
		return 0, fmt.Errorf("the flow has what is up to %s, and the server ends at %s, as after a restore; Renew makes another slot: %w", formatLSN(from), formatLSN(*x.behind), connect.ErrGap)
	}
	return from, nil
}

// Renew drops a slot, which must not be in use. It is created again when it is read next, with a snapshot if the slot wants one.
// What was committed in between is in the snapshot, or is not read. An operator calls Renew after a [connect.ErrGap].
func Renew(ctx context.Context, s Slot) error {
	return s.session(ctx, func(c *pgx.Conn) error {
		x, err := s.look(ctx, c)
		if err != nil {
			return err
		}
		return s.renew(ctx, c, x)
	})
}

func (s Slot) renew(ctx context.Context, c *pgx.Conn, x slotState) error {
	// Change the incarnation first: everything read from the slot from now on belongs to another split.
	tag, err := c.Exec(ctx, "update millrace_slots set incarnation = incarnation + 1, state = $3, start = null where slot = $1 and incarnation = $2", s.Name, x.incarnation, slotNew)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	return s.drop(ctx, c)
}

// drop drops the slot if it exists.
func (s Slot) drop(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1", s.Name)
	return err
}

// incarnationOf returns the last part of a split's ID.
func incarnationOf(s connect.Split) (int64, error) {
	i := strings.LastIndexByte(s.ID, '/')
	return strconv.ParseInt(s.ID[i+1:], 10, 64)
}

// parseLSN parses a position of the server's log.
func parseLSN(s string) (uint64, error) {
	high, low, ok := strings.Cut(s, "/")
	h, err1 := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%q is no position of a log", s)
	}
	return h<<32 | l, nil
}

// formatLSN formats a position of the server's log as the server does.
func formatLSN(p uint64) string { return fmt.Sprintf("%X/%X", p>>32, uint32(p)) }
