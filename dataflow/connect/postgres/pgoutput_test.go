package postgres

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// An encoder writes messages as the plugin does.
type encoder []byte

func message(kind byte) encoder { return encoder{kind} }

func (e encoder) u8(n byte) encoder    { return append(e, n) }
func (e encoder) u16(n uint16) encoder { return binary.BigEndian.AppendUint16(e, n) }
func (e encoder) u32(n uint32) encoder { return binary.BigEndian.AppendUint32(e, n) }
func (e encoder) u64(n uint64) encoder { return binary.BigEndian.AppendUint64(e, n) }
func (e encoder) str(s string) encoder { return append(append(e, s...), 0) }

func begin(commit uint64) encoder {
	return message('B').u64(commit).u64(1e6).u32(7)
}

func committed(commit, end uint64) encoder {
	return message('C').u8(0).u64(commit).u64(end).u64(1e6)
}

// described describes a table of an integer key and a text.
func described(id uint32, name string, identity byte) encoder {
	keys := byte(0)
	if identity == 'f' {
		keys = 1
	}
	return message('R').u32(id).str("public").str(name).u8(identity).u16(2).u8(1).str("id").u32(23).u32(0xffffffff).u8(keys).str("v").u32(25).u32(0xffffffff)
}

// tuple is a row: "-" is null, "~" is unchanged.
func (e encoder) tuple(values ...string) encoder {
	e = e.u16(uint16(len(values)))
	for _, v := range values {
		switch v {
		case "-":
			e = e.u8('n')
		case "~":
			e = e.u8('u')
		default:
			e = append(e.u8('t').u32(uint32(len(v))), v...)
		}
	}
	return e
}

// conversation returns one message of each kind.
func conversation() []encoder {
	return []encoder{
		begin(100), message('O').u64(5).str("elsewhere"), described(1, "t", 'd'), message('Y').u32(9).str("public").str("mood"),
		message('I').u32(1).u8('N').tuple("1", "a"),
		message('U').u32(1).u8('N').tuple("1", "~"),
		message('U').u32(1).u8('K').tuple("1", "-").u8('N').tuple("2", "~"),
		message('D').u32(1).u8('K').tuple("2", "-"),
		message('M').u8(1).u64(90).str("prefix").u32(3).u8('x').u8(0).u8('y'),
		message('M').u8(0).u64(90).str("prefix").u32(0),
		committed(100, 108),
		message('M').u8(0).u64(108).str("prefix").u32(0),
		begin(108), described(2, "whole", 'f'),
		message('U').u32(2).u8('O').tuple("1", "long").u8('N').tuple("1", "~"),
		message('D').u32(2).u8('O').tuple("1", "-"),
		message('T').u32(2).u8(0).u32(1).u32(2),
		committed(108, 120),
	}
}

func TestDecode(t *testing.T) {
	var d decoder
	type numbered struct {
		index uint64
		Change
	}
	var got []numbered
	for _, m := range conversation() {
		if err := d.decode(m, func(i uint64, c Change) { got = append(got, numbered{i, c}) }); err != nil {
			t.Fatalf("%q: %v", m, err)
		}
	}
	when := time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC)
	id := func(s string) Cell { return Cell{"id", 23, true, Set, s} }
	v := func(key bool, s State, text string) Cell { return Cell{"v", 25, key, s, text} }
	from := func(origin string) func(uint64, Change) numbered {
		return func(i uint64, c Change) numbered {
			c.Commit, c.XID, c.Origin = when, 7, origin
			return numbered{i, c}
		}
	}
	change, second := from("elsewhere"), from("")
	want := []numbered{
		change(1, Change{Op: Insert, Table: "public.t", New: Row{id("1"), v(false, Set, "a")}}),
		change(2, Change{Op: Update, Table: "public.t", New: Row{id("1"), v(false, Unchanged, "")}}),
		change(3, Change{Op: Delete, Table: "public.t", Old: Row{id("1")}}),
		change(4, Change{Op: Insert, Table: "public.t", New: Row{id("2"), v(false, Unchanged, "")}}),
		change(5, Change{Op: Delete, Table: "public.t", Old: Row{id("2")}}),
		change(6, Change{Op: Message, Prefix: "prefix", Content: []byte("x\x00y")}),
		second(1, Change{Op: Update, Table: "public.whole", Old: Row{id("1"), v(true, Set, "long")}, New: Row{id("1"), v(true, Set, "long")}}),
		second(2, Change{Op: Delete, Table: "public.whole", Old: Row{id("1"), v(true, Null, "")}}),
		second(3, Change{Op: Truncate, Table: "public.t"}),
		second(4, Change{Op: Truncate, Table: "public.whole"}),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if d.end != 120 || d.open {
		t.Errorf("the end is %d, open %v", d.end, d.open)
	}
}

