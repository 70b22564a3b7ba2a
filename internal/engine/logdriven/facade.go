package logdriven

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/token"
)

// elsewhereRun is the common part of drivers of graphs whose locations this process does not run by itself. Their run tokens are
// never free.
type elsewhereRun struct{}

func (elsewhereRun) Prepare(*engine.Graph) {}

func (elsewhereRun) Start(*engine.Location) {}

func (elsewhereRun) Retire(*engine.Location) {}

func (elsewhereRun) Arm(*engine.Location) {}

func (elsewhereRun) Perform(*engine.Location, *engine.Plan) bool {
	panic("millrace: internal error: a location was run that is run elsewhere: please report it")
}

func (elsewhereRun) Settle(s *engine.Location, _ int) bool {
	s.Mu.Unlock()
	return true
}

func (elsewhereRun) HandOver(s *engine.Location) { s.Mu.Unlock() }

func (elsewhereRun) Wait(ctx context.Context, _ *engine.Location, w *token.Waiter) error {
	return w.Wait(ctx)
}

func (elsewhereRun) Deliver(x engine.Delivery) { x.Deliver() }

func (elsewhereRun) Arrived(l *engine.Edge) { l.To.Mu.Unlock() }

func (elsewhereRun) Ask(s *engine.Location) <-chan struct{} {
	s.Mu.Unlock()
	return nil
}

func (elsewhereRun) Bounded() bool { return true }

func (elsewhereRun) Ended(ctx context.Context, g *engine.Graph) error { return g.EndOrFail(ctx) }

// A facade is the driver of a graph that has only the ports of a flow that runs elsewhere.
type facade struct{ elsewhereRun }

func (facade) Now(*engine.Location) int64 {
	panic("millrace: internal error: a location that runs elsewhere has no time: please report it")
}

func (facade) Admit(_ context.Context, in *engine.InputBase) (engine.Admission, error) {
	if in.Shut.Load() {
		return engine.Refused, engine.ErrClosed
	}
	return engine.Elsewhere, nil
}

// Facade makes an empty graph one that has only the ports of a flow that runs elsewhere.
func Facade(g *engine.Graph, codec codec.Codec, remote engine.Remote) {
	g.Driver, g.Settings.Codec, g.Settings.Remote = facade{}, codec, remote
}

// Values returns the outputs of values that change at location number i.
func Values(g *engine.Graph, i int) (ops []*engine.Op) {
	for _, op := range g.Locations[i].Ops {
		if out, err := g.Locations[i].Output(op.Index); err == nil && out.Valued() {
			ops = append(ops, op)
		}
	}
	return ops
}

// Latest reads the outputs of changing values at location number i, all after the same step, and returns a function that appends
// what they showed, in the format of the results of a step. Latest must not be called during [Feed]; the function may be.
func Latest(g *engine.Graph, i int, n *Numbers) func(dst []byte) ([]byte, error) {
	var ops []*engine.Op
	var appends []func([]byte, codec.Codec) ([]byte, error)
	for _, op := range g.Locations[i].Ops {
		if out, err := g.Locations[i].Output(op.Index); err == nil {
			if f := out.Showing(); f != nil {
				ops, appends = append(ops, op), append(appends, f)
			}
		}
	}
	return func(dst []byte) (_ []byte, err error) {
		for j, f := range appends {
			part, err := f(nil, g.Settings.Codec)
			if err != nil {
				return dst, fmt.Errorf("%s: %w", ops[j], err)
			}
			if number, ok := n.Number(ops[j].Index); ok {
				dst = codec.AppendBytes(binary.AppendUvarint(dst, uint64(number)), part)
			}
		}
		return dst, nil
	}
}

// Feed publishes the results of a step at the ports of location number i: all of them, or none if it returns an error. source
// distinguishes the partitions of a location. Feed is called by one goroutine at a time. It ignores results of operators that the
// program does not have. gave is that of the step, if it was made in this process.
func Feed(g *engine.Graph, i, source int, n *Numbers, outputs []byte, gave ...Gave) error {
	return publish(g.Locations[i], func(s *engine.Location) error { return feed(s, source, n, outputs, gave...) })
}

// FeedFrom is [FeedWhole] with what the outputs of an executor in this process keep.
func FeedFrom(g *engine.Graph, i, source int, l *Executor, of func(op *engine.Op, key []byte) bool) error {
	return publish(g.Locations[i], func(s *engine.Location) error {
		var others []byte
		for _, from := range l.loc.OutputsInOrder {
			if kept, ok := from.(engine.Sharing); ok {
				to, err := s.Output(from.Operator().Index)
				if err != nil {
					return err
				}
				if to.(engine.Sharing).FeedFrom(kept) {
					continue
				}
			}
			var err error
			if others, err = l.give(others, from.Operator(), from.Kept); err != nil {
				return err
			}
		}
		if err := feed(s, source, l.numbers, others); err != nil {
			return err
		}
		return whole(s, of)
	})
}

