package connect

import (
	"context"
	"errors"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// A Port is where the records of a [Source] enter a flow. It has the markers of its stream, so a source with other markers does
// not compile with it. The flow stores the floors of the splits in addition, about 150 bytes for each split, including those that
// no longer exist.
type Port[K comparable, V any, O dataflow.Order, R dataflow.Retries] struct {
	_  [0]func(O, R)
	in input[K, V]
}

// An input is a port without its markers.
type input[K comparable, V any] struct {
	name   string
	send   func(ctx context.Context, split string, b *Batch[K, V]) (n int, err error) // see SendBatchAt of the ports of a flow
	floors *dataflow.SharedKeyedInputPort[place, floor]                               // nil if records have no positions

	notices *dataflow.SharedKeyedInputPort[string, window.SplitNotice] // nil if nobody needs notices; see SplitsInput
}

// A place names a split and the input that it is read for.
type place struct{ Input, Split string }

// A floor is what the history knows of a split: all records up to Position are durable. It only saves work, and may be too low
// but never too high: reading from an earlier position repeats records that the partitions have and drop.
type floor struct {
	Position dataflow.Position
	Version  string // of the source's decoding; see [Options]
	Clean    bool   // nothing after Position was sent
	Asked    uint64 // the number with which somebody last asked for the floor; see place in watch.go
}

// Input returns a port for a source in which the values of a key have an order, and the stream of its records; see [BySplit] and
// [ByKey].
//
// The port is an input of the flow with the given name, like any other. A flow that is simulated or tested uses [Port.Send]
// instead of a source.
func Input[K comparable, V any, L dataflow.Location](at L, name string) (
	*Port[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce],
) {
	in, records := keyedstream.Input[K, V](at, name)
	return &Port[K, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{in: input[K, V]{name: name, floors: floorsOf(at, name), send: func(ctx context.Context, split string, b *Batch[K, V]) (int, error) {
		return in.SendBatchAt(ctx, split, b.At, b.Keys, b.Values)
	}}}, records
}

// WholeInput returns a port for a source with one split, and the stream of its records in their order; see [Whole].
func WholeInput[V any, L dataflow.Location](at L, name string) (
	*Port[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce], dataflow.Stream[V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce],
) {
	in, records := dataflow.Input[V](at, name)
	return &Port[struct{}, V, dataflow.TotalOrder, dataflow.ExactlyOnce]{in: input[struct{}, V]{name: name, floors: floorsOf(at, name), send: func(ctx context.Context, split string, b *Batch[struct{}, V]) (int, error) {
		return in.SendBatchAt(ctx, split, b.At, b.Values)
	}}}, records
}

// UnorderedInput returns a port for a source without order, and the stream of its records; see [Unordered].
func UnorderedInput[K comparable, V any, L dataflow.Location](at L, name string) (
	*Port[K, V, dataflow.NoOrder, dataflow.ExactlyOnce], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce],
) {
	in, records := keyedstream.SharedInput[K, V](at, name)
	return &Port[K, V, dataflow.NoOrder, dataflow.ExactlyOnce]{in: input[K, V]{name: name, floors: floorsOf(at, name), send: func(ctx context.Context, split string, b *Batch[K, V]) (int, error) {
		return in.SendBatchAt(ctx, split, b.At, b.Keys, b.Values)
	}}}, records
}

// DeliveredInput returns a port for a source whose records may come again, and the stream of its records; see [Delivered].
func DeliveredInput[K comparable, V any, L dataflow.Location](at L, name string) (
	*Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce],
) {
	in, records := keyedstream.RetriedInput[K, V](at, name)
	return &Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce]{in: input[K, V]{name: name, send: func(ctx context.Context, _ string, b *Batch[K, V]) (int, error) {
		return in.SendBatch(ctx, b.Keys, b.Values)
	}}}, records
}

