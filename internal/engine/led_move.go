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

// A sending is the end of a link at the location that it comes from. In a graph whose
// history is kept outside it has an operator of its own there, and keeps what is not known
// to be sent; in others it has that of the other end.
type sending struct {
	*link
	inner
	op     *Op   // its operator
	reader int32 // number of the operator at the other location
	types  string
	show   func(d *describer, c Codec, number uint64, x sent)

	id     uint64 // among all links that the history ever had
	loaded bool   // the saved state says so
	first  uint64 // the number of buf[0], of all elements ever
	handed uint64 // the number of the element that is handed out next
	buf    []sent // what is not known to be sent
}

// A sent is one element, encoded. Only keyed ones have a key.
type sent struct{ key, value []byte }

// newSending makes the end of a link whose reader is the operator at the other location.
func newSending(l *link, reader *Op, src *Head, types string, show func(*describer, Codec, uint64, sent)) *sending {
	b := &sending{link: l, op: reader, reader: reader.index, types: types, show: show}
	if !l.from.g.Kept() {
		return b
	}
	b.op = NewOp(l.from, reader.Name, "")
	if src.op != nil {
		b.op.ins = append(b.op.ins, src.op)
	}
	reader.ins = []*Op{b.op}
	lasting(b.op).add(nil, func(*Op) state { return b })
	return b
}

func (b *sending) operator() *Op   { return b.op }
func (b *sending) loops() bool     { return false }
func (b *sending) exchange() *link { return b.link }
func (b *sending) over() (Blocked, bool) {
	return Blocked{Op: b.op, Waiting: len(b.buf), Bound: b.from.g.set.Queue}, false
}

// put keeps an element and appends it to what the step gives.
func (b *sending) put(dst []byte, x sent) []byte {
	b.buf = append(b.buf, x)
	return appendBytes(appendBytes(dst, x.key), x.value)
}

// announce appends what comes before n elements of a step.
func (b *sending) announce(dst []byte, n int) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.op.index))
	dst = binary.AppendUvarint(dst, b.first+uint64(len(b.buf)))
	return binary.AppendUvarint(dst, uint64(n))
}

// emit appends the elements of the step, and keeps them until they were sent.
func (m *move[T]) emit(dst []byte, c Codec) ([]byte, error) {
	dst = m.announce(dst, len(m.step))
	for _, x := range m.step {
		value, err := c.Append(nil, x)
		if err != nil {
			return dst, fmt.Errorf("%s: encoding a %T: %w", m.op, x, err)
		}
		dst = m.put(dst, sent{value: value})
	}
	m.discard()
	return dst, nil
}

// emit appends the entries of the step, and keeps them until they were sent.
func (m *kmove[K, V]) emit(dst []byte, c Codec) ([]byte, error) {
	dst = m.announce(dst, len(m.step.k))
	for i, k := range m.step.k {
		key, err := c.Append(nil, k)
		if err != nil {
			return dst, fmt.Errorf("%s: encoding a key %T: %w", m.op, k, err)
		}
		value, err := c.Append(nil, m.step.v[i])
		if err != nil {
			return dst, fmt.Errorf("%s: encoding a %T of key %v: %w", m.op, m.step.v[i], k, err)
		}
		dst = m.put(dst, sent{key, value})
	}
	m.discard()
	return dst, nil
}

// acknowledge forgets what was sent.
func (b *sending) acknowledge(r *Record, _ Codec) (bool, error) {
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

func (b *sending) full() bool { return len(b.buf) > b.from.g.set.Queue }

func (b *sending) kind() string { return "unsent(" + b.to.name + "," + b.types + ")" }

func (b *sending) save(dst []byte, _ Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, b.id)
	dst = binary.AppendUvarint(dst, b.first)
	dst = binary.AppendUvarint(dst, uint64(len(b.buf)))
	for _, x := range b.buf {
		dst = appendBytes(appendBytes(dst, x.key), x.value)
	}
	return dst, nil
}

func (b *sending) load(d *decoder, _ Codec) {
	id, first := d.uint(), d.uint()
	var buf []sent
	for range d.count() {
		buf = append(buf, sent{slices.Clone(d.bytes()), slices.Clone(d.bytes())})
	}
	if d.err == nil {
		b.id, b.loaded, b.first, b.handed, b.buf = id, true, first, first, buf
	}
}

func (b *sending) describe(d *describer) {
	for i, x := range b.buf {
		b.show(d, b.from.g.set.Codec, b.first+uint64(i), x)
	}
}

// feed passes over what is for another location: its ports are not concerned.
func (b *sending) feed(in *decoder, _ Codec, _ int) {
	in.uint()
	for range in.count() {
		in.bytes()
		in.bytes()
	}
}

func (b *sending) describeFed(in *decoder, c Codec, d *describer) {
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

// moved appends what is for the other location and was not returned before.
func (b *sending) moved(all []Moved) []Moved {
	for ; b.handed < b.first+uint64(len(b.buf)); b.handed++ {
		x := b.buf[b.handed-b.first]
		all = append(all, Moved{
			Link: b.op.index, ID: b.id, Site: b.to.number, Within: b.within,
			Record: Record{Op: b.reader, Number: b.handed + 1, Key: x.key, Value: x.value},
		})
	}
	return all
}

// identify gives the link a number if the history had none of it, and returns the last one
// that was given.
func (b *sending) identify(last uint64) uint64 {
	if !b.loaded {
		last++
		b.id = last
	}
	return last
}