// FeedWhole is [Feed] with everything that the outputs of a partition have. The entries of the partition are those with keys for
// which of reports true. Of these, the ports drop the ones that outputs does not contain.
func FeedWhole(g *engine.Graph, i, source int, n *Numbers, outputs []byte, of func(op *engine.Op, key []byte) bool) error {
	return publish(g.Locations[i], func(s *engine.Location) error {
		if err := feed(s, source, n, outputs); err != nil {
			return err
		}
		return whole(s, of)
	})
}

// whole makes the ports drop entries that the last feed did not contain, among keys for which of reports true.
func whole(s *engine.Location, of func(op *engine.Op, key []byte) bool) error {
	for _, out := range s.OutputsInOrder {
		if p, ok := out.(engine.Port); ok {
			changed, err := p.Whole(of, s.Graph.Settings.Codec)
			if err != nil {
				return err
			}
			if changed {
				s.Ports = append(s.Ports, p)
			}
		}
	}
	return nil
}

// publish makes visible what change does to the ports: all of it, or nothing if change returns an error.
func publish(s *engine.Location, change func(*engine.Location) error) error {
	if err := change(s); err != nil {
		for _, out := range s.OutputsInOrder {
			if p, ok := out.(engine.Port); ok {
				p.Forget()
			}
		}
		s.Ports = s.Ports[:0]
		return err
	}
	s.Publish()
	return nil
}

// feed decodes the results of a step without making them visible.
func feed(s *engine.Location, source int, n *Numbers, outputs []byte, gave ...Gave) error {
	d := &codec.Decoder{Data: outputs}
	for len(d.Data) > 0 {
		number, part := int32(d.Uint()), &codec.Decoder{Data: d.Bytes()}
		if d.Err != nil {
			return d.Err
		}
		op, ok := n.Op(number)
		if !ok {
			continue
		}
		out, err := s.Output(op)
		if err != nil {
			return err
		}
		if p, ok := out.(engine.Port); ok {
			if slices.Contains(s.Ports, p) {
				return fmt.Errorf("%w: %s is named twice", codec.ErrRecord, s.Ops[op])
			}
			s.Ports = append(s.Ports, p)
		}
		if sharing, ok := out.(engine.Sharing); ok {
			for _, x := range gave {
				if x.number == number {
					sharing.Share(x.values)
				}
			}
		}
		if out.Feed(part, s.Graph.Settings.Codec, source); part.Err == nil && len(part.Data) > 0 {
			part.Fail()
		}
		if part.Err != nil {
			return fmt.Errorf("%s: %w", s.Ops[op], part.Err)
		}
	}
	return nil
}

// FeedEntry gives an entry that was found elsewhere to the callers that wait for it.
func FeedEntry(g *engine.Graph, i int, op int32, key, value []byte) error {
	return publish(g.Locations[i], func(s *engine.Location) error {
		out, err := s.Output(op)
		if err != nil {
			return err
		}
		if p, ok := out.(engine.Port); ok {
			s.Ports = append(s.Ports, p)
		}
		return out.Found(key, value, g.Settings.Codec)
	})
}

// Get waits for an entry of an output and returns its encoded value.
func Get(g *engine.Graph, ctx context.Context, i int, op int32, key []byte) ([]byte, error) {
	out, err := g.Locations[i].Output(op)
	if err != nil {
		return nil, err
	}
	return out.Find(ctx, key, g.Settings.Codec)
}

// End ends a remote graph: once what its outputs hold has been read, they end, with err if that is not nil.
func End(g *engine.Graph, err error) {
	if err != nil {
		g.Fail(err)
		return
	}
	for _, s := range g.Locations {
		s.Mu.Lock()
		s.Closing, s.Stopping = true, true
		s.RefuseAll()
		s.Quiet()
		s.Mu.Unlock()
	}
}

// Abandon ends location number i of a remote graph, and no other one: its outputs fail with err.
func Abandon(g *engine.Graph, i int, err error) { g.Locations[i].Abandon(err) }

// ReadRecord returns the record with which a reader tells a location that it has read everything before number.
func ReadRecord(op int32, number uint64) codec.Record {
	return codec.Record{Op: op, Kind: codec.KindRead, Number: number}
}

// SentRecord returns the record that tells a location that what one of its edges gave before number was sent; see [engine.Moved].
func SentRecord(link int32, id, number uint64) codec.Record {
	return codec.Record{Op: link, Kind: codec.KindRead, Nonce: id, Number: number}
}

// TakenRecord returns the record with which a reader takes an entry.
func TakenRecord(op int32, key []byte) codec.Record {
	return codec.Record{Op: op, Kind: codec.KindTaken, Key: key}
}
