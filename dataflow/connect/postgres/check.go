package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Check reports problems that prevent reading the slot, or that would disturb users of the database once it is read: the
// server's settings, the rights of the connection's role, and published tables whose rows have no identity, for which UPDATE and
// DELETE fail. A reader calls it before it creates the slot.
func (s Slot) Check(ctx context.Context) error {
	return s.session(ctx, func(c *pgx.Conn) error { return s.check(ctx, c) })
}

func (s Slot) check(ctx context.Context, c *pgx.Conn) error {
	var level string
	var replicates, recovering bool
	var publications int
	var keyless []string
	err := c.QueryRow(ctx, `select current_setting('wal_level'), pg_is_in_recovery(),
			(select rolreplication or rolsuper from pg_roles where rolname = current_user),
			(select count(*) from pg_publication where pubname = $1),
			coalesce((select array_agg(format('%s.%s', t.schemaname, t.tablename) order by 1)
				from pg_publication p join pg_publication_tables t on t.pubname = p.pubname
				join pg_class y on y.relname = t.tablename join pg_namespace n on n.oid = y.relnamespace and n.nspname = t.schemaname
				where p.pubname = $1 and (p.pubupdate or p.pubdelete) and (y.relreplident = 'n' or y.relreplident = 'd'
					and not exists (select from pg_index i where i.indrelid = y.oid and i.indisprimary))), '{}')`, s.Publication).
		Scan(&level, &recovering, &replicates, &publications, &keyless)
	if err != nil {
		return err
	}
	var problems []error
	if level != "logical" {
		problems = append(problems, fmt.Errorf("wal_level is %s: set it to logical and restart the server", level))
	}
	if recovering {
		problems = append(problems, errors.New("the server is a standby: connect to the primary"))
	}
	if !replicates {
		problems = append(problems, errors.New("the role may not replicate: ALTER ROLE … REPLICATION"))
	}
	if publications == 0 {
		problems = append(problems, fmt.Errorf("there is no publication %q: CREATE PUBLICATION … FOR TABLE …", s.Publication))
	}
	if len(keyless) > 0 {
		problems = append(problems, fmt.Errorf("UPDATE and DELETE fail for tables of publication %q without a primary key: %s: give them a key or a REPLICA IDENTITY, or publish inserts only",
			s.Publication, strings.Join(keyless, ", ")))
	}
	return errors.Join(problems...)
}