// TestDecodeCut checks that a message that is cut at any byte is an error and yields nothing.
func TestDecodeCut(t *testing.T) {
	all := conversation()
	for n, m := range all {
		if m[0] == 'Y' {
			continue // whose content is not read
		}
		for size := range m {
			var d decoder
			for _, before := range all[:n] {
				d.decode(before, func(uint64, Change) {})
			}
			given := 0
			if err := d.decode(m[:size], func(uint64, Change) { given++ }); !errors.Is(err, errMalformed) || given > 0 {
				t.Fatalf("%q: %d changes, %v", m[:size], given, err)
			}
		}
	}
}

// TestDecodeOrder checks that messages in an impossible order are errors, because their meaning could only be guessed.
func TestDecodeOrder(t *testing.T) {
	table := described(1, "t", 'd')
	for name, ms := range map[string][]encoder{
		"change outside":      {table, message('I').u32(1).u8('N').tuple("1", "a")},
		"commit outside":      {committed(1, 2)},
		"begin within":        {begin(1), begin(2)},
		"another commit":      {begin(1), committed(2, 3)},
		"an end before":       {begin(10), committed(10, 9)},
		"unknown table":       {begin(1), message('I').u32(1).u8('N').tuple("1", "a")},
		"too many columns":    {table, begin(1), message('I').u32(1).u8('N').tuple("1", "a", "b")},
		"a binary value":      {table, begin(1), message('I').u32(1).u8('N').u16(1).u8('b').u32(1).u8(0)},
		"unknown kind":        {message('S')},
		"an insert of olds":   {table, begin(1), message('I').u32(1).u8('O').tuple("1", "a")},
		"a delete of news":    {table, begin(1), message('D').u32(1).u8('N').tuple("1", "a")},
		"an update of no new": {table, begin(1), message('U').u32(1).u8('K').tuple("1", "a").u8('K').tuple("1", "a")},
		"many truncated":      {table, begin(1), message('T').u32(0xffffffff).u8(0).u32(1)},
	} {
		var d decoder
		for i, m := range ms {
			err := d.decode(m, func(uint64, Change) { t.Errorf("%s: a change", name) })
			if last := i == len(ms)-1; last != errors.Is(err, errMalformed) || !last && err != nil {
				t.Errorf("%s: message %d: %v", name, i, err)
			}
		}
	}
}

// FuzzDecode decodes conversations in which each message is preceded by its length. The numbers of changes have no gap, and the
// decoded changes do not depend on the buffer.
func FuzzDecode(f *testing.F) {
	join := func(ms []encoder) (b []byte) {
		for _, m := range ms {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(m))), m...)
		}
		return b
	}
	all := conversation()
	f.Add(join(all))
	for i := range all {
		f.Add(join(all[i:]))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = slices.Clone(data)
		var d decoder
		last := uint64(0)
		var rows []Row
		var texts []string
		for rest := data; len(rest) >= 2; {
			n := min(int(binary.BigEndian.Uint16(rest)), len(rest)-2)
			m := rest[2 : 2+n]
			rest = rest[2+n:]
			was := d.open
			err := d.decode(m, func(i uint64, c Change) {
				if i != last+1 || !was {
					t.Fatalf("change %d after %d, open %v", i, last, was)
				}
				last = i
				for _, r := range []Row{c.Old, c.New} {
					rows, texts = append(rows, r), append(texts, text(r))
				}
				for _, x := range append(c.Key(), c.New...) {
					if x.Name == "" && x.Type == 0 && x.State == "" {
						t.Fatal("an empty cell")
					}
				}
			})
			if err != nil {
				break
			}
			if len(m) > 0 && m[0] == 'B' {
				last = 0
			}
		}
		for i := range data {
			data[i] ^= 0xff
		}
		for i, r := range rows {
			if text(r) != texts[i] {
				t.Fatal("a row changed with the buffer")
			}
		}
	})
}

