package engine

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// In a led graph what a step gives for another location is part of the state until a
// record says that it was sent: until then whoever leads sends it, and again after a
// crash. The other location knows a repeat by its source and number. A link has an
// operator at both ends then, for the records of both locations.

// An outbox is the end of a link at the location that it comes from.
type outbox struct {
	link  *link
	op    *Op   // its operator at the location that it comes from
	to    int32 // number of its operator at the other one
	types string
	show  func(d *describer, c Codec, number uint64, x sent)

	id     uint64 // among all links that the history ever had
	loaded bool   // the saved state says so
	first  uint64 // the number of buf[0], of all elements ever
	handed uint64 // the number of the element that is handed out next
	buf    []sent // what is not known to be sent
}

// A sent is one element, encoded. Only keyed ones have a key.
type sent struct{ key, value []byte }

// A Moved is an element for another location.
type Moved struct {
	Link   int32  // number of the operator that a [SentRecord] is for
	ID     uint64 // tells the links of a location apart, and is used once in a history
	Site   int    // number of the location
	Within bool   // what is sent there comes back, over others or not
	Record Record // its number is one more than how many there were before
}

// linkCount is the source under which the state says how many links there ever were.
const linkCount = "\x00links"

// Kept reports whether the history of the graph is kept outside.
func (g *Graph) Kept() bool { return g.set.Codec != nil }

// newOutbox gives a link what it needs in a graph whose history is kept outside: nil in
// others. The reader is the operator at the other location.
func newOutbox(l *link, reader *Op, src *Head, in taker, types string, show func(*describer, Codec, uint64, sent)) *outbox {
	if !l.from.g.Kept() {
		return nil
	}
	b := &outbox{link: l, op: NewOp(l.from, reader.Name, ""), to: reader.index, types: types, show: show}
	if src.op != nil {
		b.op.ins = append(b.op.ins, src.op)
	}
	reader.ins = []*Op{b.op}
	l.from.moving.boxes = append(l.from.moving.boxes, b)
	l.from.takers[b.op.index], l.from.feeds[b.op.index] = b, b
	l.to.takers[reader.index] = in
	b.op.keeps(b)
	return b
}

// put keeps an element and appends it to what the step gives.
func (b *outbox) put(dst []byte, x sent) []byte {
	b.buf = append(b.buf, x)
	return appendBytes(appendBytes(dst, x.key), x.value)
}

// announce appends what comes before n elements of a step.
func (b *outbox) announce(dst []byte, n int) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.op.index))
	dst = binary.AppendUvarint(dst, b.first+uint64(len(b.buf)))
	return binary.AppendUvarint(dst, uint64(n))
}

// emit appends the elements of the step, and keeps them until they were sent.
func (m *move[T]) emit(dst []byte, c Codec) ([]byte, error) {
	dst = m.box.announce(dst, len(m.step))
	for _, x := range m.step {
		value, err := c.Append(nil, x)
		if err != nil {
			return dst, fmt.Errorf("%s: encoding a %T: %w", m.box.op, x, err)
		}
		dst = m.box.put(dst, sent{value: value})
	}
	clear(m.step)
	m.step = m.step[:0]
	return dst, nil
}

// emit appends the entries of the step, and keeps them until they were sent.
func (m *kmove[K, V]) emit(dst []byte, c Codec) ([]byte, error) {
	m.dirty = false
	dst = m.box.announce(dst, len(m.step.k))
	for i, k := range m.step.k {
		key, err := c.Append(nil, k)
		if err != nil {
			return dst, fmt.Errorf("%s: encoding a key %T: %w", m.box.op, k, err)
		}
		value, err := c.Append(nil, m.step.v[i])
		if err != nil {
			return dst, fmt.Errorf("%s: encoding a %T of key %v: %w", m.box.op, m.step.v[i], k, err)
		}
		dst = m.box.put(dst, sent{key, value})
	}
	clear(m.step.k)
	clear(m.step.v)
	m.step = columns[K, V]{m.step.k[:0], m.step.v[:0], m.step.h[:0]}
	return dst, nil
}

