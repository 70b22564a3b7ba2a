package postgres

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// An Op says what happened to a row.
type Op string

const (
	// Insert is a new row.
	Insert Op = "insert"
	// Update is a row with other content.
	Update Op = "update"
	// Delete is the removal of a row.
	Delete Op = "delete"
	// Truncate is the removal of all rows of a table, by a statement or because a [Snapshot] of it starts again.
	Truncate Op = "truncate"
	// Snapshot is a row that existed when the slot was created. It may come again, so treat it as an insert or an update.
	Snapshot Op = "snapshot"
	// Message concerns no row: it is what pg_logical_emit_message(true, prefix, content) wrote in a transaction.
	Message Op = "message"
)

// A Change is what a transaction did to one row.
//
// An UPDATE that changes the key of a row is two changes: [Delete] of the old row and [Insert] of the new one. If the table's
// replica identity is FULL, it is one change, because then the server does not say what the key is.
type Change struct {
	Op    Op
	Table string // "schema.table", empty for a Message

	// New is the row, for Insert, Update and Snapshot.
	New Row
	// Old is what the server reports of the row before: for a Delete the columns of the replica identity, and for a Delete or
	// Update under FULL all columns.
	Old Row

	Prefix  string // of a Message
	Content []byte // of a Message

	Commit time.Time // of the transaction, zero for a Snapshot
	XID    uint32    // of the transaction, zero for a Snapshot
	Origin string    // of the transaction, if it came from another server
}

// Key returns the columns of the row's replica identity, which is the primary key unless the table says otherwise. Under FULL it
// is all columns. It is empty for a Truncate and a Message, and for a row without an identity.
func (c Change) Key() Row {
	from := c.New
	if c.Op == Delete {
		from = c.Old
	}
	var key Row
	for _, x := range from {
		if x.Key {
			key = append(key, x)
		}
	}
	return key
}

// A State says what is known of a column.
type State string

const (
	// Set is the state of a column with a value.
	Set State = "set"
	// Null is the state of a column that is null.
	Null State = "null"
	// Unchanged is the state of a column with a long value that an UPDATE did not change. The server does not send the value
	// again. It is not null. Under a replica identity of FULL this state does not occur.
	Unchanged State = "unchanged"
)

// A Cell is a column of a row.
type Cell struct {
	Name  string
	Type  uint32 // its OID
	Key   bool   // whether it belongs to the replica identity
	State State
	Text  string // the value as text, as the server writes it
}

// types contains maps from OIDs to Go types. A map is not safe for concurrent use.
var types = sync.Pool{New: func() any { return pgtype.NewMap() }}

// Scan decodes the value into the variable to which dst points, as pgx does. A null requires a pointer or a type that can
// represent it. An Unchanged column is an error, unless dst points to a [Partial].
func (c Cell) Scan(dst any) error {
	m := types.Get().(*pgtype.Map)
	defer types.Put(m)
	return c.scan(m, dst)
}

func (c Cell) scan(m *pgtype.Map, dst any) error {
	if p, ok := dst.(partial); ok {
		value := p.hold(c.State)
		if c.State != Set {
			return nil
		}
		dst = value
	}
	if c.State == Unchanged {
		return fmt.Errorf("postgres: column %q is unchanged: scan it into a postgres.Partial", c.Name)
	}
	var text []byte
	if c.State == Set {
		text = []byte(c.Text)
	}
	if err := m.Scan(c.Type, pgtype.TextFormatCode, text, dst); err != nil {
		return fmt.Errorf("postgres: column %q: %w", c.Name, err)
	}
	return nil
}

// A Row is the columns of a row, in the order of the table.
type Row []Cell

// Get returns the column with a name.
func (r Row) Get(name string) (c Cell, ok bool) {
	for _, c := range r {
		if c.Name == name {
			return c, true
		}
	}
	return Cell{}, false
}

// Scan decodes columns into the fields of the struct to which dst points. A field takes the column of its tag `db:"name"`, or of
// its name in lower case. Columns and fields without a counterpart are skipped. It is an error if a column does not fit its
// field: if it is null and the field cannot represent that, or if it is [Unchanged] and the field is not a [Partial].
func (r Row) Scan(dst any) error {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("postgres: Row.Scan: dst is a %T, want a pointer to a struct", dst)
	}
	v = v.Elem()
	fields := fieldsOf(v.Type())
	m := types.Get().(*pgtype.Map)
	defer types.Put(m)
	for _, c := range r {
		if i, ok := fields[c.Name]; ok {
			if err := c.scan(m, v.Field(i).Addr().Interface()); err != nil {
				return err
			}
		}
	}
	return nil
}

// layouts caches the fields of structs by column.
var layouts sync.Map

func fieldsOf(t reflect.Type) map[string]int {
	if f, ok := layouts.Load(t); ok {
		return f.(map[string]int)
	}
	fields := map[string]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, tagged := f.Tag.Lookup("db")
		if !tagged {
			name = strings.ToLower(f.Name)
		}
		if f.IsExported() && name != "-" {
			fields[name] = i
		}
	}
	layouts.Store(t, fields)
	return fields
}

// A Partial is a column whose value may be missing in an [Update].
type Partial[V any] struct {
	State State
	Value V // if the State is Set
}

// partial is implemented by a Partial of any type.
type partial interface{ hold(State) (value any) }

func (p *Partial[V]) hold(s State) any {
	*p = Partial[V]{State: s}
	return &p.Value
}
