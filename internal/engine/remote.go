package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// A remote graph is the door to a flow whose history is elsewhere: what is sent to its
// inputs goes there, and its outputs have what comes from there. Its operators never
// run. So a program uses the same ports wherever its flow is run.

// Remote is where the history of a remote graph is.
type Remote interface {
	// Send makes records part of the history of a location, in order for each partition.
	// It returns when that is durable, and how many of them, from the first one, are.
	// If unique there is one record, and Send returns when it is known not to be
	// refused: else ErrDuplicate.
	Send(ctx context.Context, site int, rs []Record, unique bool) (int, error)

	// Read says that all elements of a stream before number have been read. It does not
	// wait.
	Read(site int, op int32, source int, number uint64)

	// Taken says that an entry was taken. It returns when that is durable.
	Taken(ctx context.Context, site int, op int32, key []byte) error

	// Want says that somebody waits for an entry, until the returned function is called.
	Want(site int, op int32, key []byte) (done func())

	// Stopped returns why the location takes nothing, or nil if it does or nobody here knows.
	Stopped(site int) *Blocked
}

// Location returns the name of location number i.
func (g *Graph) Location(i int) string { return g.sites[i].name }

// Shape describes what the history of location number i depends on; see
// [Leader.Shape].
func (g *Graph) Shape(i int) string { return g.sites[i].shape() }

// Values returns the outputs of values that change at location number i.
func (g *Graph) Values(i int) (ops []*Op) {
	for _, op := range g.sites[i].ops {
		if out, err := g.sites[i].output(op.index); err == nil && out.valued() {
			ops = append(ops, op)
		}
	}
	return ops
}

// Latest reads the outputs of values that change at location number i, all after the same
// step, and returns a function that appends what they showed, in the form of what a step
// gives. Latest is not called during [Graph.Feed]; the function may be.
func (g *Graph) Latest(i int) func(dst []byte) ([]byte, error) {
	var ops []*Op
	var appends []func([]byte, Codec) ([]byte, error)
	for _, op := range g.sites[i].ops {
		if out, err := g.sites[i].output(op.index); err == nil {
			if f := out.latest(); f != nil {
				ops, appends = append(ops, op), append(appends, f)
			}
		}
	}
	return func(dst []byte) (_ []byte, err error) {
		for j, f := range appends {
			if dst, err = f(dst, g.set.Codec); err != nil {
				return dst, fmt.Errorf("%s: %w", ops[j], err)
			}
		}
		return dst, nil
	}
}

func (out *CellOutlet[T]) latest() func(dst []byte, c Codec) ([]byte, error) {
	out.mu.Lock()
	value, set, version := out.value, out.set, out.version
	out.mu.Unlock()
	if version == 0 {
		return nil
	}
	return func(dst []byte, c Codec) ([]byte, error) {
		return appendCell(binary.AppendUvarint(dst, uint64(out.op.index)), c, value, set)
	}
}

func appendCell[T any](dst []byte, c Codec, value T, set bool) ([]byte, error) {
	if !set {
		return append(dst, 0), nil
	}
	return appendValue(append(dst, 1), c, value)
}

// Feed publishes at the ports of location number i what a step gave: all of it, or
// nothing if it returns an error. The source tells the partitions of a location apart. It
// is called by one goroutine at a time.
func (g *Graph) Feed(i, source int, outputs []byte) error {
	s := g.sites[i]
	if err := s.feed(source, outputs); err != nil {
		for _, p := range s.ports {
			p.forget()
		}
		s.ports = s.ports[:0]
		return err
	}
	s.publish()
	return nil
}

// feed decodes what a step gave without making it visible.
func (s *Site) feed(source int, outputs []byte) error {
	d := &decoder{data: outputs}
	for len(d.data) > 0 {
		op := int32(d.uint())
		out, err := s.output(op)
		if err != nil {
			return err
		}
		if p, ok := out.(port); ok {
			if slices.Contains(s.ports, p) {
				return fmt.Errorf("%w: %s is named twice", errRecord, s.ops[op])
			}
			s.ports = append(s.ports, p)
		}
		if out.feed(d, s.g.set.Codec, source); d.err != nil {
			return fmt.Errorf("%s: %w", s.ops[op], d.err)
		}
	}
	return nil
}

// FeedEntry gives an output of entries one that was found elsewhere.
func (g *Graph) FeedEntry(i int, op int32, key, value []byte) error {
	data := binary.AppendUvarint(nil, uint64(op))
	data = append(data, 1) // entry
	data = appendBytes(data, key)
	return g.Feed(i, 0, appendBytes(data, value))
}

// A mark says how far the elements of an output are those of one step.
type mark struct {
	source int
	number uint64 // that the element after them has at its source
	left   int    // of them, not read yet
}