// takeRecord forgets what was sent.
func (b *outbox) takeRecord(r *Record, _ Codec) (bool, error) {
	if r.Kind != kindRead {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", errRecord, r.Kind, b.op)
	}
	if r.Nonce != b.id { // it is of a link that the program had here before
		return true, nil
	}
	if r.Number <= b.first || r.Number > b.first+uint64(len(b.buf)) {
		return true, nil
	}
	b.buf = slices.Delete(b.buf, 0, int(r.Number-b.first))
	b.first = r.Number
	b.handed = max(b.handed, b.first) // somebody else sent it
	return true, nil
}

func (b *outbox) full() bool { return len(b.buf) > b.link.from.g.set.Queue }

func (b *outbox) kind() string { return "unsent(" + b.link.to.name + "," + b.types + ")" }

func (b *outbox) save(dst []byte, _ Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, b.id)
	dst = binary.AppendUvarint(dst, b.first)
	dst = binary.AppendUvarint(dst, uint64(len(b.buf)))
	for _, x := range b.buf {
		dst = appendBytes(appendBytes(dst, x.key), x.value)
	}
	return dst, nil
}

func (b *outbox) load(d *decoder, _ Codec) {
	id, first := d.uint(), d.uint()
	var buf []sent
	for range d.count() {
		buf = append(buf, sent{slices.Clone(d.bytes()), slices.Clone(d.bytes())})
	}
	if d.err == nil {
		b.id, b.loaded, b.first, b.handed, b.buf = id, true, first, first, buf
	}
}

func (b *outbox) describe(d *describer) {
	for i, x := range b.buf {
		b.show(d, b.link.from.g.set.Codec, b.first+uint64(i), x)
	}
}

// feed passes over what is for another location: its ports are not concerned.
func (b *outbox) feed(in *decoder, _ Codec, _ int) {
	in.uint()
	for range in.count() {
		in.bytes()
		in.bytes()
	}
}

func (b *outbox) describeFed(in *decoder, c Codec, d *describer) {
	first := in.uint()
	for i := range in.count() {
		x := sent{in.bytes(), in.bytes()}
		if in.err == nil {
			b.show(d, c, first+uint64(i), x)
		}
	}
}

// showSent describes an element.
func showSent[T any](d *describer, c Codec, number uint64, x sent) {
	var v T
	if err := c.Decode(x.value, &v); err != nil {
		d.entry("%d: %v", number, err)
		return
	}
	d.entry("%d: %+v", number, v)
}

// showSentEntry describes an entry.
func showSentEntry[K comparable, V any](d *describer, c Codec, number uint64, x sent) {
	var k K
	var v V
	if err := decodeEntry(&Record{Key: x.key, Value: x.value}, c, &k, &v); err != nil {
		d.entry("%d: %v", number, err)
		return
	}
	d.entry("%d: %v: %+v", number, k, v)
}

// Moved returns what is for other locations and was not returned before, of each link in
// order. It is called when the steps that gave it are durable. After a restore it is all
// that is not known to be sent.
func (l *Leader) Moved() (all []Moved) {
	for _, b := range l.site.moving.boxes {
		for ; b.handed < b.first+uint64(len(b.buf)); b.handed++ {
			x := b.buf[b.handed-b.first]
			all = append(all, Moved{
				Link: b.op.index, ID: b.id, Site: b.link.to.number, Within: b.link.within,
				Record: Record{Op: b.to, Number: b.handed + 1, Key: x.key, Value: x.value},
			})
		}
	}
	return all
}

// identify gives the links numbers that none of the history had before: a link that a
// changed program has for the first time must not be taken for another one, whose
// records the other location knows.
func (l *Leader) identify() {
	last := l.sources[linkCount].number
	for _, b := range l.site.moving.boxes {
		if !b.loaded {
			last++
			b.id = last
		}
	}
	if last > 0 {
		l.sources[linkCount] = sourced{number: last}
	}
}