func text(r Row) string {
	var s strings.Builder
	for _, c := range r {
		s.WriteString(c.Name + string(c.State) + c.Text)
	}
	return s.String()
}

// TestWhole checks that Confirmed is the end of the last whole transaction, wherever a batch was cut.
func TestWhole(t *testing.T) {
	c := &cursor[struct{}, Change]{}
	for _, x := range []struct{ commit, end uint64 }{{100, 90}, {100, 90}, {120, 120}, {150, 140}} {
		c.decoder.open, c.decoder.commit, c.decoder.end = true, x.commit, x.end
		c.remember()
	}
	c.decoder.open = false
	c.remember()
	if len(c.cuts) != 3 {
		t.Errorf("cuts %v, want 3", c.cuts)
	}
	for _, x := range []struct{ major, minor, want uint64 }{
		{80, 0, 80}, {100, 3, 90}, {110, 0, 110}, {110, 5, 0}, {120, 0, 120}, {120, 1, 120}, {150, 9, 140}, {160, 0, 160}, {170, 1, 0},
	} {
		if got := c.whole(dataflow.Position{Major: x.major, Minor: x.minor}); got != x.want {
			t.Errorf("whole(%d, %d) = %d, want %d", x.major, x.minor, got, x.want)
		}
	}
	c.decoder.open = true
	for i := range uint64(2 * maxCuts) {
		c.decoder.commit = 1000 + i
		c.remember()
	}
	if len(c.cuts) != maxCuts {
		t.Errorf("%d cuts are kept, want %d", len(c.cuts), maxCuts)
	}
}

// TestPositions checks that positions are those of the log, whatever the server reports in between. The server's report of how
// far it has read is a position after everything that was read, unless a transaction is open.
func TestPositions(t *testing.T) {
	read := func(quiet bool) (at, ends []dataflow.Position) {
		c := &cursor[struct{}, Change]{decode: func(c Change) (struct{}, Change, error) { return struct{}{}, c, nil }}
		now := uint64(10)
		for _, m := range conversation() {
			var b connect.Batch[struct{}, Change]
			if !quiet {
				now += 5 // within transactions, before them, and between them; there it is before the end of the first
				behind := !c.decoder.open && now > c.decoder.end
				if err := c.message(message('k').u64(now).u64(0).u8(0), &b); err != nil {
					t.Fatal(err)
				}
				if behind != (b.End == dataflow.Position{Major: now}) || !behind && b.End != (dataflow.Position{}) {
					t.Fatalf("the end is %v at %d, and open is %v", b.End, now, c.decoder.open)
				}
			}
			b.Reset()
			if err := c.message(append(message('w').u64(0).u64(0).u64(0), m...), &b); err != nil {
				t.Fatal(err)
			}
			at = append(at, b.At...)
			if m[0] == 'C' {
				ends = append(ends, b.End)
			}
		}
		return at, ends
	}
	quietAt, quietEnds := read(true)
	at, ends := read(false)
	if !slices.Equal(at, quietAt) || !slices.Equal(ends, quietEnds) {
		t.Errorf("positions are %v and %v, and without messages in between %v and %v", at, ends, quietAt, quietEnds)
	}
	if want := (dataflow.Position{Major: 108, Minor: 1}); at[6] != want || ends[0].Major != 108 || !want.After(ends[0]) {
		t.Errorf("the second transaction begins with %v behind %v, want %v", at[6], ends[0], want)
	}
}

func TestLSN(t *testing.T) {
	for text, n := range map[string]uint64{"0/0": 0, "0/1D7B90C0": 0x1D7B90C0, "1F/A": 0x1F0000000A, "FFFFFFFF/FFFFFFFF": 1<<64 - 1} {
		if got, err := parseLSN(text); got != n || err != nil || formatLSN(n) != text {
			t.Errorf("%s: %X, %v, %s", text, got, err, formatLSN(n))
		}
	}
	for _, text := range []string{"", "/", "1", "1/", "/1", "1/1/1", "G/0", "100000000/0", "-1/0"} {
		if _, err := parseLSN(text); err == nil {
			t.Errorf("%q is a position", text)
		}
	}
}