// EntryPort returns a port for a source whose records have a key that identifies them, on an input of entries.
// A record that comes again is taken once, and each key that was taken is remembered. Keys that a durable flow
// has put into quarantine count as taken.
func EntryPort[K comparable, V any](in *dataflow.EntryInputPort[K, V], name string) *Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce] {
	return &Port[K, V, dataflow.NoOrder, dataflow.AtLeastOnce]{in: input[K, V]{name: name, send: func(ctx context.Context, _ string, b *Batch[K, V]) (int, error) {
		errs, err := in.PutBatch(ctx, b.Keys, b.Values)
		for i, e := range errs {
			if e != nil && !errors.Is(e, dataflow.ErrDuplicateKey) && !errors.Is(e, dataflow.ErrQuarantined) {
				return i, e
			}
		}
		if errors.Is(err, dataflow.ErrQuarantined) {
			err = nil
		}
		return len(errs), err
	}}}
}

// floorsOf adds an input for the floors of another input, and keeps the latest floor of each split.
func floorsOf[L dataflow.Location](at L, name string) *dataflow.SharedKeyedInputPort[place, floor] {
	in, notes := keyedstream.SharedInput[place, floor](at, name+" floors")
	floors := keyedstream.AssumeOrder(notes, "two processes may read a split for a moment, and any floor of either is true")
	keyedstream.Fold(floors, func() floor { return floor{Clean: true} }, func(last *floor, x floor) {
		if x.Asked != 0 {
			last.Asked = x.Asked
		} else if !last.Position.After(x.Position) {
			x.Asked = last.Asked
			*last = x
		}
	})
	return in
}

// Send sends records to a port as if they came from a split with that ID. It is for tests and for the simulator. Records whose
// positions are not after those of previous ones are dropped.
func (p *Port[K, V, O, R]) Send(ctx context.Context, split string, b *Batch[K, V]) error {
	_, err := p.in.send(ctx, split, b)
	return err
}

// A DeadLetterPort is where records that could not be decoded, or that the flow has refused, enter it; see [Options].DeadLetters.
type DeadLetterPort struct {
	in      *dataflow.SharedKeyedInputPort[string, Poison]
	repeats bool // the type of the stream says that letters may come again
}

// DeadLetters returns a port for records that could not be decoded or were refused, and the stream of them. Their key is the name
// of the port for which they were read. Each comes once. One port serves any number of sources whose records have positions.
// [Attach] panics if it is used with a [Delivered] source, because the records of such a source, and so its letters, may come
// again.
func DeadLetters[L dataflow.Location](at L, name string) (
	*DeadLetterPort, dataflow.KeyedStream[string, Poison, L, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce],
) {
	in, letters := keyedstream.SharedInput[string, Poison](at, name)
	return &DeadLetterPort{in: in}, letters
}

// RepeatedDeadLetters is like [DeadLetters], but for any source: letters may come again.
func RepeatedDeadLetters[L dataflow.Location](at L, name string) (
	*DeadLetterPort, dataflow.KeyedStream[string, Poison, L, bounds.Unbounded, dataflow.NoOrder, dataflow.AtLeastOnce],
) {
	in, letters := keyedstream.RetriedInput[string, Poison](at, name)
	return &DeadLetterPort{in: in, repeats: true}, letters
}

// add sends letters of records without positions, which may come again.
func (p *DeadLetterPort) add(ctx context.Context, input string, bad []Poison) error {
	inputs := make([]string, len(bad))
	for i := range bad {
		inputs[i] = input
	}
	_, err := p.in.SendBatch(ctx, inputs, bad)
	return err
}

// send sends letters with positions, so each comes once.
func (p *DeadLetterPort) send(ctx context.Context, input string, s Split, bad []Poison) error {
	at, inputs := make([]dataflow.Position, len(bad)), make([]string, len(bad))
	for i := range bad {
		at[i], inputs[i] = bad[i].At, input
	}
	// One split may be read for several inputs, each of which has its own letters.
	_, err := p.in.SendBatchAt(ctx, input+"/"+s.ID, at, inputs, bad)
	return err
}
