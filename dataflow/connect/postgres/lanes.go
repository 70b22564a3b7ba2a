package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace/millrace/dataflow/connect"
)

// LanesTable creates the table in which sinks keep the number of the last element of each lane, in the same transactions as
// the data. Sinks find it in the search path of their connections. [Setup] runs it; a deployment may do so instead.
const LanesTable = `create table if not exists millrace_lanes (
	flow text not null,
	output text not null,
	partition integer not null,
	number bigint not null,
	epoch bigint not null,
	session integer not null,
	session_start timestamptz not null,
	primary key (flow, output, partition)
)`

// Setup creates the missing tables of sinks and slots. Several programs may call it at once.
func Setup(ctx context.Context, db Database) error {
	c, hidden, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	// If two statements create one table at once, both may find none, and one fails. The lock ends with the session.
	for _, sql := range []string{"select pg_advisory_lock(hashtext('millrace'))", LanesTable, SlotsTable} {
		if _, err := c.Exec(ctx, sql); err != nil {
			return hidden.hide(fmt.Errorf("postgres: Setup: %w", err))
		}
	}
	return nil
}

// patience is how long Open waits for a transaction of the previous writer. Such a transaction ends soon, unless its program
// was stopped in the middle of it.
const patience = 2 * time.Second

// A lane is the connection of one writer, with the epoch that makes it the only writer of the lane.
type lane struct {
	private
	connect.Lane
	conn   *pgx.Conn
	epoch  int64
	hidden secrets
}

// openLane shuts out the previous writer, and returns the number of the last element in the database.
func openLane(ctx context.Context, db Database, l connect.Lane) (*lane, uint64, error) {
	c, hidden, err := db.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	w := &lane{Lane: l, conn: c, hidden: hidden}
	last, err := w.takeOver(ctx)
	if err == nil && db.Connected != nil {
		err = db.Connected(ctx, c)
	}
	if err != nil {
		err = w.error(err)
		w.Close()
		return nil, 0, err
	}
	return w, uint64(last), nil
}

// session configures a session so that its commits are durable, and an update that waited for another transaction sees the
// writes of that transaction. A transaction that its program leaves open must not hold the lane's lock for ever.
const session = `select set_config('default_transaction_isolation', 'read committed', false),
	set_config('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end, false),
	set_config('idle_in_transaction_session_timeout', '60s', false)`

// takeOver raises the epoch of the lane. It waits for the lane's row, and so for a transaction of the previous writer.
func (w *lane) takeOver(ctx context.Context) (last int64, err error) {
	if _, err := w.conn.Exec(ctx, session); err != nil {
		return 0, err
	}
	if _, err := w.conn.Exec(ctx, "select set_config('lock_timeout', $1, false)", fmt.Sprint(patience.Milliseconds())); err != nil {
		return 0, err
	}
	for {
		err := w.conn.QueryRow(ctx, `insert into millrace_lanes as l
			select $1, $2, $3, 0, 1, pid, backend_start from pg_stat_activity where pid = pg_backend_pid()
			on conflict (flow, output, partition) do update
			set epoch = l.epoch + 1, session = excluded.session, session_start = excluded.session_start
			returning number, epoch`, w.Flow, w.Output, w.Partition).Scan(&last, &w.epoch)
		if err == nil {
			break
		}
		if code(err) == undefinedTable {
			return 0, fmt.Errorf("there is no table millrace_lanes: run postgres.Setup: %w", err)
		}
		if code(err) != lockNotAvailable {
			return 0, err
		}
		// The previous writer is in the middle of a transaction, and its program may have been stopped there.
		if _, err := w.conn.Exec(ctx, `select pg_terminate_backend(a.pid, $4)
			from millrace_lanes l join pg_stat_activity a on a.pid = l.session and a.backend_start = l.session_start
			where l.flow = $1 and l.output = $2 and l.partition = $3`, w.Flow, w.Output, w.Partition, patience.Milliseconds()); err != nil {
			return 0, err
		}
	}
	_, err = w.conn.Exec(ctx, "reset lock_timeout")
	return last, err
}

// moved is the update that belongs to every write. It finds no row if the lane belongs to another writer or is at another
// number. Its parameters $1 to $6 are those that numbers returns.
const moved = `update millrace_lanes set number = $6
	where flow = $1 and output = $2 and partition = $3 and epoch = $4 and number = $5`

func (w *lane) numbers(first uint64, n int) []any {
	return []any{w.Flow, w.Output, w.Partition, w.epoch, int64(first) - 1, int64(first) - 1 + int64(n)}
}

// refused explains why an update found no row.
func (w *lane) refused(ctx context.Context, first uint64) error {
	var number, epoch int64
	err := w.conn.QueryRow(ctx, `select number, epoch from millrace_lanes where flow = $1 and output = $2 and partition = $3`,
		w.Flow, w.Output, w.Partition).Scan(&number, &epoch)
	if err != nil {
		return err
	}
	if epoch != w.epoch {
		return fmt.Errorf("epoch %d was followed by %d: %w", w.epoch, epoch, connect.ErrFenced)
	}
	return fmt.Errorf("element %d was written after element %d", first, number)
}

// transaction repeats a write until it does not fail because of concurrent transactions. A failed write had no effect.
func (w *lane) transaction(write func() error) error {
	for {
		err := write()
		if !again(err) {
			return w.error(err)
		}
	}
}

func (w *lane) error(err error) error {
	if err == nil {
		return nil
	}
	return passing(w.hidden.hide(fmt.Errorf("postgres: lane %v: %w", w.Lane, err)), w.conn.IsClosed())
}

// Close ends the session.
func (w *lane) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.hidden.hide(w.conn.Close(ctx))
}
