package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A relation is the server's description of a table, which it sends before the first change of the table and after each ALTER.
type relation struct {
	name    string
	columns []Cell // without values
	full    bool   // whether the replica identity is FULL
}

// A decoder decodes messages of the plugin pgoutput, protocol version 1. See "Logical Replication Message Formats" in the
// PostgreSQL manual.
type decoder struct {
	relations map[uint32]*relation

	open   bool   // whether a transaction has started
	commit uint64 // position of its commit
	time   time.Time
	xid    uint32
	origin string
	index  uint64 // number of its changes so far

	end uint64 // after the last transaction that was read completely
}

var errMalformed = errors.New("postgres: a message of the server is malformed")

// epoch is the zero of the server's clock.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// decode calls emit for each change of a message, with its number within the transaction, from 1 on. The numbers depend only on
// the log, so they are the same whenever it is read.
func (d *decoder) decode(message []byte, emit func(index uint64, c Change)) error {
	r := &reader{rest: message}
	kind := r.byte()
	if !d.open && slices.Contains([]byte("IUDTCO"), kind) || d.open && kind == 'B' {
		return fmt.Errorf("%w: %q, and open is %v", errMalformed, kind, d.open)
	}
	give := func(c Change) {
		d.index++
		c.Commit, c.XID, c.Origin = d.time, d.xid, d.origin
		emit(d.index, c)
	}
	switch kind {
	case 'B':
		d.open, d.index, d.origin = true, 0, ""
		d.commit, d.time, d.xid = r.uint64(), r.time(), r.uint32()
	case 'C':
		r.byte()
		if at := r.uint64(); at != d.commit {
			return fmt.Errorf("%w: commit %X of a transaction that began for %X", errMalformed, at, d.commit)
		}
		d.end = r.uint64()
		r.uint64()
		d.open = false
		if d.end < d.commit {
			return fmt.Errorf("%w: a transaction ends at %X, before its commit %X", errMalformed, d.end, d.commit)
		}
	case 'O':
		r.uint64()
		d.origin = r.string()
	case 'R':
		d.relation(r)
	case 'Y': // the name of a type, which is not needed
		return nil
	case 'I':
		t := d.table(r)
		if r.byte() != 'N' {
			return errMalformed
		}
		row := r.tuple(t)
		if r.failed {
			return errMalformed
		}
		give(Change{Op: Insert, Table: t.name, New: row})
	case 'U':
		return d.update(r, give)
	case 'D':
		t := d.table(r)
		if k := r.byte(); k != 'K' && k != 'O' {
			return errMalformed
		}
		row := r.tuple(t)
		if r.failed {
			return errMalformed
		}
		give(Change{Op: Delete, Table: t.name, Old: identity(t, row)})
	case 'T':
		n := r.uint32()
		r.byte()
		if uint64(n)*4 > uint64(len(r.rest)) {
			return errMalformed
		}
		for range n {
			t := d.table(r)
			if r.failed {
				return errMalformed
			}
			give(Change{Op: Truncate, Table: t.name})
		}
	case 'M':
		transactional := r.byte() == 1
		r.uint64()
		prefix := r.string()
		content := r.bytes(r.uint32())
		if r.failed {
			return errMalformed
		}
		if transactional && d.open {
			give(Change{Op: Message, Prefix: prefix, Content: slices.Clone(content)})
		}
	default:
		return fmt.Errorf("%w: kind %q", errMalformed, kind)
	}
	if r.failed {
		return errMalformed
	}
	return nil
}

func (d *decoder) relation(r *reader) {
	id := r.uint32()
	schema := r.string()
	if schema == "" {
		schema = "pg_catalog"
	}
	t := &relation{name: schema + "." + r.string(), full: r.byte() == 'f'}
	for range r.uint16() {
		flags := r.byte()
		t.columns = append(t.columns, Cell{Key: flags&1 != 0, Name: r.string(), Type: r.uint32()})
		r.uint32()
		if r.failed {
			return
		}
	}
	if d.relations == nil {
		d.relations = map[uint32]*relation{}
	}
	d.relations[id] = t
}

// table returns the relation of a message.
func (d *decoder) table(r *reader) *relation {
	t := d.relations[r.uint32()]
	if t == nil {
		r.failed = true
		return &relation{}
	}
	return t
}

func (d *decoder) update(r *reader, give func(Change)) error {
	t := d.table(r)
	kind := r.byte()
	var old Row
	if kind == 'K' || kind == 'O' {
		old = r.tuple(t)
		if r.failed {
			return errMalformed
		}
		for i := range old {
			if kind == 'K' && !old[i].Key {
				old[i].State = Unchanged // columns outside the key are sent as null
			}
		}
		kind = r.byte()
	}
	if kind != 'N' {
		return errMalformed
	}
	row := r.tuple(t)
	if r.failed {
		return errMalformed
	}
	moved := false
	for i := range min(len(row), len(old)) {
		if row[i].State == Unchanged && old[i].State != Unchanged {
			row[i] = old[i]
		}
		moved = moved || row[i].Key && row[i] != old[i]
	}
	switch {
	case t.full:
		give(Change{Op: Update, Table: t.name, Old: old, New: row})
	case moved:
		give(Change{Op: Delete, Table: t.name, Old: identity(t, old)})
		give(Change{Op: Insert, Table: t.name, New: row})
	default:
		give(Change{Op: Update, Table: t.name, New: row})
	}
	return nil
}

// identity removes the columns that the server did not send, which look like nulls.
func identity(t *relation, row Row) Row {
	if t.full {
		return row
	}
	return slices.DeleteFunc(row, func(c Cell) bool { return !c.Key })
}

// A reader reads the parts of a message. It remembers if the message was too short.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// time reads a time in microseconds.
func (r *reader) time() time.Time {
	us := int64(r.uint64())
	return epoch.Add(time.Duration(us%1e6) * time.Microsecond).Add(time.Duration(us/1e6) * time.Second)
}

// string reads a text that ends with a zero byte.
func (r *reader) string() string {
	i := slices.Index(r.rest, 0)
	if i < 0 {
		r.failed, r.rest = true, nil
		return ""
	}
	s := string(r.rest[:i])
	r.rest = r.rest[i+1:]
	return s
}

// tuple reads the columns of a row. Their texts share one string.
func (r *reader) tuple(t *relation) Row {
	n := int(r.uint16())
	if n > len(t.columns) {
		r.failed = true
		return nil
	}
	row := make(Row, n)
	copy(row, t.columns)
	text := string(r.rest)
	length := len(r.rest)
	for i := range row {
		switch r.byte() {
		case 'n':
			row[i].State = Null
		case 'u':
			row[i].State = Unchanged
		case 't':
			size := r.uint32()
			at := length - len(r.rest)
			r.bytes(size)
			if r.failed {
				return nil
			}
			row[i].State, row[i].Text = Set, text[at:at+int(size)]
		default: // an unknown value, or a binary one, which was not requested
			r.failed = true
			return nil
		}
	}
	return row
}
