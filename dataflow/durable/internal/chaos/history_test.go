package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
)

// These types hold the contents of a partition's log and journal. They are read without the
// code of package durable, except its codec, so that the test checks the stored format
// independently.

type record struct {
	position uint64
	op       int
	key      string
	vote     vote
	claim    uint64
}

type output struct {
	op    int
	key   string
	tally tally
	claim uint64
}

type committed struct {
	fence   uint64
	taken   uint64
	at      int64 // Unix time in nanoseconds at which the step began
	outputs []output
}

type history struct {
	partition int
	ops       operators
	records   []record
	steps     []committed
}

// Operators holds the numbers of the flow's inputs and outputs in its history.
type operators struct{ votes, claims, released, claimed int }

// named returns the number of the input that a record names.
func (o operators) named(name string) int {
	switch port, _, _ := strings.Cut(strings.TrimPrefix(name, "\t"), "\n"); port {
	case "input votes":
		return o.votes
	case "input claims":
		return o.claims
	}
	return 0
}

// parseShape finds the operators in the program's shape, which the first step contains. The
// shape has one line with the name of each operator, followed by a line with its number.
func parseShape(shape string) (operators, error) {
	found := make(map[string]int)
	name := ""
	for line := range strings.Lines(shape) {
		line = strings.TrimSuffix(line, "\n")
		var number int
		if n, _ := fmt.Sscanf(line, "\t\tnumber %d", &number); n == 1 {
			found[name] = number
		} else if port, ok := strings.CutPrefix(line, "\t"); ok && !strings.HasPrefix(port, "\t") {
			name = port
		}
	}
	o := operators{found["input votes"], found["input claims"], found["output released"], found["output claimed"]}
	if min(o.votes, o.claims, o.released, o.claimed) == 0 {
		return o, fmt.Errorf("the shape has other operators: %q", shape)
	}
	return o, nil
}

// readHistories reads all stored records and steps of all partitions.
func readHistories(t testing.TB, where journal.Opener, o journal.OpenOptions) (all []history) {
	t.Helper()
	ctx := soon(t)
	log, err := where.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for p := range log.Partitions() {
		h, err := readHistory(ctx, log, p)
		if err != nil {
			t.Fatalf("partition %d: %v", p, err)
		}
		all = append(all, h)
	}
	return all
}

func readHistory(ctx context.Context, log journal.Log, p int) (history, error) {
	h := history{partition: p}
	usage, err := log.Usage(ctx, p)
	if err != nil {
		return h, err
	}
	steps, err := log.Steps(ctx, p, 0)
	if err != nil {
		return h, err
	}
	defer steps.Close()
	var origin int64
	for range usage.Steps {
		s, err := steps.Next(ctx)
		if err != nil {
			return h, err
		}
		if err := h.addStep(s, &origin); err != nil {
			return h, fmt.Errorf("step %d: %w", s.Fence, err)
		}
	}
	if len(h.steps) == 0 {
		return h, nil // nobody ever owned it
	}
	reader, err := log.Read(ctx, p, 0)
	if err != nil {
		return h, err
	}
	defer reader.Close()
	last, err := reader.Last(ctx)
	if err != nil {
		return h, err
	}
	messages := uint64(0)
	for at := uint64(0); at < last; {
		ms, err := reader.Next(ctx, 1<<20)
		if err != nil {
			return h, err
		}
		for _, m := range ms {
			messages++
			at = m.Position
			if err := h.addRecords(m); err != nil {
				return h, fmt.Errorf("message %d: %w", m.Position, err)
			}
		}
	}
	if messages != usage.Records {
		return h, fmt.Errorf("%d messages were read, the servers have %d", messages, usage.Records)
	}
	return h, nil
}

func (h *history) addRecords(m journal.Message) error {
	for _, data := range m.Records {
		d := decoder{data: data}
		if v := d.byte(); v != 1 {
			return fmt.Errorf("a record of version %d", v)
		}
		d.skip(4 + 4) // the identity and the checksum
		d.uint()      // the floor
		r, err := codec.DecodeRecord(d.data)
		if err != nil {
			return err
		}
		rec := record{position: m.Position, op: int(r.Op)}
		if r.Name != "" {
			rec.op = h.ops.named(r.Name)
		}
		var value any = &rec.vote
		if rec.op == h.ops.claims {
			value = &rec.claim
		}
		if err := durable.CBOR().Decode(r.Key, &rec.key); err != nil {
			return err
		}
		if err := durable.CBOR().Decode(r.Value, value); err != nil {
			return err
		}
		h.records = append(h.records, rec)
	}
	return nil
}

// addStep decodes a step: frame, flags, the program's shape if it is the first step, the
// previous step, the last record taken, the time, the refused records, the quarantined
// records and the outputs.
func (h *history) addStep(s journal.Step, origin *int64) error {
	d := decoder{data: s.Data}
	if v := d.byte(); v != 8 {
		return fmt.Errorf("version %d", v)
	}
	d.skip(4 + 4) // the identity and the checksum
	flags := d.byte()
	begin := flags&1 != 0
	if begin != (len(h.steps) == 0) {
		return fmt.Errorf("step %d of the history says it is the first: %v", len(h.steps)+1, begin)
	}
	if begin {
		*origin = d.int()
		ops, err := parseShape(string(d.bytes()))
		if err != nil {
			return err
		}
		h.ops = ops
	}
	if flags&8 != 0 {
		d.bytes() // the version of the program
	}
	d.uint()   // the fence of the step before
	d.skip(16) // the link to it
	c := committed{fence: s.Fence, taken: d.uint()}
	d.skip(4 + 8) // digests of what was taken
	d.uint()      // the last record that was acknowledged
	c.at = *origin + int64(d.uint())
	for range d.uint() {
		d.uint()
	}
	if parked, skipped := d.uint(), d.uint(); parked+skipped > 0 {
		return fmt.Errorf("%d records are quarantined, and %d wait behind them", skipped, parked)
	}
	if flags&4 != 0 {
		d.bytes() // the digest of what it changed
	}
	for len(d.data) > 0 && !d.bad {
		op, part := int(d.uint()), decoder{data: d.bytes()}
		for range part.uint() {
			part.bytes() // a key that was taken
		}
		for range part.uint() {
			o := output{op: op}
			var value any = &o.tally
			if op == h.ops.claimed {
				value = &o.claim
			}
			if err := durable.CBOR().Decode(part.bytes(), &o.key); err != nil {
				return err
			}
			if err := durable.CBOR().Decode(part.bytes(), value); err != nil {
				return err
			}
			c.outputs = append(c.outputs, o)
		}
		if dropped := part.uint(); dropped > 0 || part.bad || len(part.data) > 0 {
			return fmt.Errorf("%d entries were dropped of operator %d, and %d bytes follow", dropped, op, len(part.data))
		}
	}
	if d.bad {
		return fmt.Errorf("it is damaged")
	}
	h.steps = append(h.steps, c)
	return nil
}

// A decoder reads numbers and byte strings.
type decoder struct {
	data []byte
	bad  bool
}

func (d *decoder) skip(n int) []byte {
	if n <= 0 || n > len(d.data) {
		d.bad, d.data = true, nil
		return nil
	}
	b := d.data[:n]
	d.data = d.data[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.skip(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint() uint64 {
	x, n := binary.Uvarint(d.data)
	d.skip(n)
	return x
}

func (d *decoder) int() int64 {
	x, n := binary.Varint(d.data)
	d.skip(n)
	return x
}

func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.data)) {
		n = 0
	}
	return d.skip(int(n))
}
