package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A snapshot reads the rows that tables contained when a slot was created. Their positions are (0, 1), (0, 2), …, before all
// positions of the log.
type snapshot struct {
	private
	ctx    context.Context // of the queries, which last longer than a call of next
	cancel context.CancelFunc
	conn   *pgx.Conn
	hidden secrets
	again  bool // rows that an earlier snapshot returned may have been deleted
	tables []relationQuery
	rows   *pgconn.ResultReader // of the first of the tables, or nil
	cells  Row
	index  uint64
}

// A relationQuery is the query for the rows of a table.
type relationQuery struct{ name, sql string }

// snapshotBatch is the number of rows in a batch.
const snapshotBatch = 1024

// openSnapshot starts a transaction that sees the data that the slot does not send.
func openSnapshot(ctx context.Context, s Slot, name string, again bool) (*snapshot, error) {
	c, hidden, err := s.Database.connect(ctx)
	if err != nil {
		return nil, err
	}
	x := &snapshot{conn: c, hidden: hidden, again: again}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	for _, sql := range []string{"begin isolation level repeatable read read only", "set transaction snapshot '" + strings.ReplaceAll(name, "'", "''") + "'"} {
		if err == nil {
			_, err = c.Exec(ctx, sql)
		}
	}
	if err == nil {
		x.tables, err = published(ctx, c, s.Publication)
	}
	if err != nil {
		x.close()
		return nil, s.error(hidden.hide(err), c.IsClosed())
	}
	return x, nil
}

// published returns the queries for the tables of a publication. Column lists and row filters exist since PostgreSQL 15; older
// servers have none.
func published(ctx context.Context, c *pgx.Conn, publication string) (tables []relationQuery, err error) {
	rows, err := c.Query(ctx, `select t.schemaname, t.tablename, coalesce(to_jsonb(t)->>'rowfilter', ''), y.relkind::text,
			(select array_agg(a.attname::text order by a.attnum) from pg_attribute a
			where a.attrelid = y.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
			and (to_jsonb(t)->'attnames' is null or to_jsonb(t)->'attnames' = 'null' or to_jsonb(t)->'attnames' ? a.attname::text))
		from pg_publication_tables t
		join pg_class y on y.relname = t.tablename join pg_namespace n on n.oid = y.relnamespace and n.nspname = t.schemaname
		where t.pubname = $1 order by 1, 2`, publication)
	if err != nil {
		return nil, err
	}
	var schema, table, filter, kind string
	var columns []string
	_, err = pgx.ForEachRow(rows, []any{&schema, &table, &filter, &kind, &columns}, func() error {
		for i := range columns {
			columns[i] = quoted(columns[i])
		}
		sql := "select " + strings.Join(columns, ", ") + " from "
		if kind == "r" {
			sql += "only " // tables that inherit from it are published separately
		}
		sql += pgx.Identifier{schema, table}.Sanitize()
		if filter != "" {
			sql += " where " + filter
		}
		tables = append(tables, relationQuery{schema + "." + table, sql})
		return nil
	})
	return tables, err
}

// next returns rows, and reports whether there are no more.
func (x *snapshot) next(ctx context.Context, emit func(uint64, Change)) (ended bool, err error) {
	defer context.AfterFunc(ctx, x.cancel)()
	defer func() {
		if err = x.hidden.hide(err); err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	for n := 0; n < snapshotBatch; {
		if len(x.tables) == 0 {
			if n > 0 {
				return false, nil
			}
			return true, nil
		}
		if x.rows == nil {
			keys, err := identityColumns(x.ctx, x.conn, x.tables[0].name)
			if err != nil {
				return false, err
			}
			x.rows = x.conn.PgConn().ExecParams(x.ctx, x.tables[0].sql, nil, nil, nil, nil)
			x.cells = nil
			for _, f := range x.rows.FieldDescriptions() {
				x.cells = append(x.cells, Cell{Name: f.Name, Type: f.DataTypeOID, Key: keys[f.Name]})
			}
			if x.again {
				x.give(emit, Change{Op: Truncate})
				n++
			}
		}
		if !x.rows.NextRow() {
			_, err := x.rows.Close()
			x.rows, x.tables = nil, x.tables[1:]
			if err != nil {
				return false, err
			}
			continue
		}
		row := append(Row(nil), x.cells...)
		for i, v := range x.rows.Values() {
			if v == nil {
				row[i].State = Null
			} else {
				row[i].State, row[i].Text = Set, string(v)
			}
		}
		x.give(emit, Change{Op: Snapshot, New: row})
		n++
	}
	return false, nil
}

func (x *snapshot) give(emit func(uint64, Change), c Change) {
	x.index++
	c.Table = x.tables[0].name
	emit(x.index, c)
}

// identityColumns returns the columns of a table's replica identity, which the server will send with changes.
func identityColumns(ctx context.Context, c *pgx.Conn, table string) (map[string]bool, error) {
	schema, name, _ := strings.Cut(table, ".")
	rows, err := c.Query(ctx, `select a.attname from pg_class y join pg_attribute a on a.attrelid = y.oid
		where y.oid = format('%I.%I', $1::text, $2::text)::regclass and a.attnum > 0 and not a.attisdropped and case y.relreplident
			when 'f' then true when 'n' then false
			else exists (select from pg_index i where i.indrelid = y.oid and a.attnum = any(i.indkey)
				and case y.relreplident when 'd' then i.indisprimary else i.indisreplident end) end`, schema, name)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	keys := map[string]bool{}
	for _, n := range names {
		keys[n] = true
	}
	return keys, err
}

// close ends the transaction, even if rows are unread.
func (x *snapshot) close() {
	x.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if x.rows != nil {
		x.rows.Close()
	}
	x.conn.Close(ctx)
}