func (out *Outlet[T]) feed(d *decoder, c Codec, source int) {
	first := d.uint()
	n := d.count()
	for range n {
		out.step = append(out.step, decodeValue[T](d, c))
	}
	if d.err != nil {
		return
	}
	if out.fed == nil {
		out.fed = make(map[int]uint64)
	}
	// What is fed again after a change of owners, and was not read yet, is here already.
	if have := out.fed[source]; have > first {
		again := int(min(have-first, uint64(n)))
		out.step = slices.Delete(out.step, 0, again)
		first, n = first+uint64(again), n-again
	}
	out.fresh = mark{source, first + uint64(n), n}
}

// popped notes, with mu held, that an element was handed to a reader. The elements of
// a step count as read when the reader comes back after the last of them, since it
// has handled that then.
func (out *Outlet[T]) popped() {
	m := &out.marks[0]
	if m.left--; m.left == 0 {
		out.handled = append(out.handled, *m)
		out.marks = append(out.marks[:0], out.marks[1:]...)
	}
}

// tell says what was read.
func (out *Outlet[T]) tell() {
	out.mu.Lock()
	handled := out.handled
	out.handled = nil
	out.mu.Unlock()
	for _, m := range handled {
		out.remote.Read(out.site.number, out.op.index, m.source, m.number)
	}
}

func (out *KOutlet[K, V]) feed(d *decoder, c Codec, _ int) {
	for range d.count() {
		k := decodeValue[K](d, c)
		v := decodeValue[V](d, c)
		if d.err != nil {
			break
		}
		out.step.k = append(out.step.k, k)
		out.step.v = append(out.step.v, v)
		out.step.h = append(out.step.h, out.hash.Hash(k))
	}
}

func (out *CellOutlet[T]) feed(d *decoder, c Codec, _ int) {
	var zero T
	out.cell.value, out.cell.set = zero, d.byte() == 1
	if out.cell.set {
		out.cell.value = decodeValue[T](d, c)
	}
}

// sendRemote makes elements records of the history.
func (in *Inlet[T]) sendRemote(ctx context.Context, xs ...T) (int, error) {
	rs, err := in.records(xs)
	if err != nil || len(rs) == 0 {
		return 0, err
	}
	return in.site.g.set.Remote.Send(ctx, in.site.number, rs, false)
}

// sendRemote makes an entry a record of the history.
func (in *KInlet[K, V]) sendRemote(ctx context.Context, k K, v V) error {
	rs, err := in.records(k, []V{v})
	if err != nil {
		return err
	}
	_, err = in.site.g.set.Remote.Send(ctx, in.site.number, rs, in.seen != nil)
	return err
}

// wantRemote says that somebody waits for an entry.
func (out *KOutlet[K, V]) wantRemote(r Remote, k K) (done func(), err error) {
	key, err := out.site.g.set.Codec.Append(nil, k)
	if err != nil {
		return nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, out.op, err)
	}
	if err := survives(out.site.g.set.Codec, k, key); err != nil {
		return nil, out.op.badKey(k, err)
	}
	return r.Want(out.site.number, out.op.index, key), nil
}

// takenRemote says that an entry was taken.
func (out *KOutlet[K, V]) takenRemote(ctx context.Context, r Remote, k K) error {
	key, err := out.site.g.set.Codec.Append(nil, k)
	if err != nil {
		return err
	}
	return r.Taken(ctx, out.site.number, out.op.index, key)
}

// Get waits for an entry of an output and returns its encoded value.
func (g *Graph) Get(ctx context.Context, i int, op int32, key []byte) ([]byte, error) {
	out, err := g.sites[i].output(op)
	if err != nil {
		return nil, err
	}
	return out.find(ctx, key, g.set.Codec)
}

func (out *KOutlet[K, V]) find(ctx context.Context, key []byte, c Codec) ([]byte, error) {
	var k K
	if err := c.Decode(key, &k); err != nil {
		return nil, err
	}
	v, err := out.await(ctx, k, false, nil)
	if err != nil {
		return nil, err
	}
	return c.Append(nil, v)
}

// End ends a remote graph: outputs have nothing more to come once what they have was
// read, and fail with err then if that is not nil.
func (g *Graph) End(err error) {
	if err != nil {
		g.Fail(err)
		return
	}
	for _, s := range g.sites {
		s.mu.Lock()
		s.closing, s.stopping = true, true
		s.refuseAll()
		s.quiet()
		s.mu.Unlock()
	}
}

// ReadRecord and TakenRecord are the records by which readers tell a location how far
// they are.
func ReadRecord(op int32, number uint64) Record {
	return Record{Op: op, Kind: kindRead, Number: number}
}

// SentRecord is the record by which a location hears that what one of its links gave
// before number was sent; see [Moved].
func SentRecord(link int32, id, number uint64) Record {
	return Record{Op: link, Kind: kindRead, Nonce: id, Number: number}
}

// TakenRecord is described at [ReadRecord].
func TakenRecord(op int32, key []byte) Record {
	return Record{Op: op, Kind: kindTaken, Key: key}
}
