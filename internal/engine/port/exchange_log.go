package port

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
)

// In a log-driven graph, what a step gives for another location is part of the state until a record says that it was sent. Until
// then the executor of the step's location sends it, and sends it again after a crash. The other location recognizes a repeat by
// its source and number. Such an edge has an operator at both ends, for the records of both locations.

// An edgeSender is the sending end of an edge. In a graph whose history is kept outside, it has an operator of its own and keeps what
// is not known to be sent; in other graphs it uses the operator of the receiving end.
type edgeSender struct {
	*engine.Edge
	engine.Inner
	op     *engine.Op // its operator
	reader int32      // number of the operator at the other location
	types  string
	show   func(d *codec.Describer, c codec.Codec, number uint64, x sent)

	id     uint64 // unique among all edges that the history ever had
	loaded bool   // id comes from the saved state
	first  uint64 // the number of buf[0] among all elements ever
	handed uint64 // the number of the next element to hand out
	buf    []sent // what is not known to be sent
	*state.Queue[sent]
}

// A sent is one encoded element. Only keyed elements have a key.
type sent struct {
	key, value []byte
	all        bool // it is for every partition, not only for that of its key
}

func (x *sent) append(dst []byte) []byte {
	return codec.AppendBytes(codec.AppendBytes(append(dst, codec.Flag(x.all)), x.key), x.value)
}

// nextSent decodes what append encoded. The result shares memory with the data.
func nextSent(d *codec.Decoder) sent {
	all := d.Byte() == 1
	return sent{d.Bytes(), d.Bytes(), all}
}

func (x sent) clone() sent { return sent{slices.Clone(x.key), slices.Clone(x.value), x.all} }

// newEdgeSender makes the sending end of an edge whose reader is the operator at the other location.
func newEdgeSender(l *engine.Edge, reader *engine.Op, src *engine.Head, types string, show func(*codec.Describer, codec.Codec, uint64, sent)) *edgeSender {
	b := &edgeSender{Edge: l, op: reader, reader: reader.Index, types: types, show: show}
	if !l.From.Graph.Kept() {
		return b
	}
	b.op = engine.NewOp(l.From, reader.Name, "")
	if src.Op != nil {
		b.op.Ins = append(b.op.Ins, src.Op)
	}
	reader.Ins = []*engine.Op{b.op}
	b.Queue = state.NewQueue(&b.first, &b.buf, sentCodec)
	engine.Lasting(b.op).Add(nil, func(*engine.Op) engine.State { return b })
	return b
}

func (b *edgeSender) Operator() *engine.Op { return b.op }

func (b *edgeSender) Loops() bool { return false }

func (b *edgeSender) Exchange() *engine.Edge { return b.Edge }

func (b *edgeSender) Over() (engine.Blocked, bool) {
	return engine.Blocked{Op: b.op, Waiting: len(b.buf), Bound: b.From.Graph.Settings.Queue}, false
}

// put keeps an element and appends it to the output of the step, unless no record can have it.
func (b *edgeSender) put(dst []byte, x sent) ([]byte, error) {
	if size, most := len(x.key)+len(x.value), b.From.MostSent; most > 0 && size > most {
		return dst, fmt.Errorf("an element for %s has %d bytes, and a record of the log can have %d", b.To.Name, size, most)
	}
	b.buf = append(b.buf, x)
	b.Came(1)
	return x.append(dst), nil
}

// announce appends the header of n elements of a step.
func (b *edgeSender) announce(dst []byte, n int) []byte {
	dst = binary.AppendUvarint(dst, b.first+uint64(len(b.buf)))
	return binary.AppendUvarint(dst, uint64(n))
}

// Emit appends the elements of the step, and keeps them until they are sent.
func (m *exchange[T]) Emit(dst []byte, c codec.Codec) ([]byte, error) {
	dst = m.announce(dst, len(m.step))
	for _, x := range m.step {
		value, err := c.Append(nil, x)
		if err != nil {
			return dst, fmt.Errorf("encoding a %T: %w", x, err)
		}
		if dst, err = m.put(dst, sent{value: value, all: m.all != nil && m.all(&x)}); err != nil {
			return dst, err
		}
	}
	m.Discard()
	return dst, nil
}

// Emit appends the entries of the step, and keeps them until they are sent.
func (m *keyedExchange[K, V]) Emit(dst []byte, c codec.Codec) ([]byte, error) {
	dst = m.announce(dst, len(m.step.K))
	for i, k := range m.step.K {
		key, err := c.Append(nil, k)
		if err != nil {
			return dst, fmt.Errorf("encoding a key %T: %w", k, err)
		}
		value, err := c.Append(nil, m.step.V[i])
		if err != nil {
			return dst, &engine.EntryError{Key: k, Err: fmt.Errorf("encoding a %T: %w", m.step.V[i], err)}
		}
		if dst, err = m.put(dst, sent{key, value, m.all != nil && m.all(&m.step.V[i])}); err != nil {
			return dst, &engine.EntryError{Key: k, Err: err}
		}
	}
	m.Discard()
	return dst, nil
}

