package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Field says how a column of a table is computed from a T. [Key] and [Column] return one.
type Field[T any] struct {
	name string
	key  bool
	one  func(T) any
	all  func([]T) any // as a slice of the column's Go type
}

// Column fills a column. V must be a type that pgx accepts for the column, for example a
// pointer for a column that may be null.
func Column[T, V any](name string, of func(T) V) Field[T] {
	return Field[T]{
		name: name,
		one:  func(x T) any { return of(x) },
		all: func(xs []T) any {
			vs := make([]V, len(xs))
			for i, x := range xs {
				vs[i] = of(x)
			}
			return vs
		},
	}
}

// Key fills a column of the key by which [Upsert] and [UpsertEntries] find a row. The columns of the key together need a
// unique index, such as that of a primary key.
func Key[T, V any](name string, of func(T) V) Field[T] {
	f := Column(name, of)
	f.key = true
	return f
}

// A table is the table to which a sink writes.
type table[T any] struct {
	name   pgx.Identifier
	fields []Field[T]
}

// newTable panics if the arguments cannot describe a table.
func newTable[T any](op, name string, fields []Field[T]) table[T] {
	if name == "" || len(fields) == 0 {
		panic(fmt.Sprintf("postgres: %s: table %q with %d columns", op, name, len(fields)))
	}
	names := map[string]bool{}
	for _, f := range fields {
		if f.name == "" || f.one == nil || names[f.name] {
			panic(fmt.Sprintf("postgres: %s: table %q: column %q is empty or there twice", op, name, f.name))
		}
		names[f.name] = true
	}
	return table[T]{name: strings.SplitN(name, ".", 2), fields: fields}
}

// newKeyed is like newTable, for a table whose rows have keys.
func newKeyed[T any](op, name string, fields []Field[T]) table[T] {
	t := newTable(op, name, fields)
	if !slices.ContainsFunc(fields, func(f Field[T]) bool { return f.key }) {
		panic(fmt.Sprintf("postgres: %s: table %q: no Key among the columns", op, name))
	}
	return t
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func (t table[T]) names() []string {
	var names []string
	for _, f := range t.fields {
		names = append(names, f.name)
	}
	return names
}

// arrays returns the parameters of a statement, one for each column.
func (t table[T]) arrays(xs []T) []any {
	var all []any
	for _, f := range t.fields {
		all = append(all, f.all(xs))
	}
	return all
}

// A kind is the type of a column.
type kind struct {
	name     string // as in a cast
	wire     string // of the parameter: a type that pgx knows
	compared bool   // whether "is distinct from" can compare it
}

// kinds asks the server for the types of the columns.
func (t table[T]) kinds(ctx context.Context, c *pgx.Conn) ([]kind, error) {
	rows, err := c.Query(ctx, `select a.attname, format_type(a.atttypid, a.atttypmod), y.typcategory::text,
			coalesce(format_type(nullif(y.typbasetype, 0), y.typtypmod), ''),
			y.typnamespace = 'pg_catalog'::regnamespace,
			exists (select from pg_operator o where o.oprname = '=' and o.oprleft = y.oid and o.oprright = y.oid and o.oprcanmerge) or y.typcategory in ('E', 'R', 'A', 'S')
		from pg_attribute a join pg_type y on y.oid = a.atttypid
		where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped`, t.name.Sanitize())
	if err != nil {
		return nil, err
	}
	found := map[string]kind{}
	var name, full, category, base string
	var builtin, compared bool
	_, err = pgx.ForEachRow(rows, []any{&name, &full, &category, &base, &builtin, &compared}, func() error {
		k := kind{name: full, wire: cmp.Or(base, full), compared: compared}
		if !builtin && base == "" {
			k.wire = "text"
		}
		if category == "A" {
			k.wire = ""
		}
		found[name] = k
		return nil
	})
	if err != nil {
		return nil, err
	}
	var kinds []kind
	for _, f := range t.fields {
		k, ok := found[f.name]
		if !ok {
			return nil, fmt.Errorf("table %s has no column %q", t.name.Sanitize(), f.name)
		}
		if k.wire == "" {
			return nil, fmt.Errorf("table %s: column %q is an array, which only Append and Exec write", t.name.Sanitize(), f.name)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

// rows returns a table expression of the parameters from number first on, with the columns' names and an ordinal.
func (t table[T]) rows(kinds []kind, first int) string {
	var arrays, names []string
	for i, f := range t.fields {
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", first+i, kinds[i].wire))
		names = append(names, quoted(f.name))
	}
	return fmt.Sprintf("unnest(%s) with ordinality as c(%s, millrace_ordinal)", strings.Join(arrays, ", "), strings.Join(names, ", "))
}

// insert returns the statement that writes the rows of c, as an upsert. Two rows with one key are an error, unless last says
// to take the last of them.
func (t table[T]) insert(kinds []kind, from string, last, compare bool) string {
	var names, values, keys, ordered, set, old, excluded []string
	for i, f := range t.fields {
		n := quoted(f.name)
		v := "c." + n
		if kinds[i].wire != kinds[i].name {
			v += "::" + kinds[i].name
		}
		names, values = append(names, n), append(values, v)
		if f.key {
			keys, ordered = append(keys, n), append(ordered, v)
			continue
		}
		text := ""
		if !kinds[i].compared {
			text = "::text"
		}
		set = append(set, n+" = excluded."+n)
		old, excluded = append(old, "t."+n+text), append(excluded, "excluded."+n+text)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "insert into %s as t (%s) select ", t.name.Sanitize(), strings.Join(names, ", "))
	if last {
		fmt.Fprintf(&s, "distinct on (%s) ", strings.Join(ordered, ", "))
	}
	fmt.Fprintf(&s, "%s from %s", strings.Join(values, ", "), from)
	if last {
		fmt.Fprintf(&s, " order by %s, c.millrace_ordinal desc", strings.Join(ordered, ", "))
	}
	fmt.Fprintf(&s, " on conflict (%s) do ", strings.Join(keys, ", "))
	if len(set) == 0 {
		s.WriteString("nothing")
		return s.String()
	}
	fmt.Fprintf(&s, "update set %s", strings.Join(set, ", "))
	if compare {
		fmt.Fprintf(&s, " where (%s) is distinct from (%s)", strings.Join(old, ", "), strings.Join(excluded, ", "))
	}
	return s.String()
}