// Adopt implements [engine.Output].
func (b *edgeSender) Adopt(d *codec.Decoder, _ codec.Codec) {
	if first := d.Uint(); first != b.first+uint64(len(b.buf)) {
		d.Fail()
	}
	for range d.Count() {
		b.buf = append(b.buf, nextSent(d).clone())
		b.Came(1)
	}
}

// Acknowledge drops what was sent.
func (b *edgeSender) Acknowledge(r *codec.Record, _ codec.Codec) (bool, error) {
	if r.Kind != codec.KindRead {
		return false, fmt.Errorf("%w: it is of kind %d, for %s", codec.ErrRecord, r.Kind, b.op)
	}
	if r.Nonce != b.id { // of an edge that the program had here before
		return true, nil
	}
	if r.Number <= b.first || r.Number > b.first+uint64(len(b.buf)) {
		return true, nil
	}
	b.Go(int(r.Number - b.first))
	b.buf = slices.Delete(b.buf, 0, int(r.Number-b.first))
	b.first = r.Number
	b.handed = max(b.handed, b.first) // another executor sent it
	return true, nil
}

func (b *edgeSender) Full() bool { return len(b.buf) > b.From.Graph.Settings.Queue }

func (b *edgeSender) Kind() string { return "unsent(" + b.To.Name + "," + b.types + ")" }

func (b *edgeSender) Save(dst []byte, c codec.Codec) ([]byte, error) {
	return b.Queue.Save(binary.AppendUvarint(dst, b.id), c)
}

func (b *edgeSender) Load(d *codec.Decoder, c codec.Codec) {
	id := d.Uint()
	if b.Queue.Load(d, c); d.Err == nil {
		b.id, b.loaded, b.handed = id, true, b.first
	}
}

// sentCodec is the codec of an element.
var sentCodec = codec.Of[sent]{
	Save: func(dst []byte, _ codec.Codec, x *sent) ([]byte, error) { return x.append(dst), nil },
	Load: func(d *codec.Decoder, _ codec.Codec, x *sent) { *x = nextSent(d).clone() },
}

func (b *edgeSender) Describe(d *codec.Describer) {
	for i, x := range b.buf {
		b.show(d, b.From.Graph.Settings.Codec, b.first+uint64(i), x)
	}
}

// Feed skips what is for another location: it does not concern this location's ports.
func (b *edgeSender) Feed(in *codec.Decoder, _ codec.Codec, _ int) {
	in.Uint()
	for range in.Count() {
		nextSent(in)
	}
}

func (b *edgeSender) DescribeFed(in *codec.Decoder, c codec.Codec, d *codec.Describer) {
	first := in.Uint()
	for i := range in.Count() {
		x := nextSent(in)
		if in.Err == nil {
			b.show(d, c, first+uint64(i), x)
		}
	}
}

// showSent describes an element.
func showSent[T any](d *codec.Describer, c codec.Codec, number uint64, x sent) {
	var v T
	if err := c.Decode(x.value, &v); err != nil {
		d.Entry("%d: %v", number, err)
		return
	}
	d.Entry("%d: %+v", number, v)
}

// showSentEntry describes an entry.
func showSentEntry[K comparable, V any](d *codec.Describer, c codec.Codec, number uint64, x sent) {
	var k K
	var v V
	if err := decodeEntry(&codec.Record{Key: x.key, Value: x.value}, c, &k, &v); err != nil {
		d.Entry("%d: %v", number, err)
		return
	}
	d.Entry("%d: %v: %+v", number, k, v)
}

// Moved appends what is for the other location and was not returned yet.
func (b *edgeSender) Moved(all []engine.Moved) []engine.Moved {
	for ; b.handed < b.first+uint64(len(b.buf)); b.handed++ {
		x := b.buf[b.handed-b.first]
		all = append(all, engine.Moved{
			Link: b.op.Index, ID: b.id, Location: b.To.Number, Within: b.Within, All: x.all,
			Record: codec.Record{Op: b.reader, Number: b.handed + 1, Key: x.key, Value: x.value},
		})
	}
	return all
}

// Identify numbers the edge if the history had no number for it, and returns the last number
// that was given.
func (b *edgeSender) Identify(last uint64) uint64 {
	if !b.loaded {
		last++
		b.id = last
	}
	return last
}

// Figures implements [engine.Output]. In a graph whose history is kept outside, the owner of the
// executor calls it, and Unread is what is not known to be sent.
func (b *edgeSender) Figures() engine.OutputStatus {
	o := engine.OutputStatus{Op: b.op, Kind: engine.Sent, Unread: len(b.buf), Given: b.first + uint64(len(b.buf))}
	if b.From.Graph.Kept() {
		o.Bound = b.From.Graph.Settings.Queue
	}
	return o
}

func (b *edgeSender) Size() (n int, bytes uint64) {
	return len(b.buf), uint64(cap(b.buf)) * uint64(unsafe.Sizeof(sent{}))
}
